"""A name is offered to be mapped to an activation where that works, and nowhere else."""

import pytest

from edited import edited
from sqp_tflite.errors import BadInputError
from sqp_tflite.source.load import load


def function(name, module="evilmod"):
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


def owned(name, registered):
    return {"module": "evilmod", "class_name": name, "registered_name": registered}


OTHER = {
    "a function as initializer": lambda layer: layer["config"].update(kernel_initializer=function("evil")),
    "a class as initializer": lambda layer: layer["config"].update(
        kernel_initializer={**owned("Evil", "Evil"), "config": {}}
    ),
    "a constraint": lambda layer: layer["config"].update(kernel_constraint={**owned("Evil", "Evil"), "config": {}}),
    "a regularizer": lambda layer: layer["config"].update(bias_regularizer=function("evil")),
}


@pytest.mark.parametrize("case", OTHER)
def test_what_is_no_activation_is_not_offered_as_one(case, tmp_path):
    with pytest.raises(BadInputError, match="--import") as caught:
        load(edited(tmp_path / "net.keras", OTHER[case]))
    assert "--map" not in str(caught.value) and "lowering" not in str(caught.value)


ACTIVATIONS = {
    "bent": lambda layer: layer["config"].update(activation=function("bent", "mine")),
    "Evil": lambda layer: layer.update(owned("Evil", "Evil")),
    "p>Evil": lambda layer: layer.update(owned("Evil", "p>Evil")),
    "evilmod.Evil": lambda layer: layer.update(owned("evilmod.Evil", "evilmod.Evil")),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_map_works_and_is_offered_for_what_must_be_an_activation(name, tmp_path):
    path = edited(tmp_path / "net.keras", ACTIVATIONS[name])
    with pytest.raises(BadInputError) as caught:
        load(path)
    # A class among the layers may be any layer.
    assert ("--map" in str(caught.value)) == (f"{name}=ACT" in str(caught.value)) == (name == "bent")
    assert load(path, names={name: "elu"}).model.built


@pytest.mark.parametrize("held", [{"value": "abcd"}, {"config": {"value": "abcd"}}])
def test_a_module_of_pytorch_is_called_one(held, tmp_path):
    config = {"name": "theirs", "module": {"class_name": "__bytes__", **held}}
    path = edited(tmp_path / "net.keras", lambda layer: layer.update(class_name="TorchModuleWrapper", config=config))
    with pytest.raises(BadInputError, match="`theirs` of .* a module of PyTorch .*Write it with Keras layers"):
        load(path)
