"""What goes together is decided before anything is converted, and every refusal names a way out."""

import pytest

from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.ops.combinations import QUANTIZE, Combination, broken, combinations, nearest, refuse
from sqp_tflite.ops.policy import NPUS

REFUSED = {
    *(
        (quantize, lowering, target)
        for quantize in ("float16", "dynamic")
        for lowering in ("algebraic", "table", "integer")
        for target in ("tflm", "tflm@2023")
    ),
    *(("int16x8", "table", target) for target in ("tflm", "litert", "tflite-runtime", "tflm@2023")),
    ("int8", "integer", "tflite-runtime"),
    ("int16x8", "integer", "tflite-runtime"),
    *(("int16x8", "table", target) for target in NPUS),
    *(
        (quantize, lowering, target)
        for quantize in ("float32", "float16", "dynamic")
        for lowering in ("algebraic", "table", "integer")
        for target in NPUS
    ),
}


def test_all_105_are_decided():
    found = list(combinations())
    assert len(found) == 105
    assert {(c.quantize, c.lowering, c.target) for c in found if broken(c)} == REFUSED


@pytest.mark.parametrize("target", ["tflm", "tflm@2023", "litert", "tflite-runtime"])
def test_a_lowering_that_was_not_asked_for_is_the_targets_fastest(target):
    chosen = {numbers: Combination.chosen(numbers, None, target) for numbers in QUANTIZE}
    tables = {numbers for numbers, one in chosen.items() if one.lowering == "table"}
    assert tables == ({"int8"} if target.startswith("tflm") else set())
    assert all(one.lowering == "algebraic" for numbers, one in chosen.items() if numbers not in tables)
    assert Combination.chosen("int8", "integer", target).lowering == "integer"


def test_the_nearest_works_and_keeps_the_target():
    for wanted in combinations():
        if broken(wanted):
            other = nearest(wanted)
            assert broken(other) is None
            assert other.target == wanted.target


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("dynamic", "algebraic", "tflm"), ("float inputs with int8 weights", "--quantize int8 --lowering algebraic")),
        (("float16", "algebraic", "tflm"), ("DEQUANTIZE for float16", "--quantize float32")),
        (("int16x8", "table", "tflm"), ("65,536 entries", "--quantize int16x8 --lowering algebraic")),
        (("dynamic", "integer", "ethos-u55"), ("integers only", "--quantize int8 --lowering integer")),
        (("int8", "integer", "tflite-runtime"), ("RSQRT for int16", "--quantize int8 --lowering table")),
    ],
)
def test_a_refusal_says_the_rule_and_the_nearest(wanted, words):
    with pytest.raises(RefusedError) as refusal:
        refuse(Combination(*wanted), None)
    assert all(word in str(refusal.value) for word in words)
    assert refusal.value.findings


@pytest.mark.parametrize(
    ("wanted", "io", "words"),
    [
        (("int8", "algebraic", "tflm"), "int16", "can be int8 or float32"),
        (("float32", "algebraic", "tflm"), "int8", "can be float32"),
        (("int8", "algebraic", "tflm"), "uint8", "must be one of float32, int8, int16"),
        (("int4", "algebraic", "tflm"), None, "`quantize` must be one of"),
        (("int8", "magic", "tflm"), None, "`lowering` must be one of"),
        (("int8", "algebraic", "esp"), None, "`target` must be one of"),
    ],
)
def test_words_that_are_no_choice_are_refused(wanted, io, words):
    with pytest.raises(BadInputError, match=words):
        refuse(Combination(*wanted), io)


def test_the_models_own_type_is_accepted():
    for quantize, io in (("int8", "int8"), ("int16x8", "int16"), ("float32", "float32"), ("int8", "float32")):
        refuse(Combination(quantize, "algebraic", "tflm"), io)
