"""Copies a model with some of its activations exchanged; the model that is copied is only read."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from sqp_keras import private
from sqp_keras.family.algebraic_layer import AlgebraicSoftmax
from sqp_keras.family.attention import STOCK, WITH_SCORES, WITH_SOFTMAX
from sqp_keras.models import sites

Substitutes = Mapping[tuple[int, str], Callable[[Any], Any]]
"""(id of the owner, attribute) -> function of the owner that returns the layer, operation or function in its place.
A layer for an owner that is the activation itself (attribute "")."""


class CannotCopyError(ValueError):
    """A model or layer that cannot be made again from its configuration."""


def rebuild(model: keras.Model, substitutes: Substitutes, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Returns a copy of the model with the same names and weights, in which the substitutes are exchanged.

    Layers used twice stay shared, nested models stay nested. The copy has never been traced, so an exchanged attribute
    takes effect. It is not compiled.

    Args:
        model: A built Keras model.
        substitutes: What to exchange.
        custom_objects: The user's classes and functions that the model needs, besides those found in it.

    Raises:
        CannotCopyError: A user's layer has no usable `get_config`, or the model has no weights yet.
    """
    if not model.built:
        raise CannotCopyError(
            f"A model is copied with its weights, so it must have some. Received: `{model.name}`, not built yet. "
            "Call it on data once, or build it."
        )
    objects = {**_own_objects(model), **(custom_objects or {})}
    with keras.saving.custom_object_scope(objects):
        new = _copy(model, substitutes, {})
    pairs = _pairs(model, new)
    _exchange(pairs, substitutes)
    with keras.saving.custom_object_scope(objects):
        _exchange_inside(new, pairs, substitutes)
    weights = model.get_weights()
    if [w.shape for w in weights] != [tuple(w.shape) for w in new.weights]:
        raise CannotCopyError(
            f"The copy of `{model.name}` made from its configuration has other weights ({len(new.weights)} against "
            f"{len(weights)}). Let get_config return every argument that the model was made with."
        )
    new.set_weights(weights)
    for _, layer in sites.paths(new):
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()  # It computes with a copy of its statistics, which set_weights leaves as it was.
    return new


def copied_activation(owner: Any) -> Any:
    """Returns a copy of an activation layer or of any operation that is not part of a graph yet."""
    if isinstance(owner, keras.layers.Layer):
        return _from_config(owner)
    new = copy.copy(owner)
    private.forget_calls(new)
    return new


def _copy(model: keras.Model, substitutes: Substitutes, cache: dict[int, Any]) -> Any:
    if isinstance(model, keras.Sequential) or sites.is_functional(model):
        more = {} if isinstance(model, keras.Sequential) else {"call_function": _called}
        with _not_compiled(model):
            return keras.models.clone_model(
                model, clone_function=lambda layer: _copy_layer(layer, substitutes, cache), **more
            )
    new = _from_config(model)
    if not new.built and private.build_shapes(model):
        new.build_from_config(model.get_build_config())
    if not new.built or len(new.weights) != len(model.weights):
        _build_like(new, model)
    return new


