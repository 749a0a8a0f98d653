"""The real interpreters, each run in a child process."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sqp_tflite.accept import quoted
from sqp_tflite.errors import CrashedError
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.flatbuffer.read import ends, read
from sqp_tflite.limits import Limit
from sqp_tflite.ops.policy import HALF, NAMES, RELEASES, RUNTIMES, runtime_of
from sqp_tflite.run import arena
from sqp_tflite.run.arena import tensor_bytes
from sqp_tflite.run.half import in_half, rounded
from sqp_tflite.worker import ChildError, lent

_MODULES = {
    "litert": "ai_edge_litert", "tflite-runtime": "tflite_runtime", "tflm": "tflite_micro", HALF: "ai_edge_litert"
}  # fmt: skip
_DISTRIBUTIONS = {
    "litert": "ai-edge-litert", "tflite-runtime": "tflite-runtime", "tflm": "tflite-micro", HALF: "ai-edge-litert"
}  # fmt: skip
INSTALL = {
    "litert": "pip install ai-edge-litert",
    "tflite-runtime": "pip install 'sqp-keras[tflite-runtime]' (Python 3.11 or older, numpy 1)",
    "tflm": "pip install 'tflite-micro>=0.dev20260101' (only for Linux on x86-64; elsewhere use a container or WSL)",
    HALF: "pip install ai-edge-litert",
}


@dataclass(frozen=True, slots=True)
class Outputs:
    """An interpreter's outputs for a batch of samples.

    Attributes:
        values: One array per output, shape (samples, ...), as real numbers.
        codes: The interpreter's own numbers (equal to `values` for a float file).
        scales: Step of each output; None for a float output.
    """

    values: tuple[NDArray[Any], ...]
    codes: tuple[NDArray[Any], ...]
    scales: tuple[float | None, ...]


class RuntimeFailedError(Exception):
    """An interpreter refused a file or crashed on it; the message is the interpreter's own."""


def installed(runtime: str) -> bool:
    """Returns whether the interpreter can be imported here."""
    return importlib.util.find_spec(_MODULES[runtime]) is not None


def version(runtime: str) -> str:
    """Returns the installed version, "" if it is not installed."""
    try:
        return importlib.metadata.version(_DISTRIBUTIONS[runtime])
    except importlib.metadata.PackageNotFoundError:
        return ""


def stand_in(target: str) -> str:
    """Returns what runs files for a target in place of its own release, with its version; "" if that is installed.

    Args:
        target: One of `policy.TARGETS`.
    """
    runtime = runtime_of(target)
    here = version(runtime)
    return f"{NAMES[runtime]} {here}" if here and RELEASES.get(target, here) != here else ""


def run(runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...]) -> Outputs:
    """Returns the outputs of a file for each sample, one invocation per sample.

    Args:
        runtime: One of `policy.RUNTIMES`, or `policy.HALF`.
        content: The TFLite file.
        inputs: One array per input in the file's order, shape (samples, *shape without batch), as real numbers;
            quantised here if the file's input is.

    Raises:
        RuntimeFailedError: The interpreter refused the file, or crashed.
    """
    return within(runtime, "sqp_tflite.run.interpreters:run_here", runtime, content, inputs)


def within(runtime: str, function: str, *arguments: Any) -> Any:
    """Returns what a function returns in the child process of an interpreter.

    Args:
        runtime: One of `policy.RUNTIMES`, or `policy.HALF`.
        function: "module:function".
        *arguments: Its arguments.

    Raises:
        RuntimeFailedError: The interpreter refused a file, or crashed.
    """
    if runtime not in (*RUNTIMES, HALF):
        raise ValueError(f"`runtime` must be one of {(*RUNTIMES, HALF)}. Received: {runtime!r}.")
    with lent(runtime, ("sqp_tflite.run.interpreters",)) as worker:
        try:
            return worker.call(function, *arguments)
        except (ChildError, CrashedError) as error:
            raise RuntimeFailedError(_reason(error, worker.log())) from error


def run_here(runtime: str, content: bytes, inputs: tuple[NDArray[Any], ...]) -> Outputs:
    """Does the work of `run` in this process, which native code may crash."""
    (ins, outs), opened = ends(content), open_here(runtime, content)
    rows: list[list[NDArray[Any]]] = [[] for _ in outs]
    for sample in range(len(inputs[0])):
        for place, tensor in enumerate(ins):
            opened.set(place, encode(inputs[place][sample].reshape(tensor.shape), tensor))
        opened.invoke()
        for place, row in enumerate(rows):
            row.append(opened.get(place))
    codes = tuple(np.concatenate([value if value.shape[:1] == (1,) else value[None] for value in row]) for row in rows)
    return outputs_of(outs, codes)


def outputs_of(tensors: Sequence[Tensor], codes: tuple[NDArray[Any], ...]) -> Outputs:
    """Returns an interpreter's numbers for some outputs with what they mean.

    Args:
        tensors: The outputs in the file.
        codes: The interpreter's numbers for each.
    """
    values = tuple(decode(code, tensor) for code, tensor in zip(codes, tensors, strict=True))
    scales = tuple(tensor.quantization.scales[0] if tensor.quantization else None for tensor in tensors)
    return Outputs(values, codes, scales)


class Opened(Protocol):
    """A file in an interpreter: inputs and outputs are called by their places."""

    def set(self, place: int, value: NDArray[Any]) -> None:
        """Gives an input its numbers, in the tensor's type and shape."""

    def invoke(self) -> Any:
        """Runs the file once."""

    def get(self, place: int) -> NDArray[Any]:
        """Returns an output's numbers."""


