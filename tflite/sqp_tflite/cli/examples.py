"""What the help of each command ends with: examples, and what its exit codes mean."""

from __future__ import annotations

from dataclasses import dataclass

_SHOWN = 6
"""Examples in the short help."""
_FIRST = 3
"""Examples in the answer to a call without arguments."""


@dataclass(frozen=True, slots=True)
class Examples:
    """The end of a command's help.

    Attributes:
        calls: Calls, the most common first, each with what it does on the next line.
        exits: What the exit codes mean.
        more: Further sections, for the full help.
        common: The options that the short help lists; empty if there is no shorter help.
    """

    calls: tuple[str, ...]
    exits: str
    more: str = ""
    common: frozenset[str] = frozenset()

    def first(self) -> str:
        """Returns the calls that most people mean, each on its line."""
        return "The most common calls:" + "".join(f"\n  {call}" for call in self.calls[:_FIRST])

    def short(self) -> str:
        """Returns the end of the short help."""
        return f"examples:\n{self._listed(self.calls[:_SHOWN])}\n\n{self.exits}"

    def full(self) -> str:
        """Returns the end of the full help."""
        return "\n\n".join(part for part in (f"examples:\n{self._listed(self.calls)}", self.more, self.exits) if part)

    @staticmethod
    def _listed(calls: tuple[str, ...]) -> str:
        return "\n".join(f"  {line}" for call in calls for line in call.split("\n"))


EXPORT = Examples(
    (
        "sqp-export model.keras\n    writes model.tflite next to it, proven on TensorFlow Lite Micro",
        "sqp-export model.keras --quantize int8 --data train.npz"
        "\n    writes an int8 file with a table for each activation, of any kind; the ranges come from the data",
        "sqp-export model.keras --replace accurate --head logits"
        "\n    replaces softplus, ELU, SiLU, GELU, sigmoid, tanh ... with sums of square roots, drops a final softmax",
        "sqp-export model.h5 -o net.tflite --data test.npz"
        "\n    compares on your data; with labels under y also the accuracy before and after",
        "sqp-export model.keras --quantize int8 --target litert --data train.npz"
        "\n    the same for LiteRT, where squareplus is faster in float between conversions",
        "sqp-export model.keras --replace silu=accurate,dense_2=fast --dry-run"
        "\n    only prints what each activation becomes and what it costs",
        "sqp-export lstm.keras --step --replace accurate --data sequences.npz"
        "\n    writes one time step, whose states go out and in again; compares over the whole sequences",
        "sqp-export vendor_int8.tflite --lowering table --reference float.tflite"
        "\n    repairs a finished int8 file: a table for each activation, compared with the float file",
        "sqp-export model.keras --emit c,resolver,golden,project --report report.html"
        "\n    also writes the files that a firmware engineer needs, and a page about the model file",
        "sqp-export model.keras --emit code\n    also writes the model as C that needs no interpreter, in model_code/",
        "sqp-export model.keras --target ethos-u55 --data train.npz"
        "\n    int8 for an NPU, with what its compiler says: operators on the NPU and the CPU, cycles, memory",
        "sqp-export model.keras --ram 64k --flash 256k\n    refuses a model that is too large, and says by how much",
        "sqp-export model.keras -o - --quiet > model.tflite\n    writes the file to standard output",
    ),
    """exit codes:
  0    the file may ship
  1    refused: an operator the target lacks, or a budget (every reason is listed)
  2    bad call, bad input, or something is not installed
  3    the file's outputs differ from the model's
  130  interrupted (143: terminated); nothing was written""",
    """output:
  All files are written next to OUT.tflite, or none. The folder of `project` and the C symbols are named
  after the file, or by --c-prefix. The report goes to standard output, errors and progress to standard
  error. With `-o -` the file goes to standard output, with `--report -` the report as JSON; the text then
  goes to standard error. A file whose name is a dash is ./-

codes:
  SQP-E011 and the like are explained at https://sqp-keras.github.io/sqp-keras/troubleshooting/

environment:
  NO_COLOR  if set, no colour; otherwise colour is used on terminals only""",
    common=frozenset(
        "-h --help-all -o --target --quantize --lowering --step --data --replace --head --dry-run "
        "--emit --ram --flash --report --version".split()
    ),
)

INSPECT = Examples(
    (
        "sqp-inspect model.tflite"
        "\n    operators with versions and types, inputs, outputs, float islands, memory, verdict",
        "sqp-inspect model.tflite --target tflite-runtime --json"
        "\n    the same as one JSON object, for another interpreter",
        "sqp-inspect model.tflite --report model.html"
        "\n    the same as an HTML page, with the graph and the memory over time",
    ),
    """exit codes:
  0  the target's interpreter runs it, and no operator needs exp or log (--require chooses one of the two)
  1  not so (every reason is listed)
  2  bad call, or not a TFLite file
  130, 143  interrupted, terminated""",
)

CC = Examples(
    (
        "sqp-cc model.tflite"
        "\n    writes model_code/ with model.h, model.c and a self-test; no interpreter, no libm, no malloc",
        "sqp-cc model.tflite -o src/net --c-prefix net\n    writes src/net/net.c with the function net_run",
        "gcc -std=c99 -O2 -c model_code/model.c"
        "\n    compiles it; CMake, ESP-IDF, Arduino and PlatformIO take the folder as it is",
    ),
    """exit codes:
  0  the code was written
  1  refused: an operator, version or type that has no C form (every reason is listed)
  2  bad call, or not a TFLite file
  130, 143  interrupted, terminated""",
)

CHECK = Examples(
    (
        "sqp-check model.keras model.tflite --data test.npz"
        "\n    compares on your data, at the ends of the file's input range, and beyond",
        "sqp-check model.keras other.tflite --outputs mean,variance"
        "\n    says which output is which, for a file that has no names for them",
    ),
    """exit codes:
  0  all that ran agree (what an integer file does outside of its data is shown, not judged)
  2  bad call, bad input, no interpreter is installed, or only data can tell whether the file agrees
  3  an interpreter differs, or cannot run the file
  130, 143  interrupted, terminated""",
    """sets:
  data      the samples of --data
  ordinary  without --data: made-up inputs of the model's scale, as far as its layers tell it
  large     the same 30 times as far from their middle, extreme 1000 times
  ends      inputs at the smallest and largest values of the file's range (for a float file: of the data)
  beyond    inputs twice as far out: a float file must still agree, an integer file clips them""",
)
