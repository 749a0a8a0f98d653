"""The errors of an export, each with its exit code on the command line."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from sqp_tflite.wording import MOST_LINES, harmless, readable, said, shortened

if TYPE_CHECKING:
    from sqp_tflite.report import Finding, Report


_MOST_LINKS = 20
"""Errors behind an error that are looked at."""


class ExportError(Exception):
    """An export that made no file. The message states the rule, what was received and what to do.

    Names and texts of files may be part of it: what is too long is left out, and control characters are escaped.

    Attributes:
        findings: All findings, not only the first.
        report: What was known when the export ended, if there is a report.
        exit_code: What the command line exits with.
        code: Its entry on the page about troubleshooting.
    """

    exit_code = 2
    code = "SQP-E001"
    _most_lines = 1

    def __init__(self, message: str, findings: tuple[Finding, ...] = (), report: Report | None = None):
        super().__init__(readable(message, self._most_lines))
        self.findings = findings
        self.report = report

    def __reduce__(self) -> tuple[type[ExportError], tuple[object, ...]]:
        # Pickled as its message only, an error from a child process would lose its findings.
        return type(self), (str(self), self.findings, self.report)


class BadInputError(ExportError):
    """A call that cannot work: a missing file, not a model, data with the wrong shape."""


class OptionError(BadInputError):
    """An option with a value that it does not take, or beside another that it does not go with."""

    code = "SQP-E011"


class OutputError(BadInputError):
    """A place where no file may be written."""

    code = "SQP-E012"


class InputFileError(BadInputError):
    """A file that is missing, cannot be read, or is none."""

    code = "SQP-E013"


class MemoryLimitError(BadInputError):
    """A file that declares more than may be read."""

    code = "SQP-E014"


class ModelFileError(BadInputError):
    """A file of a model that cannot be opened."""

    code = "SQP-E021"


class UnknownNameError(BadInputError):
    """A name in a model's file, or in an option about such names, that stands for nothing."""

    code = "SQP-E022"


class CodeInFileError(BadInputError):
    """A model's file that would run code."""

    code = "SQP-E023"


class ModelError(BadInputError):
    """A model that cannot be exported as it is: not built, open dimensions, inputs of another kind."""

    code = "SQP-E024"


class WeightsError(BadInputError):
    """Weights that are not finite."""

    code = "SQP-E025"


class TFLiteFileError(BadInputError):
    """A finished TFLite file that is damaged, or cannot be worked on."""

    code = "SQP-E026"


class DataError(BadInputError):
    """Samples or labels that do not fit the model."""

    code = "SQP-E031"


class PairingError(BadInputError):
    """A file whose inputs and outputs are not those of the model that it is compared with."""

    code = "SQP-E032"


class EnvironmentMissingError(ExportError):
    """Something that this machine lacks: a runtime, a version, disk space."""

    code = "SQP-E041"


class CrashedError(ExportError):
    """Native code of a library that crashed in the child process; the message holds its last output."""

    code = "SQP-E042"
    _most_lines = MOST_LINES


class RefusedError(ExportError):
    """A model that the target cannot run, or that breaks a budget.

    Args:
        message: For the user.
        findings: Why, at least one.
        report: What was known when the export ended.

    Raises:
        ValueError: There are no findings: a refusal needs a reason.
    """

    exit_code = 1
    code = "SQP-E101"
    _most_lines = MOST_LINES

    def __init__(self, message: str, findings: tuple[Finding, ...], report: Report | None = None):
        if not findings:
            raise ValueError(f"A refusal must have at least one finding. Received: none, for the message {message!r}.")
        super().__init__(message, findings, report)


class ParityError(ExportError):
    """A file whose outputs on an interpreter differ from the Keras model's.

    Attributes:
        remedy: What helps, as the end of the message says it; "" where nothing is known.
    """

    exit_code = 3
    code = "SQP-E201"
    _most_lines = MOST_LINES
    remedy = ""


_EXHAUSTED = {
    errno.EMFILE: "Allow this process more of them (ulimit -n).",
    errno.ENFILE: "End other programs.",
    errno.ENOMEM: "Use a machine with more memory, or end other programs.",
    errno.ENOSPC: "Free some of it, also where temporary files go (TMPDIR).",
    errno.EDQUOT: "Free some of it, also where temporary files go (TMPDIR).",
}


_UNMAPPED = "failed to map segment"
"""What the dynamic linker says where there is no memory for a library."""
_THREADLESS = "can't start new thread"
_HALF_IMPORTED = "partially initialized module"
"""What Python says of a module whose import has failed before, and a library went on without it."""


def exhausted(error: BaseException) -> str:
    """Returns a line about what the machine has run out of, "" if an error is about something else.

    Args:
        error: It, or an error behind it, tells.
    """
    link: BaseException | None = error
    for _ in range(_MOST_LINKS):
        unmapped = isinstance(link, ImportError) and _UNMAPPED in str(link)
        unmapped |= isinstance(link, (ImportError, AttributeError)) and _HALF_IMPORTED in str(link) and _bounded()
        if isinstance(link, RuntimeError) and str(link) == _THREADLESS:
            return (
                "this machine ran out of what the call needs: threads. Allow more processes or memory (ulimit -u, -v)."
            )
        number = errno.ENOMEM if unmapped or isinstance(link, MemoryError) else getattr(link, "errno", None)
        if (unmapped or isinstance(link, (OSError, MemoryError))) and number in _EXHAUSTED:
            way = "Allow this process more (ulimit -v, -d)." if number == errno.ENOMEM and _bounded() else ""
            return f"this machine ran out of what the call needs: {os.strerror(number)}. {way or _EXHAUSTED[number]}"
        link = link and (link.__cause__ or link.__context__)
    return ""


def _bounded() -> bool:
    """Whether this process may take only so much memory: what fails in an import then is for want of it."""
    try:
        import resource
    except ImportError:  # Not on Windows.
        return False
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(one)[0] != resource.RLIM_INFINITY for one in kinds)


def _removed() -> bool:
    """Whether the current folder is gone."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def barred(error: OSError) -> str:
    """Returns a line about a file or a folder that cannot be used, "" if the error is about something else."""
    if not isinstance(error, PermissionError) or error.filename is None:
        return ""
    return (
        f"`{shortened(harmless(os.fsdecode(error.filename)))}` cannot be used. Received: {error.strerror}. "
        "Check its permissions, and those of the folders above it."
    )


def unforeseen(error: Exception) -> str:
    """Returns a line about an error that nothing expects: a fault of this program, if not of the machine."""
    if isinstance(error, FileNotFoundError) and error.filename is None and _removed():
        return "the current folder must exist. Received: one that was removed. Change to another folder (cd)."
    if isinstance(error, OSError) and barred(error):
        return barred(error)
    return exhausted(error) or (
        f"unexpected {type(error).__name__}: {said(error) or 'no message'}. This is a fault of the program: please "
        "report it with what the same call prints with --debug."
    )
