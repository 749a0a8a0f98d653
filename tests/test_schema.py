"""The schema's object form: used by one module only, with names in place of an enum's numbers."""

import ast
import inspect
import struct
from pathlib import Path

import numpy as np
import pytest

from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.read import ends, read

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
FOREIGN = ("ai_edge_litert.schema_py_generated", "flatbuffers")


def imported(source: str) -> set[str]:
    """What a source text imports, names of a `from` with their module."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def importers(sources: dict[str, str]) -> set[str]:
    """The files that import the schema's classes or the flatbuffers library."""
    return {
        name for name, text in sources.items() if any(module.startswith(FOREIGN) for module in sorted(imported(text)))
    }


def test_one_module_imports_the_schema():
    files = (path for folder in ("sqp_keras", "tflite") for path in (ROOT / folder).rglob("*.py"))
    sources = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    assert importers(sources) == {"tflite/sqp_tflite/flatbuffer/schema.py"}


def test_another_importer_is_seen():
    late = "def f():\n    from ai_edge_litert import schema_py_generated as schema\n"
    sources = {"a": late, "b": "import flatbuffers.builder", "c": "from ai_edge_litert import interpreter"}
    assert importers(sources) == {"a", "b"}


def options_tables():
    from ai_edge_litert import schema_py_generated as generated

    return {
        name.removesuffix("T"): vars(made())
        for name, made in vars(generated).items()
        if inspect.isclass(made) and name.endswith("OptionsT")
    }


def test_every_named_enum_is_an_option_of_the_schema():
    fields = {field for table in options_tables().values() for field in table}
    assert set(schema._ENUMS) <= fields
    assert all(schema.names(enum) for enum in schema._ENUMS.values())


def test_options_that_look_like_an_enum_have_names():
    """A new schema that gains one shows up here."""
    words = ("type", "padding", "mode", "activation", "format", "direction")
    plain_numbers = {"interiorPadding"}
    fields = {field for table in options_tables().values() for field in table}
    likely = {field for field in fields if field.lower().endswith(words)} - plain_numbers
    assert likely <= set(schema._ENUMS)


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        ("Conv2DOptions", {"padding": "VALID", "fusedActivationFunction": "RELU", "strideW": 2}),
        ("CastOptions", {"inDataType": "INT8", "outDataType": "INT32"}),
        ("MirrorPadOptions", {"mode": "SYMMETRIC"}),
        ("ReshapeOptions", {"newShape": (1, -1)}),
        ("VarHandleOptions", {"sharedName": "state"}),
        ("StablehloConvolutionOptions", {"padding": (0, 1), "precisionConfig": ("DEFAULT", "HIGHEST")}),
    ],
)
def test_options_are_plain_data_with_names(table, fields):
    made = schema.new_options(table, {name: value for name, value in fields.items() if name != "precisionConfig"})
    if "precisionConfig" in fields:
        made.precisionConfig = np.array([0, 2], np.uint32)
    found = schema.options(made)
    assert {name: found[name] for name in fields} == fields


def test_numbers_without_a_name_stay_numbers():
    made = schema.new_options("Conv2DOptions", {"padding": 77})
    assert schema.options(made)["padding"] == 77


def test_no_options_are_an_empty_mapping():
    assert schema.options(None) == {}


def test_an_unknown_field_is_refused():
    with pytest.raises(ValueError, match="`strides` must be a field of Conv2DOptions.*strideW"):
        schema.new_options("Conv2DOptions", {"strides": 1})


def test_a_file_is_read_quickly_as_the_library_reads_it():
    for path in sorted(DATA.glob("*.tflite")):
        content = path.read_bytes()
        slowly = schema.pack(schema.unpack(content))
        with schema.quickly():
            assert schema.pack(schema.unpack(content)) == slowly
            with pytest.raises((struct.error, TypeError, ValueError, IndexError)):
                schema.unpack(content[:100])
    assert schema._library()[0].Offset is schema._library()[1]


def test_ends_are_read_without_the_rest():
    for path in sorted(DATA.glob("*.tflite")):
        graph = read(path)
        inputs, outputs = ends(path.read_bytes())
        assert (inputs, outputs) == (tuple(graph.inputs), tuple(graph.outputs))


def test_an_operator_is_found_without_unpacking():
    path = DATA / "two_inputs_int8.tflite"
    names = {op.name for _, op in read(path).all_ops()}
    assert [schema.holds(path.read_bytes(), name) for name in (*sorted(names), "VAR_HANDLE")] == [
        *[True] * len(names),
        False,
    ]
