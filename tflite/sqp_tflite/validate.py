"""Whether an export can work as requested, decided before any work."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqp_tflite import accept
from sqp_tflite.accept import quoted
from sqp_tflite.emit import CStyle, artefacts, check_own
from sqp_tflite.emit.firmware import artefact_places, check_kinds
from sqp_tflite.emit.rendering import check_names
from sqp_tflite.errors import EnvironmentMissingError, OptionError, RefusedError
from sqp_tflite.files import check_data, check_model
from sqp_tflite.npu import vela
from sqp_tflite.ops.combinations import INTEGER_IO, Combination, nearest, refuse, require_data
from sqp_tflite.ops.policy import ACCELERATOR, ACCELERATORS, NAMES, NPUS, runtime_of
from sqp_tflite.options import HEADS, ExportOptions
from sqp_tflite.places import Place, check_places, report_places
from sqp_tflite.report import Report
from sqp_tflite.run import interpreters
from sqp_tflite.solution import call
from sqp_tflite.versions import versions
from sqp_tflite.wording import harmless


def validate(options: ExportOptions) -> None:
    """Checks everything that can be known without opening the model or the data.

    Args:
        options: What was requested.

    Raises:
        OptionError: A value is not one of the choices, or data or a file are missing or cannot be used.
        EnvironmentMissingError: The target's interpreter is not installed.
        RefusedError: The combination of numbers, lowering and target cannot work.
    """
    if isinstance(options.model, (str, Path)):
        check_model(Path(options.model))
    if isinstance(options.reference, (str, Path)):
        check_model(Path(options.reference))
    if isinstance(options.data, (str, Path)):
        check_data(Path(options.data))
    if options.head not in HEADS:
        raise OptionError(f"`head` (--head) must be one of {', '.join(HEADS)}. Received: {options.head!r}.")
    if options.per_tensor and not options.wanted.integer:
        raise OptionError(
            "`per_tensor` (--per-tensor) is about the weights of an integer model. Received: "
            f"--per-tensor with --quantize {options.wanted.quantize}. Add --quantize int8, or leave it out."
        )
    if options.no_conversions and not options.wanted.integer:
        raise OptionError(
            "`no_conversions` (--no-conversions) is about an integer model. Received: --no-conversions with "
            f"--quantize {options.wanted.quantize}. Add --quantize int8, or leave it out."
        )
    _check_half(options)
    _check_step(options)
    check_accelerator(options.wanted.target, options.accelerator, options.npu_only)
    _check_combination(options)
    _check_bound(options)
    check_kinds(options.artefacts, options.wanted.target)
    check_names(options.reports)
    if options.dry_run and options.reports:
        raise OptionError(
            "A dry run writes no files. Received: --dry-run with --report "
            f"{quoted(options.reports[0])}. Use --json or --report - for the plan, or leave --dry-run out."
        )
    if not options.dry_run:  # A plan is made from the model only.
        _require_means(options)
    check_places(places(options), inputs(options))
    if options.output is not None:
        check_own(options.output.parent, artefacts(options.artefacts, style(options).prefix))


def _require_means(options: ExportOptions) -> None:
    """Raises if the data or the interpreter, without which there is no proven file, are missing."""
    wanted = options.wanted
    runtime = runtime_of(wanted.target)
    if not interpreters.installed(runtime):
        raise EnvironmentMissingError(
            f"A file for `{wanted.target}` is proven on {NAMES[runtime]}, which is not installed. "
            f"Received: --target {wanted.target}. Install it with {interpreters.INSTALL[runtime]}, or choose "
            "--target litert."
        )
    require_compiler(wanted.target)
    if wanted.integer and options.finished not in INTEGER_IO:
        require_data(wanted.quantize, options.data is not None)


def check_accelerator(target: str, accelerator: str | None, npu_only: bool) -> None:
    """Raises `OptionError` if the variant of an NPU is not one of the target's, or the target has no NPU.

    Args:
        target: One of `policy.TARGETS`.
        accelerator: The variant, None for the target's default.
        npu_only: Whether nothing may be left to the CPU.
    """
    if target not in NPUS:
        for name, given in (("accelerator", accelerator is not None), ("npu_only", npu_only)):
            flag = f"--{name.replace('_', '-')}"
            if given:
                raise OptionError(
                    f"`{name}` ({flag}) is about a target with an NPU: {', '.join(NPUS)}. Received: {flag} with "
                    f"--target {target}. Choose one of these, or leave it out."
                )
        return
    if accelerator is None or accelerator in ACCELERATORS[target]:
        return
    others = [other for other in NPUS if accelerator in ACCELERATORS[other]]
    way = f"Choose one of them, or --target {others[0]}." if others else f"Omit it for {ACCELERATOR[target]}."
    raise OptionError(
        f"`accelerator` (--accelerator) must be one of {', '.join(ACCELERATORS[target])} for --target {target}. "
        f"Received: {accept.quoted(accelerator)}. {way}"
    )


def require_compiler(target: str) -> None:
    """Raises `EnvironmentMissingError` if the compiler that judges files for the target's NPU is not installed."""
    if target in NPUS and not vela.version():
        raise EnvironmentMissingError(
            f"A file for `{target}` is judged by Vela, Arm's compiler for it, which is not installed. Received: "
            f"--target {target}. Install it with {vela.INSTALL}, or choose --target tflm."
        )


