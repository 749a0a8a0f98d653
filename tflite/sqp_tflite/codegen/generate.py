"""A proven file as C: the plan, the memory and the functions, put together into a header and a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqp_tflite.codegen.dense import Dense
from sqp_tflite.codegen.fused import Sink
from sqp_tflite.codegen.literals import comment_text
from sqp_tflite.codegen.memory import ALIGNMENT, Memory, memory
from sqp_tflite.codegen.naming import CStyle, Port, ports
from sqp_tflite.codegen.plan import Plan, Step, plan
from sqp_tflite.codegen.ports import conversions, port_lines
from sqp_tflite.codegen.source import C_TYPES, Source
from sqp_tflite.flatbuffer.graph import Graph
from sqp_tflite.run.arena import tensor_bytes

ABI = 1
"""Of the functions that the header declares."""

MADE_BY = "Made by sqp-export."
_INTRODUCTION = """\
C99 and C++11; needs stdint.h and stddef.h only: no malloc, no libm, no state. Results are those of TensorFlow Lite
Micro's reference kernels, to the last bit, where the compiler computes floats as written: no -ffast-math, and
-ffp-contract=off where it may fuse a multiplication and an addition."""


@dataclass(frozen=True, slots=True)
class Code:
    """The C code of a model.

    Attributes:
        header: Text of the header.
        source: Text of the source.
        plan: What is computed.
        memory: Where it lies.
        constant_bytes: Bytes of constants by role.
        macs: Multiplications with an addition in one run.
        declaration: Head of the function that runs the model.
    """

    header: str
    source: str
    plan: Plan
    memory: Memory
    constant_bytes: tuple[tuple[str, int], ...]
    macs: int
    declaration: str


def generate(graph: Graph, style: CStyle, name: str) -> Code:
    """Returns the C code of a file.

    Args:
        graph: The file.
        style: Names and places of the C symbols.
        name: What comments call the file.

    Raises:
        RefusedError: Something in it has no C form.
        BadInputError: An input or output has a type that C lacks.
    """
    steps = plan(graph)
    arena = memory(steps)
    source = Source(style.prefix)
    writer = _Writer(steps, arena, source, ports("INPUT", graph.inputs), ports("OUTPUT", graph.outputs))
    calls = [line for number, step in enumerate(steps.steps) for line in writer.call(number, step)]
    macs = sum(step.kernel.macs for step in steps.steps if step.kernel)
    text = _source(writer, style, name, calls)
    header = _header(writer, graph, style, name)
    return Code(
        header, text, steps, arena, tuple(sorted(source.constant_bytes.items())), macs, writer.declaration(style)
    )


@dataclass(frozen=True, slots=True)
class _Writer:
    plan: Plan
    memory: Memory
    source: Source
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def call(self, number: int, step: Step) -> list[str]:
        """Returns the statement that calls a step's function."""
        names: dict[int, str] = {}
        parameters, arguments = [], []
        read = [index for index in step.reads if index not in step.writes]
        for place, index in enumerate(read):
            tensor = self.plan.graph.tensors[index]
            names[index] = f"in{place}"
            parameters.append(f"const {C_TYPES[tensor.dtype]} *in{place}")
            arguments.append(self._pointer(index, "const "))
        for place, index in enumerate(step.writes):
            tensor = self.plan.graph.tensors[index]
            names[index] = f"out{place}"
            parameters.append(f"{C_TYPES[tensor.dtype]} *out{place}")
            arguments.append(self._pointer(index, ""))
        at = self.memory.scratch[number]
        if at is not None:
            parameters.append("void *scratch")
            arguments.append(f"a + {at}" if at else "a")
        body = self._body(step, names, "scratch" if at is not None else "")
        return [f"{self.source.function(parameters, body)}({', '.join(arguments)});"]

    def _body(self, step: Step, names: dict[int, str], scratch: str) -> list[str]:
        if step.mover is not None:
            return step.mover.body(self.source, names)
        tensors = self.plan.graph.tensors
        if step.kernel is not None:
            largest = "i == 0" if isinstance(step.kernel, Dense) and step.kernel.pool != (1, 1) else ""
            sink = Sink(self.source, tensors, step.fused, names, step.kernel.made, largest)
            return step.kernel.body(self.source, names, scratch, sink)
        sink = Sink(self.source, tensors, step.fused, names)
        if any(operand.how == "last" for operand in step.fused.operands.values()):
            loops = [f"for (o = 0; o < {step.elements}; o += {step.channels}) {{"]
            loops.append(f"for (c = 0; c < {step.channels}; c++) {{")
            return ["int32_t c, o;", *loops, *sink.store("o", "c"), "}", "}"]
        return ["int32_t i;", f"for (i = 0; i < {step.elements}; i++) {{", *sink.store("i", ""), "}"]

    def _pointer(self, index: int, qualifier: str) -> str:
        """C text of where a tensor lies: an argument of the run, or a place in the arena."""
        holder, begin = self.plan.root(index)
        tensor = self.plan.graph.tensors[index]
        for held, chosen in ((self.plan.graph.inputs, self.inputs), (self.plan.outputs, self.outputs)):
            if holder in held:
                port = chosen[held.index(holder)]
                name = parameter(port)
                return f"{name} + {begin}" if begin else name
        offset = self.memory.offsets[holder] + begin * (_size(C_TYPES[tensor.dtype]))
        return f"({qualifier}{C_TYPES[tensor.dtype]} *)(a + {offset})"

    def declaration(self, style: CStyle) -> str:
        """Returns the head of the run function."""
        given = [f"const {port.c_type} *{parameter(port)}" for port in self.inputs]
        made = [f"{port.c_type} *{parameter(port)}" for port in self.outputs]
        return f"void {style.prefix}_run({', '.join(['void *arena', *given, *made])})"


