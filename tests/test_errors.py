"""A refusal always says why, also after a trip between processes."""

import pickle

import pytest

from sqp_tflite.errors import BadInputError, RefusedError
from sqp_tflite.report import Finding, Kind, Report

FINDING = Finding("a", "EXP", "int8", "No EXP.", "Drop it.", Kind.OP)


def test_a_refusal_without_a_finding_cannot_be_made():
    with pytest.raises(ValueError, match="at least one finding"):
        RefusedError("Refused.", ())
    with pytest.raises(TypeError, match="findings"):
        RefusedError("Refused.")


@pytest.mark.parametrize(
    "error",
    [
        BadInputError("Bad."),
        RefusedError("Refused.", (FINDING,), Report("refused", "m", "tflm", "int8", "table", findings=(FINDING,))),
    ],
)
def test_an_error_keeps_its_findings_and_its_report_when_it_is_pickled(error):
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error) and str(copied) == str(error)
    assert (copied.findings, copied.report) == (error.findings, error.report)


@pytest.mark.parametrize(
    ("op", "dtype", "said"),
    [
        ("EXP", "int8", "`a`: No EXP. Received: EXP, int8. Drop it."),
        ("", "int8", "`a`: No EXP. Received: int8. Drop it."),
        ("", "", "`a`: No EXP. Drop it."),
    ],
)
def test_a_finding_says_only_what_it_has(op, dtype, said):
    assert str(Finding("a", op, dtype, "No EXP.", "Drop it.", Kind.OP)) == said
