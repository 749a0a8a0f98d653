"""Integers as inputs: what the model casts to float, a file takes as they are, or as codes of a known meaning."""

import keras
import numpy as np
import pytest
from keras import layers as L

import sqp_tflite
from sqp_tflite.flatbuffer.read import read


def image_model(dtype):
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 6, 2), dtype=dtype, name="image")
    y = L.Conv2D(4, 3, activation="squareplus")(L.Rescaling(1 / 64.0, offset=-1.0)(x))
    return keras.Model(x, L.Dense(3, name="scores")(L.Flatten()(y)))


def samples(dtype):
    low, high = (0, 200) if dtype == "uint8" else (-100, 90)
    values = np.random.default_rng(0).integers(low, high, (48, 6, 6, 2))
    return values.astype(dtype)


def ops_of(exported):
    return {row.op for row in exported.report.ops}


@pytest.mark.parametrize(
    ("dtype", "in_file", "says"),
    [
        ("uint8", "float32", "`image` is uint8 in the model and float32 in the file: pass the same numbers as floats"),
        ("int64", "float32", "`image` is int64 in the model and float32 in the file: pass the same numbers as floats"),
        ("float16", "float32", "`image` is float16 in the model and float32 in the file"),
        ("float64", "float32", "`image` is float64 in the model and float32 in the file"),
        ("int8", "int8", ""),
        ("int16", "int16", ""),
        ("int32", "int32", ""),
    ],
)
def test_a_float_file_takes_what_the_target_reads_and_else_floats(dtype, in_file, says):
    exported = sqp_tflite.export(image_model(dtype), data=samples(dtype))
    assert read(exported.model_bytes).inputs[0].dtype == in_file
    assert any(says in note for note in exported.report.notes) if says else "CAST" in ops_of(exported)


@pytest.mark.parametrize(
    ("dtype", "quantize", "scale", "zero", "says"),
    [
        ("uint8", "int8", 1.0, -128, "`image` is uint8 in the model and int8 in the file: pass value - 128"),
        ("int8", "int8", 1.0, 0, "pass the same numbers"),
        ("uint8", "int16x8", 1.0, 0, "pass the same numbers"),
        ("int16", "int16x8", 1.0, 0, "pass the same numbers"),
        ("int16", "int8", None, None, "pass round(value /"),
        ("float64", "int8", None, None, "pass round(value /"),
    ],
)
def test_an_integer_file_takes_the_users_integers(dtype, quantize, scale, zero, says):
    data = samples(dtype)
    exported = sqp_tflite.export(image_model(dtype), data=data, quantize=quantize, lowering="algebraic")
    (tensor,) = read(exported.model_bytes).inputs
    assert tensor.dtype == {"int8": "int8", "int16x8": "int16"}[quantize]
    assert "CAST" not in ops_of(exported)
    assert any(says in note for note in exported.report.notes)
    if scale is not None:
        assert (tensor.quantization.scales[0], tensor.quantization.zero_points[0]) == (scale, zero)


def test_bytes_less_128_give_what_keras_gives():
    from ai_edge_litert.interpreter import Interpreter

    model, data = image_model("uint8"), samples("uint8")
    exported = sqp_tflite.export(model, data=data, quantize="int8")
    interpreter = Interpreter(model_content=exported.model_bytes)
    interpreter.allocate_tensors()
    (out,) = interpreter.get_output_details()
    scale, zero = out["quantization"]
    got = []
    for row in data:
        interpreter.set_tensor(
            interpreter.get_input_details()[0]["index"], (row.astype(int) - 128).astype("int8")[None]
        )
        interpreter.invoke()
        got.append((interpreter.get_tensor(out["index"])[0].astype(float) - zero) * scale)
    wanted = np.asarray(model(data))
    assert np.abs(np.array(got) - wanted).max() < 0.05 * np.ptp(wanted)


def test_tokens_stay_integers():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    model = keras.Model(tokens, L.Dense(2)(L.Flatten()(L.Embedding(9, 3)(tokens))))
    data = np.random.default_rng(0).integers(0, 9, (32, 5))
    exported = sqp_tflite.export(model, data=data, quantize="int8")
    assert read(exported.model_bytes).inputs[0].dtype == "int32"
