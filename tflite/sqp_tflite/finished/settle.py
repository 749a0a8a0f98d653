"""Options that depend on what a finished file is: its numbers stay, and what is about Keras files does not apply."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from sqp_tflite.accept import quoted
from sqp_tflite.errors import OptionError
from sqp_tflite.files import Content, check_model, content_of
from sqp_tflite.limits import limit
from sqp_tflite.ops.combinations import INTEGER_IO, Combination
from sqp_tflite.options import ExportOptions

_ABOUT_KERAS = ("names", "imports", "trust_code", "hard_sigmoid")
_FLAGS = {"names": "--map", "imports": "--import", "trust_code": "--trust-code", "hard_sigmoid": "--hard-sigmoid"}


def settled(options: ExportOptions) -> ExportOptions:
    """Returns the options with the number type that the export will have, if the model is a TFLite file.

    Args:
        options: What was asked for.

    Raises:
        OptionError: The file cannot be read, or an option does not apply to it.
    """
    path = Path(options.model) if isinstance(options.model, (str, Path)) else None
    if path is not None:
        check_model(path)
    if path is None or content_of(path) is not Content.TFLITE:
        _require_neither(options)
        return options
    from sqp_tflite.flatbuffer.graph import numbers
    from sqp_tflite.flatbuffer.read import bytes_of, opened

    kind = numbers(opened(*bytes_of(path, allowed=limit(options.max_memory)))[1])
    for name in _ABOUT_KERAS:
        if getattr(options, name):
            raise OptionError(
                f"`{name}` ({_FLAGS[name]}) is about what a Keras file names. Received: {_FLAGS[name]} with "
                f"{quoted(path)}, a TFLite file, which names nothing. Leave it out."
            )
    if kind not in INTEGER_IO:
        if options.faithful:
            raise OptionError(
                f"`faithful` (--faithful) is about the tables of a file of integers. Received: --faithful with "
                f"{quoted(path)}, which is {kind}. Leave it out."
            )
        if options.wanted.integer and options.wanted.lowering == "integer":
            raise OptionError(
                "--lowering integer writes the roots of a model that is converted here. Received: it with "
                f"{quoted(path)}, a TFLite file. Use --lowering table, or algebraic."
            )
        return dataclasses.replace(options, finished=kind)
    if kind == "int16x8" and options.wanted.lowering == "table":
        raise OptionError(
            f"Tables have 256 codes, those of int8. Received: --lowering table for {quoted(path)}, which is int16x8. "
            "Leave it out, or begin with the float file that it was made from."
        )
    _require_integer(options, kind, quoted(path))
    wanted = dataclasses.replace(options.wanted, quantize=kind)
    return dataclasses.replace(options, finished=kind, wanted=wanted)


def _require_neither(options: ExportOptions) -> None:
    for name, given in (("faithful", options.faithful), ("reference", options.reference is not None)):
        if given:
            raise OptionError(
                f"`{name}` (--{name}) is about a finished TFLite file. Received: --{name} with "
                f"{quoted(options.source)}, a Keras model, which is compared with itself. Leave it out."
            )


def _require_integer(options: ExportOptions, kind: str, path: str) -> None:
    if options.wanted.quantize not in (Combination.chosen(None, None, options.wanted.target).quantize, kind):
        raise OptionError(
            f"A file of integers keeps its numbers. Received: --quantize {options.wanted.quantize} for {path}, which "
            f"is {kind}. Leave --quantize out, or begin with the float file that it was made from."
        )
    if options.replace is not None:
        raise OptionError(
            f"The activations of a file of integers become tables. Received: --replace for {path}, which is {kind}. "
            "Pass --lowering table in its place."
        )
    if options.per_tensor:
        raise OptionError(
            "`per_tensor` (--per-tensor) is about weights that are quantised here. Received: --per-tensor with "
            f"{path}, which is {kind} already. Leave it out, or begin with the float file that it was made from."
        )
    if options.faithful and options.wanted.lowering != "table":
        raise OptionError(
            "`faithful` (--faithful) says what tables hold. Received: --faithful without tables. Add --lowering table, "
            "or leave it out."
        )
