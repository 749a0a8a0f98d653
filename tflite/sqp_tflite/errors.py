"""What goes wrong in an export, each kind with the exit code that the command line gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqp_tflite.report import Finding, Report


class ExportError(Exception):
    """An export that gave no file. The message says the rule, what was received and what to do.

    Attributes:
        findings: Everything that was found, not only the first.
        report: What was known when the export ended, where there is a report.
        exit_code: What the command line exits with.
    """

    exit_code = 2

    def __init__(self, message: str, findings: tuple[Finding, ...] = (), report: Report | None = None):
        super().__init__(message)
        self.findings = findings
        self.report = report


class BadInputError(ExportError):
    """A call that cannot be carried out: no such file, not a model, data of the wrong shape."""


class EnvironmentMissingError(ExportError):
    """Something that this machine lacks: a runtime, a version, room on the disk."""


class CrashedError(ExportError):
    """A library's native code that died in the child process; the message holds its last words."""


class RefusedError(ExportError):
    """A model that the target cannot run, or that breaks a budget; the findings list why."""

    exit_code = 1


class ParityError(ExportError):
    """A file whose outputs on the target's interpreter are not the Keras model's."""

    exit_code = 3
