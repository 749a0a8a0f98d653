"""The editor: each change is in the packed file, and nothing else is."""

import numpy as np
import pytest

from sqp_tflite.errors import BadInputError
from sqp_tflite.flatbuffer import schema
from sqp_tflite.flatbuffer.edit import Editor, NewOp, blank
from sqp_tflite.flatbuffer.read import read
from written import Written, perceptron


def test_a_file_without_changes_is_returned_as_it_was():
    content = perceptron()
    assert Editor(content).bytes() is content


def test_packing_twice_gives_the_same_bytes():
    editor = Editor(perceptron())
    editor.rename(0, "first")
    assert editor.bytes() is editor.bytes()
    again = Editor(editor.bytes())
    again.rename(0, "first")
    assert again.bytes() == editor.bytes()


def test_other_bytes_are_refused():
    with pytest.raises(BadInputError, match="is not a TFLite file"):
        Editor(b"no model at all")
    with pytest.raises(BadInputError, match="damaged"):
        Editor(perceptron()[:200])


def test_every_tensor_gets_a_name_of_its_own():
    model = Written()
    x = model.value(name="x")
    y = model.op("ADD", model.op("MUL", x, model.constant(2.0)), model.constant(3.0), name="c")
    model.ends([x], [y])
    model.editor.give_own_names()
    main = read(model.editor.bytes()).main
    names = [tensor.name for tensor in main.tensors]
    assert len(set(names)) == len(names)
    # The output keeps its name, the constants of the same name get another.
    assert (main.tensors[x].name, main.tensors[y].name) == ("x", "c")
    assert {"c#2", "c#3"} <= set(names)


def test_inputs_and_outputs_are_renamed_and_others_make_room():
    editor = Editor(perceptron())
    editor.name_ends(("kernel",), ("logits",))
    graph = read(editor.bytes())
    assert [tensor.name for tensor in graph.inputs + graph.outputs] == ["kernel", "logits"]
    assert "kernel_inner" in graph.main.by_name()


def test_right_names_are_no_change():
    content = perceptron()
    editor = Editor(content)
    editor.name_ends(("x",), ("y",))
    assert editor.bytes() is content


def test_a_constant_can_share_bytes_and_scales():
    model = Written()
    first = model.constant([1, 2], dtype="int8")
    model.editor.set_scale(first, 0.5, 3)
    second = model.editor.add_constant("same", np.int8([1, 2]), quantized_as=first, stored_as=first)
    x = model.value(2)
    content = model.ends([x], [x])
    tensors = read(content).main.tensors
    assert tensors[second].values.tolist() == [1, 2]
    assert tensors[second].quantization == tensors[first].quantization
    assert len(schema.unpack(content).buffers) == 2  # The empty one of computed tensors, and the shared one.


def test_a_twin_is_plain():
    model = Written()
    codes = model.value(1, 7, name="codes", scale=0.5)
    twin = model.editor.add_twin(codes, "float32")
    made = model.editor.main().tensors[twin]
    assert (made.name, made.shape, made.dtype, made.quantization) == ("codes", (1, 7), "float32", None)


def test_an_operator_code_is_added_once_and_in_its_version():
    model = Written()
    x = model.value()
    y = model.op("ADD", x, x, table="AddOptions")
    z = model.op("ADD", y, y, table="AddOptions")
    new = model.value()
    model.editor.add_op(NewOp("ADD", (z, z), (new,), "AddOptions", version=3))
    content = model.ends([x], [new])
    assert [op.version for op in read(content).main.ops] == [1, 1, 3]
    assert len(schema.unpack(content).operatorCodes) == 2


def test_codes_above_127_are_written_in_both_fields():
    model = Written()
    x = model.value()
    content = model.ends([x], [model.op("GELU", x, table="GeluOptions", approximate=True)])
    (op,) = read(content).main.ops
    assert op.name == "GELU" and op.options["approximate"] is True
    (code,) = schema.unpack(content).operatorCodes
    assert code.deprecatedBuiltinCode == 127 < code.builtinCode


def test_operators_are_replaced_in_their_place():
    editor = Editor(perceptron())
    (root,) = (op for op in editor.graph.main.ops if op.name == "SQRT")
    wide = editor.add_tensor("wide", "float32", (1, 4))
    editor.replace_ops({root.index: [NewOp("ABS", root.inputs, (wide,)), NewOp("RSQRT", (wide,), root.outputs)]})
    names = [op.name for op in read(editor.bytes()).main.ops]
    assert names == ["FULLY_CONNECTED", "MUL", "ADD", "ABS", "RSQRT", "ADD", "FULLY_CONNECTED"]