def parameter(port: Port) -> str:
    """Returns the name of the parameter that an input or output is."""
    return f"{port.role.lower()}_{port.name}"


def _size(c_type: str) -> int:
    return {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "int64_t": 8}.get(c_type, 4)


def _header(writer: _Writer, graph: Graph, style: CStyle, name: str) -> str:
    macro, prefix, arena = style.macro, style.prefix, writer.memory
    lines = [f"/* The model `{comment_text(name)}` as C. {MADE_BY}", "", *_INTRODUCTION.splitlines(), "*/"]
    lines += [f"#ifndef {macro}_H_", f"#define {macro}_H_", "", "#include <stddef.h>", "#include <stdint.h>", ""]
    lines += [
        f"#define {macro}_ABI {ABI}",
        f'#define {macro}_FILE_SHA256 "{graph.sha256}"',
        f"/* Bytes of memory that a run needs, aligned to {ALIGNMENT}; {arena.bound} live at the same time. */",
        f"#define {macro}_ARENA_BYTES {arena.size}",
        f"#define {macro}_ARENA_ALIGN {ALIGNMENT}",
        f"#define {macro}_SELFTEST_BYTES {_selftest_bytes(graph, arena.size)}",
        f"#define {macro}_INPUT_COUNT {len(writer.inputs)}",
        f"#define {macro}_OUTPUT_COUNT {len(writer.outputs)}",
    ]
    for port in (*writer.inputs, *writer.outputs):
        lines += port_lines(port, macro)
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    lines += [
        f"/* Memory of a run: {macro}_ARENA_BYTES, aligned. Runs one after another may share it. */",
        f"typedef union {{ int64_t align; unsigned char bytes[{max(arena.size, 1)}]; }} {prefix}_arena;",
        "",
        "/* Computes the outputs from the inputs. None of the memory may overlap. Keeps nothing: it may run in several",
        "   threads, each with an arena. */",
        f"{writer.declaration(style)};",
        "",
        "/* Runs golden vectors, which are in a source of their own; returns how many outputs differ. */",
        f"int32_t {prefix}_selftest(void *memory);",
        "",
    ]
    for port in (*writer.inputs, *writer.outputs):
        lines += conversions(port, prefix)
    lines += ["#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {macro}_H_ */", ""]
    return "\n".join(lines)


def _selftest_bytes(graph: Graph, arena: int) -> int:
    """The memory of a self-test: the arena, and the outputs behind it."""
    return arena + sum(-(-tensor_bytes(tensor) // ALIGNMENT) * ALIGNMENT for tensor in graph.outputs)


def _source(writer: _Writer, style: CStyle, name: str, calls: Sequence[str]) -> str:
    macro, source = style.macro, writer.source
    section = f' __attribute__((section("{style.section}")))' if style.section else ""
    lines = [
        f"/* The model `{comment_text(name)}` as C. {MADE_BY} */",
        f'#include "{style.prefix}.h"',
        "",
        "#if (-1 >> 1) != -1",
        '#error "This compiler shifts negative numbers in another way than this code needs."',
        "#endif",
        "#if defined(__clang__)",
        "#pragma clang fp contract(off)",
        "#elif defined(__STDC_VERSION__) && !defined(__GNUC__)",
        "#pragma STDC FP_CONTRACT OFF",
        "#elif defined(__GNUC__)",
        "/* No call of memcpy or memset in the place of a loop. */",
        '#pragma GCC optimize("no-tree-loop-distribute-patterns")',
        "#endif",
        "#if defined(__GNUC__) /* Inlined into one function, the loops would compete for registers. */",
        f"#define {macro}_APART __attribute__((noinline))",
        "#else",
        f"#define {macro}_APART",
        "#endif",
        f"#ifndef {macro}_CONST /* The qualifier of the weights. */",
        f"#define {macro}_CONST static {style.qualifier}".rstrip(),
        "#endif",
        f"#ifndef {macro}_PLACE /* Attributes that place the weights, e.g. in a section. */",
        f"#define {macro}_PLACE{section}",
        "#endif",
        "",
        *source.constant_texts(),
        "",
        *source.helper_texts(),
        *source.functions.values(),
        writer.declaration(style),
        "{",
        "    unsigned char *const a = (unsigned char *)arena;",
        "    (void)a;",
        *(f"    {line}" for line in calls),
        "}",
        "",
    ]
    return "\n".join(lines)
