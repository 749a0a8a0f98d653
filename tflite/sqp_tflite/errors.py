"""The errors of an export, each with the exit code that the command line gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqp_tflite.report import Finding, Report


class ExportError(Exception):
    """An export that gave no file. The message says the rule, what was received and what to do.

    Attributes:
        findings: All findings, not only the first.
        report: What was known when the export ended, where there is a report.
        exit_code: What the command line exits with.
    """

    exit_code = 2

    def __init__(self, message: str, findings: tuple[Finding, ...] = (), report: Report | None = None):
        super().__init__(message)
        self.findings = findings
        self.report = report

    def __reduce__(self) -> tuple[type[ExportError], tuple[object, ...]]:
        # An error that pickles as its message only would lose its findings on the way from a child process.
        return type(self), (str(self), self.findings, self.report)


class BadInputError(ExportError):
    """A call that cannot work: no such file, not a model, data of the wrong shape."""


class EnvironmentMissingError(ExportError):
    """Something that this machine lacks: a runtime, a version, room on the disk."""


class CrashedError(ExportError):
    """Native code of a library that crashed in the child process; the message holds its last output."""


class RefusedError(ExportError):
    """A model that the target cannot run, or that breaks a budget.

    Args:
        message: For the user.
        findings: Why, at least one.
        report: What was known when the export ended.

    Raises:
        ValueError: No findings: a refusal needs a reason.
    """

    exit_code = 1

    def __init__(self, message: str, findings: tuple[Finding, ...], report: Report | None = None):
        if not findings:
            raise ValueError(f"A refusal must have at least one finding. Received: none, for the message {message!r}.")
        super().__init__(message, findings, report)


class ParityError(ExportError):
    """A file whose outputs on an interpreter differ from the Keras model's."""

    exit_code = 3
