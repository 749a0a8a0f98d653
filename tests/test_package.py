"""What `import sqp_keras` gives: every public name, without TensorFlow, whatever else is imported."""

import importlib
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import sqp_keras
from conftest import QUICK

WITHOUT_TENSORFLOW = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "ai_edge_litert", "sqp_tflite"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np, keras, sqp_keras
x = np.float32([[-1.0, 0.0, 2.0]])
y = (x + np.sqrt(x * x + 4)) / 2
np.testing.assert_allclose(sqp_keras.squareplus(x), y, rtol=1e-6)
np.testing.assert_allclose(sqp_keras.Squareplus()(x), y, rtol=1e-6)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, "softplus")])
new, report = sqp_keras.replace_activations(model)
assert [row.was for row in report.replacements] == ["softplus"]
np.testing.assert_allclose(new(x), model(x), atol=1e-3)
assert not [name for name in sys.modules if name.split(".")[0] == "tensorflow"]
"""

VALUES = """
import numpy as np, keras, sqp_keras
x = np.float32([-1e30, -300, -1, 0, 2, 300, 1e30])
y = np.asarray(sqp_keras.squareplus(x))
z = np.abs(x.astype(float)) / 2
h = z + np.sqrt(z * z + 1)
np.testing.assert_allclose(y, np.where(x < 0, 1 / h, h), rtol=4e-7)
assert keras.activations.get("squareplus") is sqp_keras.squareplus
np.testing.assert_array_equal(np.asarray(sqp_keras.squareplus(x, 0)), np.maximum(x, 0))
np.testing.assert_allclose(np.asarray(sqp_keras.Squareplus(b=4., floor=1.)(x)), y + 1, rtol=4e-7)
inputs = keras.Input((7,)); model = keras.Model(inputs, sqp_keras.squareplus(inputs))
np.testing.assert_allclose(np.asarray(model(x[None]))[0], y, rtol=4e-7)
if keras.config.backend() == "jax":
    import jax
    f = lambda v: sqp_keras.squareplus(v)
    points = [-3.0, 0.0, 2.0]
    for order, want in ((1, lambda v, s: (1 + v / s) / 2), (2, lambda v, s: 2 / s**3), (3, lambda v, s: -6 * v / s**5)):
        f = jax.grad(f)
        for v in points:
            assert abs(float(f(v)) - want(v, (v * v + 4) ** 0.5)) < 1e-6, (order, v)
    assert abs(float(jax.hessian(sqp_keras.squareplus)(0.0)) - 0.25) < 1e-7
    assert float(jax.grad(lambda v: sqp_keras.squareplus(v, 0))(0.0)) == 0.5
    assert abs(float(jax.grad(lambda b: sqp_keras.squareplus(1.0, b))(np.float32(3))) - 1 / 8) < 1e-7
    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(4, activation=sqp_keras.Squareplus(2., "channel"))])
    model.compile("adam", "mse")
    loss = model.fit(x[None] * 1e-30, np.ones((1, 4)), epochs=20, verbose=0).history["loss"]
    assert loss[-1] < loss[0]
keras.utils.set_random_seed(0)
layers = [keras.layers.Dense(4, a) for a in ("squareplus", "softplus", "tanh")]
model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(2, "softmax")])
rows = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
new, _ = sqp_keras.replace_activations(model, "accurate", data=rows)
np.testing.assert_allclose(new.predict(rows, verbose=0), model.predict(rows, verbose=0), atol=1e-3)
new.save(sys.argv[1])
again = keras.models.load_model(sys.argv[1])
np.testing.assert_array_equal(again.predict(rows, verbose=0), new.predict(rows, verbose=0))
model.compile("sgd", "mse")
try:
    model.fit(rows, np.ones((16, 2)), verbose=0)
    fast, _ = sqp_keras.replace_activations(model, "fast", data=rows)
    assert sqp_keras.distill(fast, model, rows, 1, verbose=0)[1].after >= 0
except NotImplementedError as error:
    assert keras.config.backend() == "numpy" and "fit not implemented for NumPy" in str(error)
else:
    assert keras.config.backend() == "jax"
print("done with", keras.config.backend())
"""


def python(code, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code, *arguments],
        env={"PATH": "", "PYTHONPATH": str(Path(sqp_keras.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_other_backends_give_the_same_values_and_slopes_without_tensorflow(backend, tmp_path):
    # Training, replacing and saving too; on NumPy Keras itself refuses to train.
    ran = python(QUICK + WITHOUT_TENSORFLOW + VALUES, tmp_path / "m.keras", KERAS_BACKEND=backend)
    assert ran.stdout == f"done with {backend}\n", ran.stderr


def test_every_public_name_is_there_and_documented():
    for name in sqp_keras.__all__:
        public = getattr(sqp_keras, name)
        assert not inspect.ismodule(public), name
        assert isinstance(public, float) or inspect.getdoc(public), name


def test_no_module_has_the_name_of_a_public_function():
    children = {module.name for module in pkgutil.iter_modules(sqp_keras.__path__)}
    assert not children & set(sqp_keras.__all__)


def test_public_names_stay_what_they_are_when_every_module_is_imported():
    before = {name: getattr(sqp_keras, name) for name in sqp_keras.__all__}
    names = [module.name for module in pkgutil.walk_packages(sqp_keras.__path__, "sqp_keras.")]
    assert {"sqp_keras.models.distill", "sqp_keras.family.algebraic"} <= set(names)
    # PyTorch is not part of the environment for tests; tests/on_torch.py imports its module.
    missing = {"sqp_keras.backends.torch"} if importlib.util.find_spec("torch") is None else set()
    for name in sorted(set(names) - missing):
        importlib.import_module(name)
    assert {name: getattr(sqp_keras, name) for name in sqp_keras.__all__} == before
    for name in ("algebraic", "distill", "drop_head", "replace_activations", "squareplus"):
        assert inspect.isfunction(getattr(sqp_keras, name))


def test_the_package_says_that_it_is_typed():
    assert (Path(sqp_keras.__file__).parent / "py.typed").is_file()
