"""The table of versions: what pip and pytest say becomes a cell, and rows that were not run keep their results."""

import pytest

from tools import version_matrix
from tools.version_matrix import BEGIN, END, PAGE, ROWS, Row

PIP = """
ERROR: Ignored the following versions that require a different python version: 3.13.0 Requires-Python >=3.11
ERROR: Could not find a version that satisfies the requirement numpy==1.26.* (from versions: 2.1.0)
ERROR: No matching distribution found for numpy==1.26.*
"""


def test_the_cause_is_pips_own():
    assert version_matrix.cause(PIP) == "No matching distribution found for numpy==1.26.*"
    assert version_matrix.cause("") == "pip failed"


def test_the_counts_are_pytests_and_a_crash_is_no_success():
    assert version_matrix.counted("...\n2 failed, 475 passed, 1 skipped in 3.2s") == "2 failed, 475 passed, 1 skipped"
    assert version_matrix.counted("Fatal Python error") == version_matrix.counted("") == "no tests ran"


def test_a_python_that_is_not_there_is_a_row():
    assert version_matrix.run(Row("3.99")) == ("", "not run: no python3.99 on this machine")


def test_rows_that_were_not_run_keep_their_result():
    page = f"before\n{BEGIN}\n{END}\nafter"
    first, second = ROWS[0], ROWS[1]
    page = version_matrix.written(page, {str(second): f"| {second} | - | old | 2026-01-01 |"})
    page = version_matrix.written(page, {str(first): f"| {first} | - | new | 2026-01-02 |"})
    assert [line.split("|")[3].strip() for line in page.splitlines() if line.startswith("| Python")] == ["new", "old"]
    assert page.startswith("before\n") and page.endswith("\nafter")


def test_every_python_of_the_package_is_a_row():
    assert {row.python for row in ROWS} >= {"3.10", "3.11", "3.12", "3.13"}
    with pytest.raises(SystemExit):
        version_matrix.main(["--help"])


def test_the_page_has_rows_of_the_table_only_and_none_that_failed():
    table = PAGE.read_text("utf-8").split(BEGIN)[1].split(END)[0]
    lines = [line for line in table.splitlines() if line.startswith("| Python")]
    assert lines and {line.split("|")[1].strip() for line in lines} <= {str(row) for row in ROWS}
    assert not [line for line in lines if "failed" in line or "error" in line or "no tests" in line]
