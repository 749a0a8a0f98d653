"""Whatever a file calls its parts, what is printed is short and is nothing but text."""

import pytest

from sqp_tflite import wording
from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.report import Finding, Kind


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain dénse_1 層", "plain dénse_1 層"),
        ("two\nlines", r"two\nlines"),
        ("\x1b[31mred\x07\r", r"\x1b[31mred\x07\r"),
        ("back\u202ewards", r"back\u202ewards"),
        ("a name of bytes \udcff", r"a name of bytes \udcff"),
    ],
)
def test_control_characters_become_escapes(text, safe):
    assert wording.harmless(text) == safe
    assert wording.harmless(safe) == safe


@pytest.mark.parametrize("length", [10, wording.LONGEST, wording.LONGEST + 1, 189_046])
def test_a_long_text_keeps_its_beginning_and_its_end(length):
    text = "The rule. " + "x" * length + " What to do."
    shown = wording.shortened(text)
    assert len(shown) <= wording.LONGEST and shown.startswith("The rule. ") and shown.endswith(" What to do.")
    assert wording.shortened(shown) == shown


def test_a_long_list_names_a_few_and_counts_the_rest():
    assert wording.listed("abc") == "`a`, `b`, `c`"
    assert wording.listed(range(1000), 3) == "`0`, `1`, `2` and 997 more"
    assert len(wording.listed(["\n" * 5000, "b"])) < 200


def test_an_error_is_one_short_line_whatever_it_is_about():
    error = BadInputError("The rule. Received: " + "name\n" * 40_000 + ". What to do.")
    assert str(error).count("\n") == 0 and len(str(error)) <= wording.LONGEST
    assert str(error).endswith("What to do.")


def test_a_refusal_with_thousands_of_findings_is_some_lines_and_keeps_them_all():
    findings = tuple(Finding(f"layer\n{i}", "EXP", "int8", "No EXP.", "Drop it.", Kind.OP) for i in range(4000))
    error = RefusedError("Refused:" + "".join(f"\n- {finding}" for finding in findings), findings)
    lines = str(error).split("\n")
    assert len(lines) == wording.MOST_LINES and lines[-1] == f"... and {4001 - wording.MOST_LINES + 1:,} more"
    assert lines[1] == r"- `layer\n0`: No EXP. Received: EXP, int8. Drop it." and len(error.findings) == 4000
    assert wording.readable(str(error), wording.MOST_LINES) == str(error)


def test_parts_are_joined_up_to_a_number():
    assert wording.joined("abc", 3) == "a, b, c" and wording.joined((), 3) == ""
    assert wording.joined(map(str, range(1005)), 2) == "0, 1 and 1,003 more"
    assert wording.joined("abc", 2, "more like it") == "a, b and 1 more like it"


def test_calls_of_functions_are_left_out_of_what_tensorflow_says():
    text = 'loc("StatefulPartitionedCall/PartitionedCall_1/mine/lstm_1/Erf"): MyPartitionedCall/x'
    assert wording.said(text) == 'loc("mine/lstm_1/Erf"): MyPartitionedCall/x'


@pytest.mark.parametrize(
    ("pair", "shown"),
    [
        ((0.032, 0.01), ("0.032", "0.01")),
        ((0.010004, 0.01), ("0.010004", "0.01")),
        ((1 / 3, 0.3333), ("0.33333", "0.3333")),
        ((1.0, 1.0 + 2**-52), ("1", "1.0000000000000002")),
        ((0.5, 0.5), ("0.5", "0.5")),
        ((float("nan"), 0.1), ("nan", "0.1")),
    ],
)
def test_two_numbers_that_differ_never_look_the_same(pair, shown):
    assert wording.apart(*pair) == shown