def test_what_nothing_depends_on_is_dropped():
    editor = Editor(perceptron())
    main = editor.graph.main
    editor.set_ends(main.inputs, [main.by_name()["hidden"].index])
    editor.drop_unused()
    content = editor.bytes()
    kept, model = read(content).main, schema.unpack(content)
    assert [op.name for op in kept.ops] == ["FULLY_CONNECTED"]
    assert [tensor.name for tensor in kept.tensors] == ["x", "kernel", "bias", "hidden"]
    assert np.array_equal(kept.by_name()["kernel"].values, main.by_name()["kernel"].values)
    assert (len(model.operatorCodes), len(model.buffers)) == (1, 3)


def test_operators_that_write_nothing_act_and_stay():
    model = Written()
    x = model.value()
    handle = model.value(1, dtype="int32")
    y = model.op("ABS", x)
    model.editor.add_op(NewOp("ASSIGN_VARIABLE", (handle, x), ()))
    model.ends([x], [y])
    model.editor.drop_unused()
    assert [op.name for op in read(model.editor.bytes()).main.ops] == ["ABS", "ASSIGN_VARIABLE"]


def test_omitted_inputs_stay_omitted():
    editor = Editor(perceptron())
    editor.drop_unused()
    assert read(editor.bytes()).main.ops[-1].inputs[-1] == -1


def test_dead_outputs_get_the_type_of_their_operator():
    model = Written()
    x, read_one = model.value(scale=0.5), model.value(1, 2, scale=0.25)
    dead = model.value(1, 2)
    axis = model.constant(1, dtype="int32")
    model.editor.add_op(NewOp("SPLIT", (axis, x), (read_one, dead), "SplitOptions", {"numSplits": 2}))
    model.ends([x], [read_one])
    model.editor.retype_dead_outputs()
    tensors = read(model.editor.bytes()).main.tensors
    assert tensors[dead].dtype == "int8" and tensors[dead].quantization == tensors[read_one].quantization


def test_dead_float_outputs_of_float_operators_are_no_change():
    content = perceptron()
    editor = Editor(content)
    editor.retype_dead_outputs()
    assert editor.bytes() is content


def test_a_blank_file_is_a_file():
    graph = read(blank("nothing yet"))
    assert (graph.description, graph.main.tensors, graph.main.ops) == ("nothing yet", (), ())


def behind(content):
    """The file with the kernel's bytes behind the flatbuffer, as files of more than 2 GB have them."""
    model, kernel = schema.unpack(content), read(content).main.by_name()["kernel"]
    buffer = model.buffers[model.subgraphs[0].tensors[kernel.index].buffer]
    data = bytes(kernel.data)
    buffer.data, buffer.size, buffer.offset = None, len(data), 2
    buffer.offset = len(schema.pack(model))
    return schema.pack(model) + data


def test_data_behind_the_flatbuffer_is_read_and_packed_inside():
    content = perceptron()
    large = behind(content)
    assert read(large).main == read(content).main
    editor = Editor(large)
    editor.rename(editor.graph.main.inputs[0], "x")
    assert read(editor.bytes()).main == read(content).main
    with pytest.raises(BadInputError, match="damaged"):
        Editor(large[:-1])


def test_custom_options_are_kept_as_bytes():
    model = schema.unpack(perceptron())
    (code,) = [
        code for code in model.operatorCodes if schema.op_number(code) == schema.number("BuiltinOperator", "SQRT")
    ]
    code.builtinCode, code.deprecatedBuiltinCode, code.customCode = 32, 32, "Mine"
    (op,) = [op for op in model.subgraphs[0].operators if model.operatorCodes[op.opcodeIndex] is code]
    op.customOptions = np.frombuffer(b"abc", np.uint8)
    inside = schema.pack(model)
    op.customOptions, op.largeCustomOptionsSize, op.largeCustomOptionsOffset = None, 3, 2
    op.largeCustomOptionsOffset = len(schema.pack(model))
    outside = schema.pack(model) + b"abc"
    for content in (inside, outside):
        editor = Editor(content)
        editor.rename(0, "first")
        for graph in (editor.graph, read(editor.bytes())):
            assert [op.custom_options for op in graph.main.ops if op.name == "CUSTOM:Mine"] == [b"abc"]