def style(options: ExportOptions) -> CStyle:
    """Returns the C names that were asked for, or those made from the name of the output."""
    return options.c_style or CStyle.named(options.output.stem if options.output else "model")


def places(options: ExportOptions) -> tuple[Place, ...]:
    """Returns every place where an export will write; two of them may be the same, which `check_places` refuses."""
    found = report_places(options.reports)
    if options.output is not None:
        found += artefact_places(options.output, artefacts(options.artefacts, style(options).prefix))
        found.append(Place(options.output))
    return tuple(found)


def inputs(options: ExportOptions) -> tuple[Path, ...]:
    """Returns the files and folders that an export reads, as far as they have a path."""
    read = (options.model, options.data, options.reference)
    given = [Path(path) for path in read if isinstance(path, (str, Path))]
    return (*given, *_modules(options.imports))


def _modules(imports: Iterable[str]) -> Iterator[Path]:
    """Yields the files of modules to import, without importing any."""
    for name in imports:
        parts = name.partition(":")[0].split(".")
        for count in range(1, len(parts) + 1):
            for folder in ("", *sys.path):
                path = Path(folder, *parts[:count])
                yield from (
                    file for file in (path.with_name(f"{path.name}.py"), path / "__init__.py") if file.is_file()
                )


def _check_half(options: ExportOptions) -> None:
    if options.safe_half and options.finished is not None:
        raise OptionError(
            "`safe_half` (--safe-half) writes activations while a Keras model is traced. Received: a .tflite file. "
            "Pass the Keras model that it was made from, or leave it out."
        )
    if options.safe_half and options.wanted.integer:
        raise OptionError(
            "`safe_half` (--safe-half) is about what a GPU computes in half precision; integers do not overflow there. "
            f"Received: --safe-half with --quantize {options.wanted.quantize}. Leave it out, or use --quantize "
            "float32."
        )
    if options.half and options.wanted.quantize not in ("float32", "float16"):
        raise OptionError(
            "`half` (--half) emulates a file of floats in half precision. Received: --half with "
            f"--quantize {options.wanted.quantize}. Use --quantize float32, or leave --half out."
        )


def _check_step(options: ExportOptions) -> None:
    if options.step and options.finished is not None:
        raise OptionError(
            "`step` (--step) takes a Keras model apart. Received: --step for a .tflite file. Pass the Keras model that "
            "it was made from, or leave --step out."
        )
    if options.step and options.state is not None:
        raise OptionError(
            "`step` (--step) knows the states of the model. Received: --step together with --state. Leave --state out."
        )


def _check_bound(options: ExportOptions) -> None:
    bound = options.max_error
    if bound is not None and options.replace is None:
        raise OptionError(
            f"`max_error` (--max-error) bounds what an exchange changes. Received: --max-error {bound:g} without "
            "--replace. Add --replace accurate, or leave --max-error out."
        )
    if options.positive and options.replace is None:
        raise OptionError(
            "`positive` (--positive) keeps what an exchange writes above 0. Received: --positive without --replace. "
            "Add --replace accurate, or leave --positive out."
        )


def _check_combination(options: ExportOptions) -> None:
    wanted = options.wanted
    try:
        refuse(wanted, options.io)
    except RefusedError as error:
        better = nearest(wanted)
        parts = ("quantize", "lowering", "target")
        changes = {part: getattr(better, part) for part in parts if getattr(better, part) != getattr(wanted, part)}
        way = call(options, changes) if _fits(options, better) else ""
        report = Report(
            verdict="refused",
            source=options.source,
            target=wanted.target,
            quantize=wanted.quantize,
            lowering=wanted.lowering,
            findings=error.findings,
            solution=way,
            solution_tried=False,
            versions=versions(),
            command=options.command,
        )
        ending = f"\n{report.leads_to} {harmless(way)}" if way else ""
        raise RefusedError(f"{error}{ending}", error.findings, report) from error


def _fits(options: ExportOptions, better: Combination) -> bool:
    """Whether the other options of the call can stay as they are."""
    fitting = options.io in (None, "float32", INTEGER_IO.get(better.quantize, "float32"))
    if better.integer and options.data is None:
        return False  # Integers need data.
    return fitting and (better.integer or not (options.per_tensor or options.no_conversions))
