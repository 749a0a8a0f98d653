"""Only the thread that traces sees the exchanged parts of Keras, and nothing is left behind."""

import threading
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
import tensorflow as tf

from models import dense
from sqp_keras import forms
from sqp_tflite import pipeline
from sqp_tflite.errors import BadInputError
from sqp_tflite.source import hooks
from sqp_tflite.source.load import load
from sqp_tflite.source.plan import plan
from sqp_tflite.source.trace import trace

L = keras.layers


def bidirectional() -> keras.Model:
    """Squareplus in a recurrent layer, and Keras's own function behind it."""
    keras.utils.set_random_seed(0)
    x = keras.Input((4, 3), name="x")
    gates = {"activation": "squareplus", "recurrent_activation": "hard_sigmoid"}
    h = L.Bidirectional(L.GRU(3, return_sequences=True, **gates), name="both")(x)
    return keras.Model(x, L.Dense(2, name="out")(keras.activations.squareplus(L.Flatten()(h))), name="recurrent")


def half() -> keras.Model:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return dense()
    finally:
        keras.config.set_dtype_policy("float32")


def graph(model: keras.Model) -> bytes:
    return trace(plan(load(model))).graph_def


def export(model: keras.Model) -> bytes:
    return pipeline.export(model, target="litert").model_bytes


class Ordinary:
    """Calls Keras's functions and a recurrent layer until it is told to stop; keeps what was not ordinary."""

    def __init__(self, model: keras.Model):
        self.stopped, self.wrong, self.rounds = threading.Event(), [], 0
        self._model, self._x = model, tf.constant(np.linspace(-2, 2, 24, dtype=np.float32).reshape(2, 4, 3))
        self._expected = model(self._x).numpy()

    def __call__(self) -> None:
        unrolled = [layer for layer in self._model._flatten_layers() if isinstance(layer, L.RNN)]
        expected = (self._x.numpy() + np.sqrt(self._x.numpy() ** 2 + 4)) / 2
        while not self.stopped.is_set() or not self.rounds:
            self.rounds += 1
            traced = tf.function(keras.activations.squareplus).get_concrete_function(self._x)
            names = [op.name for op in traced.graph.get_operations()]
            flipped = tf.function(lambda x: keras.ops.flip(x, axis=1)).get_concrete_function(self._x)
            kinds = {op.type for op in flipped.graph.get_operations()}
            checks = {
                "form": not any("sqp.act" in name for name in names),
                "flip": "ReverseV2" in kinds and "Unpack" not in kinds,
                "value": np.allclose(keras.activations.squareplus(self._x), expected, rtol=1e-6),
                "unroll": not any(layer.unroll for layer in unrolled),
                "model": np.allclose(self._model(self._x), self._expected, rtol=1e-5),
            }
            self.wrong += [name for name, right in checks.items() if not right]


@pytest.mark.large
def test_exports_at_once_give_the_files_of_exports_alone():
    """A recurrent and a dense model, the recurrent one twice, while a third thread computes with it."""
    recurrent, plain = bidirectional(), dense()
    alone = [export(model) for model in (recurrent, plain, recurrent)]
    ordinary = Ordinary(recurrent)
    with ThreadPoolExecutor(4) as pool:
        beside = pool.submit(ordinary)
        try:
            together = list(pool.map(export, (recurrent, plain, recurrent)))
        finally:
            ordinary.stopped.set()
        beside.result()
    assert together == alone
    assert ordinary.rounds and ordinary.wrong == []


def test_many_traces_at_once_give_the_graphs_of_traces_alone():
    """The converter makes the same file of the same graph; whole exports at once are in `make test-large`."""
    recurrent, mixed = bidirectional(), half()
    alone = {model.name: graph(model) for model in (recurrent, mixed)}
    ordinary = Ordinary(recurrent)
    with ThreadPoolExecutor(5) as pool:
        beside = pool.submit(ordinary)
        try:
            models = (recurrent, mixed, recurrent)
            together = list(pool.map(lambda model: (model.name, graph(model)), models))
        finally:
            ordinary.stopped.set()
        beside.result()
    assert all(content == alone[name] for name, content in together)
    assert ordinary.rounds and ordinary.wrong == []
    assert {layer.compute_dtype for layer in mixed.layers} == {"float16"}


def stock() -> dict[str, object]:
    backend = keras.src.backend
    found = {"squareplus": backend.nn.squareplus, "flip": backend.numpy.flip, "unroll": vars(L.RNN).get("unroll")}
    names = ("_open_name_scope", "dtype_policy", "compute_dtype", "variable_dtype")
    return {**found, **{name: vars(L.Layer)[name] for name in names}, "call": vars(L.GRU)["call"]}


def test_nothing_is_left_behind():
    before = stock()
    model = bidirectional()
    trace(plan(load(model)))
    trace(plan(load(half())))
    assert stock() == before
    layers = model._flatten_layers()
    assert not any({"call", "_open_name_scope"} & set(vars(layer)) for layer in layers)
    assert not any(layer.unroll for layer in layers if isinstance(layer, L.RNN))


def test_nothing_is_left_behind_when_tracing_fails():
    class Broken(L.Layer):
        def call(self, x):
            return x if x.shape[0] != 1 else undefined  # noqa: F821

    before = stock()
    with pytest.raises(BadInputError, match="`broken` .*undefined"):
        trace(plan(load(keras.Sequential([keras.Input((3,)), Broken()]))))
    assert stock() == before and forms.current() is None


class Owner:
    """What hooks are put on in the tests below."""

    name = "stock"


def test_a_hook_stays_until_the_last_block_is_done():
    with hooks.hooked(Owner, "name", lambda stock: f"around {stock}"):
        with hooks.hooked(Owner, "name", lambda stock: "never made"):
            assert Owner.name == "around stock"
        assert Owner.name == "around stock"
    assert Owner.name == "stock"


def test_what_somebody_else_put_around_a_hook_is_left():
    try:
        with hooks.hooked(Owner, "name", lambda stock: f"around {stock}"):
            Owner.name = f"theirs around {Owner.name}"
        assert Owner.name == "theirs around around stock"
    finally:
        Owner.name = "stock"


def test_mixed_precision_computes_in_float32_in_this_thread_only():
    layer = half().layers[0]
    seen = []
    with hooks.in_float32(frozenset({id(layer)})):
        thread = threading.Thread(target=lambda: seen.append(layer.compute_dtype))
        thread.start()
        thread.join()
        assert (layer.compute_dtype, layer.dtype_policy.name) == ("float32", "float32")
    assert seen == ["float16"] and layer.compute_dtype == "float16"