def _called(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a copied layer without the `mask=None` that Keras records for a Softmax: what replaces it may take none."""
    if kwargs.get("mask", layer) is None:
        del kwargs["mask"]
    return layer(*args, **kwargs)


@contextlib.contextmanager
def _not_compiled(model: Any) -> Iterator[None]:
    """Keeps Keras from compiling a clone like its model, which fails for a user's own loss."""
    compiled, model.compiled = model.compiled, False
    try:
        yield
    finally:
        model.compiled = compiled


def _copy_layer(layer: Any, substitutes: Substitutes, cache: dict[int, Any]) -> Any:
    if id(layer) not in cache:
        cache[id(layer)] = _copied_layer(layer, substitutes, cache)
    return cache[id(layer)]


def _copied_layer(layer: Any, substitutes: Substitutes, cache: dict[int, Any]) -> Any:
    if (id(layer), "") in substitutes:
        return substitutes[id(layer), ""](layer)
    if isinstance(layer, keras.Sequential) or sites.is_functional(layer):
        return _copy(layer, substitutes, cache)
    if not isinstance(layer, keras.layers.Layer):
        return copied_activation(layer)
    if type(layer) in WITH_SOFTMAX and (id(private.attention_softmax(layer)), "") in substitutes:
        return WITH_SOFTMAX[type(layer)].from_config(layer.get_config())
    if type(layer) is keras.layers.Lambda:
        return _copied_lambda(layer)
    return _from_config(layer)


def _copied_lambda(layer: Any) -> Any:
    shape = private.lambda_output_shape(layer)
    return keras.layers.Lambda(
        layer.function, output_shape=shape, mask=layer.mask, arguments=layer.arguments, name=layer.name
    )


def _from_config(layer: Any) -> Any:
    try:
        config = layer.get_config()
        functions = {
            name: held
            for name in sites.activation_attributes(layer)
            if name in config and not isinstance(held := getattr(layer, name), keras.layers.Layer)
        }
        # Functions are copied as they are: a user's own, a lambda for instance, cannot be made from its name.
        new = type(layer).from_config({**config, **dict.fromkeys(functions, "linear")})
    except (NotImplementedError, TypeError, ValueError, AttributeError, KeyError) as error:
        cause = " ".join(str(error).split())
        raise CannotCopyError(
            f"`{layer.name}` ({type(layer).__name__}) cannot be made again from its configuration: {cause}. "
            "Give the class a get_config that returns what its __init__ takes."
        ) from error
    for name, function in functions.items():
        setattr(new, name, function)
    return new


def _build_like(new: Any, model: keras.Model) -> None:
    first = next(iter(private.build_shapes(model).values()), None)
    if first is None:
        raise CannotCopyError(
            f"`{model.name}` ({type(model).__name__}) does not know its input shape, so its copy cannot be built. "
            "Call it on data once before, or give it get_build_config and build_from_config."
        )
    inputs = keras.tree.map_shape_structure(lambda one: keras.KerasTensor(one, dtype="float32"), first)
    new(inputs)


def _own_objects(model: keras.Model) -> dict[str, Any]:
    """Returns the user's classes and functions in a model, by name: the custom objects that loading it would need."""
    found: dict[str, Any] = {}
    for _, child in [("", model), *sites.paths(model)]:
        if type(child).__module__.split(".")[0] not in ("keras", "sqp_keras"):
            found[type(child).__name__] = type(child)
        for name in sites.activation_attributes(child):
            function = getattr(child, name)
            if sites.identify(function).name == sites.UNKNOWN:
                found[getattr(function, "__name__", type(function).__name__)] = (
                    function if hasattr(function, "__name__") else type(function)
                )
    return found


def _pairs(old: Any, new: Any) -> list[tuple[Any, Any]]:
    """Returns the old model's layers and operations with those of its copy, parents before children."""
    pairs: list[tuple[Any, Any]] = []
    _pair(old, new, pairs, set())
    return pairs


def _pair(old: Any, new: Any, pairs: list[tuple[Any, Any]], seen: set[int]) -> None:
    pairs.append((old, new))
    if not isinstance(old, keras.layers.Layer) or sites.is_activation(old):
        return
    before, after = _held(old), _held(new)
    if len(before) != len(after):
        raise CannotCopyError(
            f"The copy of `{old.name}` made from its configuration holds {len(after)} layers, the original "
            f"{len(before)}. Let get_config return every argument that it was made with."
        )
    # An operation may have become a layer, which Keras lists elsewhere. So they are matched by name, and by order if
    # a class gives its layers new names each time.
    named = {child.name: child for child in after}
    if {child.name for child in before} == set(named) and len(named) == len(after):
        after = [named[child.name] for child in before]
    for one, other in zip(before, after, strict=True):
        if id(one) not in seen:
            seen.add(id(one))
            _pair(one, other, pairs, seen)


def _held(parent: Any) -> list[Any]:
    return [child for child in sites.held_by(parent) if not isinstance(child, keras.layers.InputLayer)]


def _exchange(pairs: list[tuple[Any, Any]], substitutes: Substitutes) -> None:
    for old, new in pairs:
        shown = sites.in_own_code(old)
        if any((id(old), name) in substitutes for name in shown):
            _show(new, shown)
        for name in (*sites.activation_attributes(old), *shown):
            if (id(old), name) in substitutes:
                _set(new, name, substitutes[id(old), name](old))


def _show(new: Any, names: tuple[str, ...]) -> None:
    """Gives attention attributes in which it holds its softmax and tanh."""
    if not private.become(new, WITH_SCORES[type(new)]):
        raise CannotCopyError(
            f"The softmax of `{new.name}` ({type(new).__name__}) cannot be exchanged in this Keras release. "
            "Keep it: keep=['softmax', 'tanh']."
        )
    for name in names:
        object.__setattr__(new, name, STOCK[name])


def _exchange_inside(new_model: Any, pairs: list[tuple[Any, Any]], substitutes: Substitutes) -> None:
    """Exchanges the activation layers that no clone function reaches: in wrappers and in the user's layers."""
    left = {id(new): make for old, new in pairs if (make := substitutes.get((id(old), ""))) and type(old) is type(new)}
    if not left:
        return
    for parent in [new_model, *(new for _, new in pairs)]:
        for name, child in list(_children(parent)):
            if id(child) in left:
                _swap(parent, name, child, left[id(child)](child))
            elif isinstance(child, keras.Sequential) or sites.is_functional(child):
                inner = {(key, ""): make for key, make in left.items()}
                if any((id(held), "") in inner for _, held in sites.paths(child)):
                    _swap(parent, name, child, _copy(child, inner, {}))


def _children(parent: Any) -> Iterator[tuple[str, Any]]:
    if (
        isinstance(parent, keras.Sequential)
        or sites.is_functional(parent)
        or not isinstance(parent, keras.layers.Layer)
    ):
        return
    for name, value in private.attributes_of(parent).items():
        if isinstance(value, keras.layers.Layer):
            yield name, value
        elif isinstance(value, list) and name != private.LAYERS.attribute:
            yield from ((name, item) for item in value if isinstance(item, keras.layers.Layer))


def _swap(parent: Any, name: str, old: Any, new: Any) -> None:
    other = WITH_SOFTMAX.get(type(parent))
    if isinstance(old, keras.layers.Softmax) and other is not None:
        new = AlgebraicSoftmax(old.axis, dtype=old.dtype_policy)
        if not private.become(parent, other):
            raise CannotCopyError(
                f"The softmax of `{parent.name}` ({type(parent).__name__}) cannot be exchanged in this Keras release. "
                "Keep it: keep=['softmax']."
            )
    held = getattr(parent, name)
    if isinstance(held, list):
        list.__setitem__(held, next(i for i, item in enumerate(held) if item is old), new)
    else:
        _set(parent, name, new)
    if not private.list_instead(parent, old, new) and old.weights:
        raise CannotCopyError(
            f"`{old.name}` inside `{parent.name}` ({type(parent).__name__}) cannot be exchanged in this Keras release, "
            "which hides the list of a layer's own layers. Keep its activations: pass their names in `keep`."
        )


def _set(layer: Any, name: str, value: Any) -> None:
    old = getattr(layer, name)
    # Keras locks a built layer against new sublayers, since those could add weights. These add none.
    getattr(layer, "_modules", {}).pop(name, None)  # Where PyTorch keeps a layer, which would hide the new one.
    object.__setattr__(layer, name, value)
    private.list_instead(layer, old, value)
