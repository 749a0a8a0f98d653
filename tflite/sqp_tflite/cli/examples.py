"""What the help of each command ends with: examples, and what its exit codes mean."""

from __future__ import annotations

EXPORT = """examples:
  sqp-export model.keras
      writes model.tflite next to it, proven on TensorFlow Lite Micro
  sqp-export model.h5 -o net.tflite --data test.npz
      compares on your data; with labels under y also the accuracy before and after
  sqp-export model.keras --quantize int8 --data train.npz
      writes an int8 file; the ranges come from the data
  sqp-export model.keras --quantize int8 --lowering table --data train.npz
      the same with a table for each activation, of any kind: no float, no exp
  sqp-export model.keras --replace accurate --head logits
      replaces softplus, ELU, SiLU, GELU, sigmoid, tanh ... with sums of square roots, drops a final softmax
  sqp-export model.keras --replace silu=accurate,dense_2=fast --dry-run
      only prints what each activation becomes and what it costs
  sqp-export lstm.keras --step --replace accurate --data sequences.npz
      writes one time step, whose states go out and in again; compares over the whole sequences
  sqp-export vendor_int8.tflite --lowering table --reference float.tflite
      repairs a finished int8 file: a table for each activation, compared with the float file
  sqp-export model.keras --emit c,resolver,golden,project --report report.html
      also writes the files that a firmware engineer needs, and a page about the model file
  sqp-export model.keras --emit code
      also writes the model as C that needs no interpreter, in model_code/
  sqp-export model.keras --ram 64k --flash 256k
      refuses a model that is too large, and says by how much
  sqp-export model.keras -o - --quiet > model.tflite
      writes the file to standard output

output:
  All files are written next to OUT.tflite, or none. The folder of `project` and the C symbols are named
  after the file, or by --c-prefix. The report goes to standard output, errors and progress to standard
  error. With `-o -` the file goes to standard output, with `--report -` the report as JSON; the text then
  goes to standard error. A file whose name is a dash is ./-

exit codes:
  0    the file may ship
  1    refused: an operator the target lacks, or a budget (every reason is listed)
  2    bad call, bad input, or something is not installed
  3    the file's outputs differ from the model's
  130  interrupted (143: terminated); nothing was written

environment:
  NO_COLOR  if set, no colour; otherwise colour is used on terminals only"""

INSPECT = """examples:
  sqp-inspect model.tflite
      operators with versions and types, inputs, outputs, float islands, memory, verdict
  sqp-inspect model.tflite --target tflite-runtime --json
      the same as one JSON object, for another interpreter
  sqp-inspect model.tflite --report model.html
      the same as an HTML page, with the graph and the memory over time

exit codes:
  0  the target's interpreter runs it, and no operator needs exp or log (--require chooses one of the two)
  1  not so (every reason is listed)
  2  bad call, or not a TFLite file
  130, 143  interrupted, terminated"""

CC = """examples:
  sqp-cc model.tflite
      writes model_code/ with model.h, model.c and a self-test; no interpreter, no libm, no malloc
  sqp-cc model.tflite -o src/net --c-prefix net
      writes src/net/net.c with the function net_run
  gcc -std=c99 -O2 -c model_code/model.c
      compiles it; CMake, ESP-IDF, Arduino and PlatformIO take the folder as it is

exit codes:
  0  the code was written
  1  refused: an operator, version or type that has no C form (every reason is listed)
  2  bad call, or not a TFLite file
  130, 143  interrupted, terminated"""

CHECK = """examples:
  sqp-check model.keras model.tflite --data test.npz
      compares on your data, at the ends of the file's input range, and beyond
  sqp-check model.keras other.tflite --outputs mean,variance
      says which output is which, for a file that has no names for them

sets:
  data      the samples of --data
  ordinary  without --data: made-up inputs of the model's scale, as far as its layers tell it
  large     the same 30 times as far from their middle, extreme 1000 times
  ends      inputs at the smallest and largest values of the file's range (for a float file: of the data)
  beyond    inputs twice as far out: a float file must still agree, an integer file clips them

exit codes:
  0  all that ran agree (what an integer file does outside of its data is shown, not judged)
  2  bad call, bad input, no interpreter is installed, or only data can tell whether the file agrees
  3  an interpreter differs, or cannot run the file
  130, 143  interrupted, terminated"""