def open_here(runtime: str, content: bytes) -> Opened:
    """Returns a file in an interpreter of this process, which native code may crash."""
    if runtime == HALF:
        return _open_half(content)
    return _open_tflm(content) if runtime == "tflm" else _open_lite(runtime, content)


def try_once(runtime: str, content: bytes) -> None:
    """Runs any file once, on inputs that every model takes: small numbers, and 0 for indices and codes.

    Args:
        runtime: One of `policy.RUNTIMES`, or `policy.HALF`.
        content: The TFLite file.

    Raises:
        RuntimeFailedError: The interpreter refused the file, or crashed.
    """
    within(runtime, "sqp_tflite.run.interpreters:try_here", runtime, content)


def try_here(runtime: str, content: bytes) -> None:
    """Does the work of `try_once` in this process, which native code may crash."""
    graph = read(content)
    opened = open_here(runtime, content)
    generator = np.random.default_rng(0)
    for place, tensor in enumerate(graph.inputs):
        floating = tensor.dtype in ("float32", "float16", "float64")
        values = generator.uniform(0.1, 1.0, tensor.shape) if floating else np.zeros(tensor.shape)
        opened.set(place, _contiguous(values, tensor.dtype))
    opened.invoke()
    for place in range(len(graph.outputs)):
        opened.get(place)


def require_room(graph: Graph, what: str, allowed: Limit) -> None:
    """Checks the largest tensor that an interpreter would have to hold: a shape may say anything.

    Args:
        graph: What the file declares.
        what: The file, for messages.
        allowed: What the tensor may take.

    Raises:
        BadInputError: It takes more.
    """
    tensors = [tensor for subgraph in graph.subgraphs for tensor in subgraph.tensors if not tensor.constant]
    sizes = {tensor.name: tensor_bytes(tensor) for tensor in tensors}
    if sizes:
        largest = max(sizes, key=lambda name: sizes[name])
        allowed.require(sizes[largest], f"{what} declares the tensor {quoted(largest)} of")


def encode(values: NDArray[Any], tensor: Any) -> NDArray[Any]:
    """Returns real numbers in an input tensor's type; if it is quantised, as the interpreters' QUANTIZE does it.

    That is the nearest step, halves away from 0, computed in float32 and clipped; NaN becomes the least code.
    """
    if tensor.quantization is None:
        return _contiguous(values, tensor.dtype)
    limits, zero = np.iinfo(tensor.dtype), tensor.quantization.zero_points[0]
    steps = values.astype(np.float32) / np.float32(tensor.quantization.scales[0])
    inside = np.clip(np.nan_to_num(steps, nan=-np.inf), limits.min - zero, limits.max - zero)
    whole = np.trunc(inside)
    codes = whole + np.copysign(np.abs(inside - whole) >= 0.5, inside) + zero
    return _contiguous(codes, tensor.dtype)


def _contiguous(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Returns values as interpreters take them; `numpy.ascontiguousarray` would make one of shape (1,) of a scalar."""
    return np.require(values, dtype, "C")


def decode(codes: NDArray[Any], tensor: Any) -> NDArray[Any]:
    """Returns an output's codes as real numbers."""
    if tensor.quantization is None:
        return codes
    return (codes.astype(np.float64) - tensor.quantization.zero_points[0]) * tensor.quantization.scales[0]


class _Lite:
    def __init__(self, interpreter: Any):
        interpreter.allocate_tensors()
        self._interpreter = interpreter
        self._inputs = [detail["index"] for detail in interpreter.get_input_details()]
        self._outputs = [detail["index"] for detail in interpreter.get_output_details()]
        self.invoke = interpreter.invoke

    def set(self, place: int, value: NDArray[Any]) -> None:
        self._interpreter.set_tensor(self._inputs[place], value)

    def get(self, place: int) -> NDArray[Any]:
        return self._interpreter.get_tensor(self._outputs[place])


class _Micro:
    def __init__(self, interpreter: Any):
        self._interpreter = interpreter
        self.invoke = interpreter.invoke

    def set(self, place: int, value: NDArray[Any]) -> None:
        self._interpreter.set_input(value, place)

    def get(self, place: int) -> NDArray[Any]:
        return np.array(self._interpreter.get_output(place))


class _Half(_Lite):
    """A file whose operators round to half precision; here its inputs are rounded, too."""

    def set(self, place: int, value: NDArray[Any]) -> None:
        super().set(place, rounded(value) if value.dtype == np.float32 else value)


def _open_half(content: bytes) -> _Half:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Without a delegate, which has approximations of its own.
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return _Half(Interpreter(model_content=in_half(content), num_threads=1, experimental_op_resolver_type=plain))


def _open_lite(runtime: str, content: bytes) -> _Lite:
    if runtime == "litert":
        from ai_edge_litert.interpreter import Interpreter
    else:
        from tflite_runtime.interpreter import Interpreter
    return _Lite(Interpreter(model_content=content, num_threads=1))


def _open_tflm(content: bytes) -> _Micro:
    return _Micro(arena.opened(content, ample_arena(content)))


def ample_arena(content: bytes) -> int:
    """Returns an arena size, in bytes, that is always enough: all tensors side by side, and buffers of the kernels."""
    graph = read(content)
    tensors = sum(tensor_bytes(t) for s in graph.subgraphs for t in s.tensors if not t.constant)
    count = sum(len(subgraph.tensors) + len(subgraph.ops) for subgraph in graph.subgraphs)
    return 2 * tensors + 2048 * count + (1 << 18)


def _reason(error: Exception, log: str) -> str:
    """The interpreter's own message; TFLM prints it to standard error only."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line for line in lines if not line.startswith(("INFO", "WARNING", "W0000", "I0000"))]
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"{text} {' | '.join(dict.fromkeys(said[-6:]))}".strip()
