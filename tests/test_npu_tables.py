"""The tables of a file become the NPU's own: all else of the compiled file is Vela's, and a doubt leaves them out."""

import keras
import numpy as np
import pytest

import sqp_keras
import sqp_tflite
from models import dense
from sqp_tflite.flatbuffer.read import read
from sqp_tflite.inspection import inspection
from sqp_tflite.npu import vela
from sqp_tflite.npu.judge import judged
from sqp_tflite.npu.tables import COMMAND, lookups, with_tables
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.ops.policy import ACCELERATOR, NPUS
from sqp_tflite.run import interpreters

pytest.importorskip("ethosu", reason="the extra [ethos-u] is missing: pip install ethos-u-vela")
pytestmark = pytest.mark.skipif(not interpreters.installed("tflm"), reason="a file is proven on tflite-micro")

L = keras.layers
DATA = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
TABLES = Combination("int8", "table", "ethos-u55")


@pytest.fixture(scope="module")
def export():
    """A file with two tables: of squareplus, and of softplus as Keras has it."""
    keras.utils.set_random_seed(0)
    i = keras.Input((4,), name="x")
    x = L.Dense(6, activation="squareplus", name="first")(i)
    model = keras.Model(i, L.Dense(3, name="out")(L.Dense(5, activation="softplus", name="second")(x)))
    return sqp_tflite.export(model, target="ethos-u55", data=DATA, emit="vela")


def constants(content: bytes) -> bytes:
    main = read(content).main
    (op,) = main.ops
    return main.tensors[op.inputs[1]].values.tobytes()


def compiler(content: bytes) -> bytes:
    return vela.compiled(content, "ethos-u55-128").content


def test_the_compiled_file_holds_the_proven_tables(export):
    tables = lookups(read(export.model_bytes))
    assert len(tables) == 2 and export.report.npu.on_cpu == 0 and export.report.npu.on_npu == 9
    compiled = export.files["model_vela.tflite"]
    assert [op.name for op in read(compiled).main.ops] == [COMMAND]
    assert all(constants(compiled).count(table.entries.tobytes()) == 1 for table in tables)
    assert any("2 table(s) are the NPU's own" in note and "NAME_vela.tflite" in note for note in export.report.notes)


@pytest.mark.parametrize("target", NPUS)
def test_only_the_tables_differ_from_what_vela_made(export, target):
    content, made = export.model_bytes, []

    def kept(changed):
        made.append(vela.compiled(changed, ACCELERATOR[target]).content)
        return made[-1]

    compiled = with_tables(content, read(content), kept)
    leaky, hard = made
    assert compiled and len(compiled) == len(leaky) == len(hard)
    differ = np.frombuffer(compiled, np.uint8) != np.frombuffer(leaky, np.uint8)
    assert 0 < differ.sum() <= 2 * 256
    # The other stand-in differs in these places only, too: nothing else depends on the function.
    assert not np.any((np.frombuffer(hard, np.uint8) != np.frombuffer(leaky, np.uint8)) & ~_near(differ))


def _near(differ):
    """The whole table around each place: 256 bytes to both sides cover it."""
    return np.convolve(differ, np.ones(511), "same") > 0


@pytest.mark.parametrize("fault", ["another byte", "no table", "on the CPU", "another length"])
def test_a_planted_doubt_leaves_the_tables_to_the_cpu(export, fault, monkeypatch):
    content, whole, count = export.model_bytes, vela.compiled, []

    def strange(changed, accelerator):
        found = whole(changed, accelerator)
        count.append(changed)
        made = found.content
        if changed == content:
            return found
        if fault == "another byte" and len(count) == 2:
            made = made[:-40] + bytes([made[-40] ^ 1]) + made[-39:]
        if fault == "no table":
            made = made.replace(constants(made), bytes(len(constants(made))))
        if fault == "on the CPU":
            made = changed
        if fault == "another length" and len(count) == 2:
            made += b"\0"
        return vela.Compiled(made, found.summary, found.reasons)

    monkeypatch.setattr(vela, "compiled", strange)
    found = judged(content, read(content), "ethos-u55", "ethos-u55-128", wanted=TABLES)
    assert [row.op for row in found.npu.operators if not row.on_npu] == ["CAST", "GATHER"] * 2
    assert all("--lowering integer" in line for line in found.warnings) and not any("own" in n for n in found.notes)


def test_equal_functions_on_equal_tensors_are_told_apart():
    """Two branches of one tensor: what Vela makes of the stand-ins must differ, or one table would be lost."""
    keras.utils.set_random_seed(0)
    i = keras.Input((4,), name="x")
    x = L.Dense(6, name="first")(i)
    both = [L.Activation("softplus", name="a")(x), sqp_keras.Squareplus(b=1.0, name="b")(x)]
    model = keras.Model(i, L.Dense(3, name="out")(L.Concatenate()(both)))
    export = sqp_tflite.export(model, target="ethos-u85", data=DATA, npu_only=True)
    assert len(lookups(read(export.model_bytes))) == 2
    held = constants(export.files["model_vela.tflite"])
    assert all(table.entries.tobytes() in held for table in lookups(read(export.model_bytes)))


def test_a_table_per_channel_is_left_to_the_cpu_and_the_remedy_helps():
    keras.utils.set_random_seed(0)
    act = sqp_keras.Squareplus(learn_b="channel", name="act")
    model = keras.Sequential([keras.Input((4,), name="x"), L.Dense(6), act, L.Dense(3)])
    act.set_weights([np.linspace(1.0, 6.0, 6).astype("float32")])
    with pytest.raises(sqp_tflite.RefusedError, match="leaves GATHER to the CPU.*--lowering integer"):
        sqp_tflite.export(model, target="ethos-u55", data=DATA, npu_only=True)
    again = sqp_tflite.export(model, target="ethos-u55", lowering="integer", data=DATA, npu_only=True)
    assert again.report.npu.on_cpu == 0


def test_a_finished_file_with_tables_is_judged_as_it_is_and_exported_with_them(export, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(sqp_tflite.export(dense(), quantize="int8", lowering="table", data=DATA).model_bytes)
    plain = inspection(path, "ethos-u55")[1]
    assert plain.npu.on_cpu == 2 and all("sqp-export --target ethos-u55" in line for line in plain.warnings)
    assert sqp_tflite.export(path, target="ethos-u55", npu_only=True).report.npu.on_cpu == 0
