"""How much memory a model needs on the device: measured on the real interpreter, and where the peak comes from."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqp_tflite import private, worker
from sqp_tflite.errors import TFLiteFileError
from sqp_tflite.flatbuffer.graph import Graph, Tensor
from sqp_tflite.flatbuffer.schema import holds, inputs_of
from sqp_tflite.versions import version
from sqp_tflite.wording import said

ALIGNMENT = 16
"""TFLM places every buffer, and wants the arena itself, on a multiple of 16 bytes."""

HOST_SIZES = {"TfLiteEvalTensor data": 24, "NodeAndRegistration struct": 64}
"""sizeof on a 64-bit host of the two structs that TFLM keeps from the first moment of allocation to the end."""

TARGET_SIZES = {"TfLiteEvalTensor data": 12, "NodeAndRegistration struct": 32}
"""The same on a 32-bit target: two pointers and an int; eight words that are pointers or sizes."""

_START = 1 << 20
_LARGEST = 1 << 30
_SECONDS_PER_TRIAL = 600
_TOTAL = re.compile(r"Arena allocation (head|tail) (\d+) bytes")
_COUNTED = re.compile(r"'([^']+)' used (\d+) bytes with alignment overhead \(requested (\d+) bytes for (\d+) ")
_SIZES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "complex64": 8}
_SIZES |= {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "resource": 4}


@dataclass(frozen=True, slots=True)
class Arena:
    """What the interpreter of TFLM needs, found by trying; sizes in bytes.

    Attributes:
        needed: The smallest arena, in steps of 16 bytes, with which it allocates and runs on this 64-bit machine. An
            upper bound for a 32-bit target, whose pointers are half as long and whose tensors are just as long.
        head: The part that the tensors share over time. None, as the next three, where the interpreter words its
            list of allocations in an unknown way.
        tail: The part that is kept from start to end (structs, quantisation parameters, the kernels' own data).
        low: No 32-bit target needs less: the head is made of tensors, the tail shrinks to half at most.
        high: No 32-bit target with the same kernels needs more: the two structs whose size is known for both are
            counted with their size there. Equal to `needed` where the interpreter's structs are not the known ones.
        trials: How many arenas were tried.
        runtime: Which interpreter it was.
        notes: What could not be found out, in sentences.
    """

    needed: int
    head: int | None
    tail: int | None
    low: int | None
    high: int | None
    trials: int
    runtime: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What is in memory while one operator runs.

    Attributes:
        op: Its place in the main graph.
        name: As the schema spells it.
        total: Bytes of every computed tensor that is needed at that moment.
    """

    op: int
    name: str
    total: int


def measure(model: bytes) -> Arena:
    """Returns the smallest arena with which the interpreter of TensorFlow Lite Micro allocates and runs a model.

    Every trial runs in a forked child of a child process: an arena that is too small may end the process.

    Args:
        model: The file's bytes.

    Raises:
        TFLiteFileError: A model that does not run with any arena up to 1 GiB; the message has the interpreter's words.
    """
    # What the child has imported, its forks need not import again.
    with worker.lent("arena", ("numpy", "tflite_micro")) as child:
        found: Arena = child.call("sqp_tflite.run.arena:search", model)
    return found


def opened(model: bytes, size: int) -> Any:
    """Returns a file in the interpreter of TensorFlow Lite Micro, in this process, which native code may crash.

    Its package unpacks the file in Python to count the variables, which takes longer than everything else.

    Args:
        model: The file's bytes.
        size: Bytes of the arena.
    """
    from tflite_micro import runtime

    counted = private.returning("variables", 0) if not holds(model, "VAR_HANDLE") else contextlib.nullcontext()
    with counted:
        return runtime.Interpreter.from_bytes(model, arena_size=size)


def search(model: bytes) -> Arena:
    """Returns what `measure` returns; runs in the child process, where forking is safe."""
    inputs, trials = inputs_of(model), 0

    def works(size: int, runs: int) -> bool:
        nonlocal trials
        trials += 1
        return _try(model, inputs, size, runs)[0]

    trials += 1
    allocated, words, code = _try(model, inputs, _START, 0, allocations=True)
    listed = _listed(words) if allocated else None
    # The list names what the smallest arena holds: where that is so, two trials prove it.
    if listed and works(listed, 1) and not works(listed - ALIGNMENT, 0):
        return _described(listed, words, trials)
    upper = _START
    # Running is what takes time in a large model, allocating is what needs the arena: run only what was found.
    while not allocated:
        if upper >= _LARGEST:
            raise _cannot_run(words, code)
        upper = min(upper * 4, _LARGEST)
        trials += 1
        allocated, words, code = _try(model, inputs, upper, 0)
    needed = _smallest(0, upper, lambda size: works(size, 0))
    if not works(needed, 1):
        if not works(upper, 1):
            raise _cannot_run(*_try(model, inputs, upper, 1)[1:])
        needed = _smallest(needed, upper, lambda size: works(size, 1))
    return _described(needed, _try(model, inputs, max(needed * 2, _START), 0, allocations=True)[1], trials)


def _listed(words: str) -> int | None:
    """Returns the bytes of head and tail in the interpreter's list; None where it is worded in an unknown way."""
    parts = dict(_TOTAL.findall(words))
    return _aligned(sum(map(int, parts.values()))) if set(parts) == {"head", "tail"} else None


def _cannot_run(words: str, code: int) -> TFLiteFileError:
    lines = words.strip().splitlines()
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    words = said(lines[-1]) if lines else f"{how} without a message, in a child process"
    return TFLiteFileError(
        "The model must run on the interpreter of TensorFlow Lite Micro to have its arena measured. Received: "
        f"{words}. Export parts of the model to find the layer that it cannot run, or use --target litert."
    )


def _smallest(too_small: int, enough: int, works: Callable[[int], bool]) -> int:
    lower, upper = too_small // ALIGNMENT, enough // ALIGNMENT
    while upper - lower > 1:
        middle = (lower + upper) // 2
        lower, upper = (lower, middle) if works(middle * ALIGNMENT) else (middle, upper)
    return upper * ALIGNMENT


def live_steps(graph: Graph) -> tuple[Step, ...]:
    """Returns what is in memory at every operator of the main graph, each tensor from its first to its last use.

    The model's inputs live from the first operator and its outputs to the last one, as in TFLM.
    """
    main, changes = graph.main, [0] * (len(graph.main.ops) + 1)
    if not main.ops:
        return ()
    for tensor, (born, dies) in _lives(graph).items():
        size = tensor_bytes(main.tensors[tensor])
        changes[born] += size
        changes[dies + 1] -= size
    totals = itertools.accumulate(changes)
    return tuple(Step(op.index, op.name, total) for op, total in zip(main.ops, totals, strict=False))


def _lives(graph: Graph) -> dict[int, tuple[int, int]]:
    """Returns the first and the last operator that needs each computed tensor, in the order of the first."""
    main = graph.main
    last = len(main.ops) - 1
    born = dict.fromkeys(main.inputs, 0)
    dies = dict.fromkeys(main.inputs, 0)
    for op in main.ops:
        for tensor in op.outputs:
            born.setdefault(tensor, op.index)
        for tensor in (*op.inputs, *op.outputs):
            if tensor in born:
                dies[tensor] = op.index
    dies.update({tensor: last for tensor in main.outputs if tensor in born})
    return {tensor: (first, dies[tensor]) for tensor, first in born.items()}


def peak(graph: Graph) -> tuple[Step, Tensor]:
    """Returns the operator at which the live tensors take the most memory in total, and the largest of them.

    Raises:
        TFLiteFileError: A graph without operators.
    """
    steps = live_steps(graph)
    if not steps:
        raise TFLiteFileError(
            "A project needs a model with operators. Received: one without any, which only copies. Omit `project` from "
            "--emit."
        )
    step = max(steps, key=lambda candidate: candidate.total)
    live = [graph.main.tensors[tensor] for tensor, (born, dies) in _lives(graph).items() if born <= step.op <= dies]
    return step, max(live, key=tensor_bytes)


def tensor_bytes(tensor: Tensor) -> int:
    """Returns the bytes that a tensor's elements take; two int4 share a byte."""
    if tensor.dtype == "int4":
        return (tensor.elements + 1) // 2
    return tensor.elements * _SIZES.get(tensor.dtype, 1)


def _try(model: bytes, inputs: int, size: int, runs: int = 1, allocations: bool = False) -> tuple[bool, str, int]:
    """Allocates and runs the model in a fork; returns whether it ran, what it said, and its exit code or -signal."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os.dup2(write_end, 2)
        os.dup2(write_end, 1)
        signal.alarm(_SECONDS_PER_TRIAL)
        os._exit(_invoke(model, inputs, size, runs, allocations))
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        words = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    return status == 0, words, os.waitstatus_to_exitcode(status)


def _invoke(model: bytes, inputs: int, size: int, runs: int, allocations: bool) -> int:
    """Returns 0 when the model allocated and ran; a failure is an exit code, since nobody can catch it here."""
    import numpy as np

    try:
        interpreter = opened(model, size)
        for index in range(inputs):
            details = interpreter.get_input_details(index)
            interpreter.set_input(np.zeros(details["shape"], details["dtype"]), index)
        for _ in range(runs):
            interpreter.invoke()
        if allocations and hasattr(interpreter, "print_allocations"):
            interpreter.print_allocations()
    except Exception as error:  # Nothing may leave this copy of the process but its exit code and its words.
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0


def _described(needed: int, words: str, trials: int) -> Arena:
    runtime = f"tflite-micro {version('tflite-micro')}"
    parts = {name: int(size) for name, size in _TOTAL.findall(words)}
    if set(parts) != {"head", "tail"}:
        note = f"{runtime} words its list of allocations in an unknown way: the bounds for a 32-bit target are omitted."
        return Arena(needed, None, None, None, None, trials, runtime, (note,))
    counted = {name: (int(used), int(asked), int(count)) for name, used, asked, count in _COUNTED.findall(words)}
    known = {name: counted[name] for name in HOST_SIZES if name in counted}
    saved = sum(
        (HOST_SIZES[name] - TARGET_SIZES[name]) * count
        for name, (_, asked, count) in known.items()
        if asked == HOST_SIZES[name] * count
    )
    same = all(asked == HOST_SIZES[name] * count for name, (_, asked, count) in known.items())
    # The bound leaves out what the interpreter does not list: its allocator, which also keeps records here.
    low = _aligned(parts["head"] + sum(used for used, _, _ in counted.values()) // 2)
    high = _aligned(needed - saved) if same and len(known) == len(HOST_SIZES) else needed
    return Arena(needed, parts["head"], parts["tail"], min(low, high), high, trials, runtime)


def _aligned(size: int) -> int:
    return -(-int(size) // ALIGNMENT) * ALIGNMENT
