"""Any small model of the supported layers, in any options, agrees with Keras or is refused with a remedy.

The file is run here, by the interpreters themselves: the product's own comparison has no part in it.
"""

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import sqp_tflite
from random_models import build, models, options

LIMITS = {"float32": 2e-4, "float16": 0.03, "dynamic": 0.25, "int8": 0.3, "int16x8": 0.25}
"""Max error over the size of the outputs: about what the product allows over their range, `run/compare.py` says why."""

REPLACED = {"accurate": 0.1, "fast": 1.0}
"""The same for exchanged activations: accurate changes one by 0.001 of its range, which later layers enlarge; fast
promises nothing for a model that is not trained again."""

settled = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)


def samples(model):
    return np.random.default_rng(3).standard_normal((16, *model.input_shape[1:])).astype("float32")


def litert(content, rows):
    from ai_edge_litert.interpreter import Interpreter

    opened = Interpreter(model_content=content, num_threads=1)
    opened.allocate_tensors()
    (source,), (result,) = opened.get_input_details(), opened.get_output_details()

    def one(row):
        opened.set_tensor(source["index"], coded(row[None], source["dtype"], *source["quantization"]))
        opened.invoke()
        return real(opened.get_tensor(result["index"])[0], *result["quantization"])

    return np.stack([one(row) for row in rows])


def tflm(content, rows):
    from tflite_micro import runtime

    opened = runtime.Interpreter.from_bytes(content, arena_size=1 << 21)
    source, result = opened.get_input_details(0), opened.get_output_details(0)

    def numbers(details):
        held = details["quantization_parameters"]
        return (held["scales"][0], held["zero_points"][0]) if len(held["scales"]) else (0.0, 0)

    def one(row):
        opened.set_input(coded(row[None], source["dtype"], *numbers(source)), 0)
        opened.invoke()
        return real(opened.get_output(0)[0], *numbers(result))

    return np.stack([one(row) for row in rows])


def coded(values, dtype, scale, zero):
    if not scale:
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.round(values / scale) + zero, limits.min, limits.max).astype(dtype)


def real(codes, scale, zero):
    return (codes.astype("float64") - zero) * scale if scale else codes.astype("float64")


def judge(wanted, chosen):
    """Exports a model and looks at the outcome; returns what it was."""
    model = build(wanted)
    rows = samples(model)
    try:
        made = sqp_tflite.export(model, data={"x": rows}, **chosen)
    except sqp_tflite.RefusedError as error:
        assert error.findings
        for finding in error.findings:
            assert finding.rule and finding.remedy, finding
        return "refused"
    expected = np.asarray(model(rows), "float64")
    limit = LIMITS[chosen["quantize"]] + REPLACED.get(chosen["replace"], 0.0)
    dropped = chosen["head"] == "logits" and wanted["head"] in ("softmax", "sigmoid")
    for run in (litert, tflm) if chosen["target"] == "tflm" else (litert,):
        found = run(made.model_bytes, rows)
        if dropped:
            found = np.asarray(keras.activations.get(wanted["head"])(keras.ops.convert_to_tensor(found)))
        size = max(float(np.abs(expected).max()), float(np.ptp(expected)), 1e-6)
        assert found.shape == expected.shape
        assert np.isfinite(found).all()
        assert float(np.abs(found - expected).max()) <= limit * size, (run.__name__, limit)
    return "agrees"


@settings(settled, max_examples=4)
@given(models(), options)
def test_a_small_model_agrees_or_is_refused_with_a_remedy(wanted, chosen):
    judge(wanted, chosen)


@pytest.mark.large
@settings(settled, max_examples=300)
@given(models(recurrent=True), options)
def test_many_small_models_agree_or_are_refused_with_a_remedy(wanted, chosen):
    judge(wanted, chosen)


def test_a_wrong_file_and_a_refusal_without_remedy_are_seen(monkeypatch):
    """The planted faults: another model's file, and a finding that does not say what to do."""
    wanted = {
        "kind": "vector",
        "shape": (3,),
        "body": [],
        "flat": "",
        "top": [],
        "units": 2,
        "head": "linear",
        "seed": 0,
    }
    chosen = {"quantize": "float32", "lowering": "algebraic", "target": "litert", "replace": None, "head": "keep"}
    assert judge(wanted, chosen) == "agrees"
    other = sqp_tflite.export(build({**wanted, "seed": 1}), target="litert")
    monkeypatch.setattr(sqp_tflite, "export", lambda *_, **__: other)
    with pytest.raises(AssertionError, match="litert"):
        judge(wanted, chosen)

    def refuses(*_, **__):
        from sqp_tflite.report import Finding, Kind

        raise sqp_tflite.RefusedError("no", (Finding("head", "EXP", "float32", "no EXP", "", Kind.OP),))

    monkeypatch.setattr(sqp_tflite, "export", refuses)
    with pytest.raises(AssertionError, match="no EXP"):
        judge(wanted, chosen)
