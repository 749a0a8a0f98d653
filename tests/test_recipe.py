"""What the quantiser is told: ranges of weights with dead channels, of dead tensors and of rsqrt(v)."""

import numpy as np
import pytest

import models
import sqp_tflite
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.quantize import recipe
from sqp_tflite.quantize.recipe import Request, quantize_here
from sqp_tflite.quantize.scales import DEAD_RANGE, ROOT_SPAN, statistics, weight_ranges
from written import RANGES, Written, perceptron

BIAS = np.array([0.5, 3.0, -2.0, 0.25], np.float32)


def dead_channels() -> bytes:
    """Weights of 0 and of 1e-12 beside ordinary ones, all with a bias."""
    weights = np.random.default_rng(0).uniform(-1, 1, (4, 4)).astype(np.float32)
    weights[1], weights[2] = 0.0, weights[2] * 1e-12
    return perceptron(weights, BIAS)


def bias_error(quantize) -> float:
    """The largest difference of a stored bias from the float one, over the bias."""
    request = Request(Combination(quantize, "algebraic"))
    bias = read(quantize_here(dead_channels(), request, RANGES).content).main.by_name()["bias"]
    return float(np.abs(bias.values * np.array(bias.quantization.scales) / BIAS - 1).max())


@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
def test_the_bias_of_a_dead_channel_is_kept(quantize):
    # 2**-10: a step of the bias is a product of two scales, the coarsest here is 6e-5 of a bias of 0.25.
    assert bias_error(quantize) < 2**-10


@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
def test_a_lost_bias_is_seen(quantize, monkeypatch):
    """The planted fault: weights keep the ranges that the quantiser finds by itself."""
    monkeypatch.setattr(recipe, "weight_ranges", lambda *arguments: {})
    with np.errstate(all="ignore"):
        assert bias_error(quantize) > 0.5


def test_no_channel_has_a_scale_below_a_4096th_of_the_widest():
    request = Request(Combination("int8", "algebraic"))
    scales = read(quantize_here(dead_channels(), request, RANGES).content).main.by_name()["kernel"].quantization.scales
    # The widest is rounded to float32 by the quantiser.
    assert min(scales) >= max(scales) / 4096 * (1 - 2**-20)


def test_ordinary_weights_keep_the_ranges_that_the_quantiser_finds():
    graph = read(perceptron()).main
    assert weight_ranges(graph, statistics(graph, RANGES), 8) == {}


def test_a_tensor_that_is_always_0_gets_a_range():
    graph = read(perceptron()).main
    found = statistics(graph, {"x": (0.0, 0.0), "hidden": (-1e-9, 1e-9), "y": (-1.0, 2.0)})
    assert {name: (float(row["min"]), float(row["max"])) for name, row in found.items()} == {
        "x": (0.0, DEAD_RANGE),
        "hidden": (0.0, 1e-6),
        "y": (-1.0, 2.0),
    }


def test_rsqrt_is_clipped_where_the_roots_span_too_much():
    model = Written()
    v = model.value(name="layer/sqp.act/v")
    root = model.op("RSQRT", v, name="layer/sqp.act/Rsqrt")
    graph = read(model.ends([v], [root])).main
    found = statistics(graph, {"layer/sqp.act/v": (1e-6, 4.0), "layer/sqp.act/Rsqrt": (0.5, 1000.0)})
    assert float(found["layer/sqp.act/Rsqrt"]["max"]) == ROOT_SPAN / 2
    near = statistics(graph, {"layer/sqp.act/v": (0.25, 4.0), "layer/sqp.act/Rsqrt": (0.5, 2.0)})
    assert float(near["layer/sqp.act/Rsqrt"]["max"]) == 2.0


def test_a_sum_that_is_next_to_0_keeps_the_multiplier_of_the_kernels_below_1():
    model = Written()
    left, right = model.value(name="left"), model.value(name="right")
    graph = read(model.ends([left, right], [model.op("SUB", left, right, name="difference")])).main
    found = statistics(graph, {"left": (0.0, 4.0), "right": (0.0, 1.0), "difference": (0.0, 1e-5)})
    assert 2 * 4.0 / 2**15 < float(found["difference"]["max"]) < 1e-3
    wide = statistics(graph, {"left": (0.0, 4.0), "right": (0.0, 1.0), "difference": (-1.0, 0.5)})
    assert (float(wide["difference"]["min"]), float(wide["difference"]["max"])) == (-1.0, 0.5)


def dense_scales(content: bytes) -> list[int]:
    main = read(content).main
    ops = [op for op in main.ops if op.name == "FULLY_CONNECTED"]
    return [len(main.tensors[op.inputs[1]].quantization.scales) for op in ops]


@pytest.mark.parametrize("quantize", ["int8", "int16x8"])
def test_per_tensor_gives_dense_weights_one_scale(quantize):
    model = models.dense(units=(6, 3))
    # One unit without weights: its own range would be widened for its bias.
    kernel, bias = model.layers[-1].get_weights()
    kernel[:, 1] = 0
    model.layers[-1].set_weights([kernel, bias + 1])
    data = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    by_unit = sqp_tflite.export(model, quantize=quantize, data=data)
    by_layer = sqp_tflite.export(model, quantize=quantize, data=data, per_tensor=True)
    assert dense_scales(by_unit.model_bytes) == [6, 3] and dense_scales(by_layer.model_bytes) == [1, 1]
    assert any("November 2024" in note and "--per-tensor" in note for note in by_unit.report.notes)
    assert not any("November 2024" in note for note in by_layer.report.notes)
    assert by_layer.report.worst("tflm").error_of_range < 0.05


def test_per_tensor_is_for_integer_models():
    with pytest.raises(sqp_tflite.BadInputError, match="per_tensor.*--quantize float32. Add --quantize int8"):
        sqp_tflite.export(models.dense(), per_tensor=True)
