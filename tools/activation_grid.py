"""Every int8 code through every activation, over a grid of scales and zero points, on the three interpreters.

`python tools/activation_grid.py` prints the number of cases and of codes that differ from the float64 result.
Under the algebraic lowering a tie may fall to the other side, since the interpreters add and multiply in float32; under
the table lowering nothing may differ.
"""

import dataclasses
import sys
from collections.abc import Iterator

import numpy as np

from sqp_tflite.flatbuffer.edit import Editor
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.flatbuffer.tables import lower
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import RUNTIMES
from sqp_tflite.quantize.recipe import Quantized, Request
from sqp_tflite.worker import Worker

B = (0.01, 0.25, 1.0, 1.5238, 1.9218, 4.0, 16.0, 100.0)
RANGES = (
    (-1.0, 1.0),
    (-0.02, 0.03),
    (-6.0, 6.0),
    (-127.0, 128.0),
    (-3.0, 21.7),
    (-40.0, 1.3),
    (0.0, 9.1),
    (-5.5, 0.0),
    (-1000.0, 700.0),
    (-0.37, 11.0),
)
"""Of the input: symmetric, lopsided, one-sided, tiny and huge. The output's range follows from the activation."""

ACTIVATIONS = (
    *(f"squareplus:{b:g}" for b in B),
    *"softplus sigmoid tanh silu gelu gelu_tanh elu selu celu mish exponential log_sigmoid softsign".split(),
    *"hard_sigmoid hard_silu hard_tanh leaky_relu relu6".split(),
)
CODES = np.arange(-128, 128)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One activation on one range and one interpreter: how many of the 256 codes differ, and by how many steps."""

    activation: str
    limits: tuple[float, float]
    runtime: str
    different: int
    steps: int


def converted(activation: str) -> tuple[bytes, str, str]:
    """Returns the float file of an activation on 256 elements, and the names of its input and output."""
    import keras

    from sqp_tflite.source.convert import convert_graph
    from sqp_tflite.source.load import load
    from sqp_tflite.source.plan import plan
    from sqp_tflite.source.trace import trace

    inputs = keras.Input((256,), name="x")
    model = keras.Model(inputs, keras.layers.Activation(function(activation), name="act")(inputs))
    traced = trace(plan(load(model)))
    names = tuple(spec.name for spec in traced.inputs)
    editor = Editor(convert_graph(traced.graph_def, names, traced.outputs))
    editor.give_own_names()
    return editor.bytes(), names[0], traced.outputs[0]


def function(activation: str):
    """Returns what Keras calls: squareplus with its b, or an activation of Keras."""
    import keras

    import sqp_keras

    name, _, b = activation.partition(":")
    if name == "squareplus":
        return sqp_keras.Squareplus(b=float(b))
    if name == "gelu_tanh":
        return lambda x: keras.activations.gelu(x, approximate=True)
    return keras.activations.get(name)


def exact(activation: str, x: np.ndarray) -> np.ndarray:
    """Returns the activation in float64, from its definition."""
    from scipy import special

    name, _, b = activation.partition(":")
    with np.errstate(over="ignore"):
        formulas = {
            "squareplus": lambda: (x + np.sqrt(x * x + float(np.float32(float(b or 4)) / 4) * 4)) / 2,
            "softplus": lambda: np.logaddexp(0, x),
            "sigmoid": lambda: special.expit(x),
            "tanh": lambda: np.tanh(x),
            "silu": lambda: x * special.expit(x),
            "gelu": lambda: x * special.ndtr(x),
            "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            "elu": lambda: np.where(x > 0, x, np.expm1(x)),
            "selu": lambda: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
            "celu": lambda: np.maximum(x, 0) + np.minimum(0, np.expm1(np.minimum(x, 0))),
            "mish": lambda: x * np.tanh(np.logaddexp(0, x)),
            "exponential": lambda: np.exp(x),
            "log_sigmoid": lambda: -np.logaddexp(0, -x),
            "softsign": lambda: x / (1 + np.abs(x)),
            "hard_sigmoid": lambda: np.clip(x / 6 + 0.5, 0, 1),
            "hard_silu": lambda: x * np.clip(x / 6 + 0.5, 0, 1),
            "hard_tanh": lambda: np.clip(x, -1, 1),
            "leaky_relu": lambda: np.where(x >= 0, x, 0.2 * x),
            "relu6": lambda: np.clip(x, 0, 6),
        }
        return formulas[name]()


def run(
    activations: tuple[str, ...], ranges: tuple[tuple[float, float], ...], lowering: str, targets=RUNTIMES
) -> Iterator[Outcome]:
    """Yields the outcome of every activation, range and interpreter.

    Args:
        activations: Some of `ACTIVATIONS`.
        ranges: Of the input.
        lowering: "algebraic" (squareplus alone has that form here) or "table".
        targets: Interpreters.
    """
    imports = ("sqp_tflite.quantize.recipe", "litert_quantizer.quantizer")
    with Worker(imports) as quantiser, Worker(("sqp_tflite.run.interpreters",)) as interpreters:
        for activation in activations:
            content, source, result = converted(activation)
            for limits in ranges:
                if activation == "exponential" and limits[1] > 12:
                    continue  # Beyond it the file's own ranges are of no use: 255 steps for 5 decades and more.
                outcome = _file(quantiser, content, source, result, activation, limits, lowering)
                for target in targets:
                    yield _one(interpreters, outcome, activation, limits, target)


def _file(quantiser, content, source, result, activation, limits, lowering) -> bytes:
    grid = exact(activation, np.linspace(*limits, 1001))
    ranges = {tensor.name: (-1.0, 1.0) for tensor in read(content).main.tensors}
    ranges |= {source: limits, result: (float(grid.min()), float(grid.max()))}
    request = Request(Combination("int8", lowering), forms=(result,))
    made: Quantized = quantiser.call("sqp_tflite.quantize.recipe:quantize_here", content, request, ranges)
    editor = Editor(made.content)
    if lowering == "table":
        lower(editor)
    return editor.bytes()


def _one(interpreters: Worker, content: bytes, activation: str, limits: tuple[float, float], target: str) -> Outcome:
    graph = read(content)
    (given,), (made,) = graph.inputs, graph.outputs
    x = (CODES - given.quantization.zero_points[0]) * np.float64(given.quantization.scales[0])
    found = interpreters.call("sqp_tflite.run.interpreters:run_here", target, content, (x[None],)).codes[0].reshape(-1)
    steps = exact(activation, x) / np.float64(made.quantization.scales[0])
    right = np.clip(np.sign(steps) * np.floor(np.abs(steps) + 0.5) + made.quantization.zero_points[0], -128, 127)
    difference = np.abs(found.astype(int) - right.astype(int))
    return Outcome(activation, limits, target, int(np.sum(difference > 0)), int(difference.max()))


def summary(outcomes: list[Outcome]) -> str:
    """Returns the number of cases, of codes that differ, and the largest difference."""
    cases = 256 * len(outcomes)
    different = sum(outcome.different for outcome in outcomes)
    steps = max(outcome.steps for outcome in outcomes)
    return f"{cases:,} cases, {different} differ ({different / cases:.6%}), largest difference {steps} step(s)"


def main() -> int:
    """Runs the whole grid; returns 1 if it is worse than promised."""
    algebraic = list(run(tuple(a for a in ACTIVATIONS if a.startswith("squareplus")), RANGES, "algebraic"))
    print(f"algebraic: {summary(algebraic)}")
    table = list(run(ACTIVATIONS, RANGES, "table"))
    print(f"table:     {summary(table)}")
    for outcome in algebraic + table:
        if outcome.different:
            print(f"  {outcome}")
    ties = sum(outcome.different for outcome in algebraic)
    good = ties * 10_000 <= 256 * len(algebraic) and all(o.steps <= 1 for o in algebraic)
    return 0 if good and not any(outcome.different for outcome in table) else 1


if __name__ == "__main__":
    sys.exit(main())
