"""The commands sqp-export, sqp-inspect, sqp-check and sqp-cc. TensorFlow is imported after the call was validated."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sqp_tflite import accept
from sqp_tflite.agreement import verdict
from sqp_tflite.cli import piped
from sqp_tflite.cli.arguments import cc_parser, check_parser, export_parser, inspect_parser
from sqp_tflite.cli.imports import quick_imports
from sqp_tflite.cli.piped import DASH, Piped
from sqp_tflite.cli.running import Call, Outcome, console, progress_of, run_command, show_result
from sqp_tflite.errors import OutputError
from sqp_tflite.files import check_data, check_input, check_model
from sqp_tflite.limits import require_libraries
from sqp_tflite.ops.combinations import Combination
from sqp_tflite.options import ExportOptions
from sqp_tflite.places import Place
from sqp_tflite.report import Report

_EXIT_CODES = {"ok": 0, "not_proven": 2, "parity_failed": 3}
"""Of a check, by its verdict."""

_ONLY_DATA = (
    "the file differs on made-up inputs. An integer file, or one with other activations, must only agree on inputs "
    "like those of its export: pass them with --data."
)
_NO_INTERPRETER = "no interpreter is installed that could run the file. Install one: pip install ai-edge-litert"

SUFFIX, _CHANGED = ".tflite", "_sqp"
"""The ending of a TFLite file, and what its name gains in the name of one that is made from it."""

__all__ = [
    "cc_main",
    "cc_parser",
    "check_main",
    "check_parser",
    "export_main",
    "export_parser",
    "inspect_main",
    "inspect_parser",
]


def export_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-export and returns its exit code."""
    return run_command(export_parser(), arguments, _export)


def inspect_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-inspect and returns its exit code."""
    return run_command(inspect_parser(), arguments, _inspect)


def check_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-check and returns its exit code."""
    return run_command(check_parser(), arguments, _check)


def cc_main(arguments: Sequence[str] | None = None) -> int:
    """Runs sqp-cc and returns its exit code."""
    return run_command(cc_parser(), arguments, _cc)


def _export(call: Call) -> Outcome:
    from sqp_tflite.finished.settle import settled
    from sqp_tflite.validate import inputs, places, validate

    options = settled(_options(call))
    validate(options)
    piped.check_places(places(options), call.out)
    with progress_of(call) as tell:
        tell("load")
        require_libraries()
        with quick_imports():
            from sqp_tflite.pipeline import run

        _narrow()
        put = functools.partial(_deliver, call, inputs=inputs(options))
        exported = run(options, tell, put, call.began)
    from sqp_tflite.cli import text

    report, show = exported.report, text.show_report
    if options.dry_run:
        show = text.show_plan
        _deliver(call, b"", report, {})
    elif call.piped is Piped.MODEL:
        report = dataclasses.replace(report, output="standard output")

    def shown() -> None:
        show_result(call, report.to_dict(), lambda console: show(console, report))
        if exported.files and options.output and not call.options.json and not call.options.quiet:
            text.show_files(console(call.text), options.output.parent, tuple(exported.files), options.reports)

    written = f" `{options.output}` was written and may ship." if options.output else ""
    nothing = not call.piped or options.dry_run
    return Outcome(0, shown, written or ("" if nothing else f" {call.piped.value} was written."))


def _narrow() -> None:
    """Lets Keras compute in float32 where a file does not say the type, whatever keras.json says of new models."""
    import keras

    keras.config.set_floatx("float32")


def _deliver(
    call: Call, content: bytes, report: Report, files: Mapping[Place, bytes], inputs: Iterable[Path] = ()
) -> None:
    call.ending.check()
    piped.deliver(call.out, call.piped, content, report, files, inputs)


def _options(call: Call) -> ExportOptions:
    """Returns the export's options, without importing TensorFlow."""
    from sqp_tflite.emit import CStyle

    given = call.options
    source = Path(given.model)
    output = _beside(source) if given.output is None else Path(given.output)
    nowhere = given.dry_run or given.output == DASH
    prefix = CStyle.named(output.stem).prefix if given.c_prefix is None else given.c_prefix
    return ExportOptions(
        model=source,
        output=None if nowhere else output,
        wanted=Combination.chosen(given.quantize, given.lowering, given.target),
        accelerator=given.accelerator,
        npu_only=given.npu_only,
        io=given.io,
        per_tensor=given.per_tensor,
        no_conversions=given.no_conversions,
        state=accept.states("--state", given.state) if given.state else None,
        step=given.step,
        data=given.data,
        names=accept.meanings("--map", given.map),
        imports=accept.modules("--import", given.imports),
        trust_code=given.trust_code,
        hard_sigmoid=given.hard_sigmoid,
        replace=accept.optional(accept.rules)("--replace", given.replace),
        head=given.head,
        max_error=given.max_error,
        positive=given.positive,
        max_change=given.max_change,
        dry_run=given.dry_run,
        emit=given.emit,
        c_style=CStyle(prefix, given.c_section, given.c_qualifier),
        ram=given.ram,
        flash=given.flash,
        max_memory=given.max_memory,
        reference=given.reference,
        faithful=given.faithful,
        half=given.half,
        safe_half=given.safe_half,
        reports=piped.named(given.report),
        command=call.command,
    )


def _beside(model: Path) -> Path:
    """Returns the output that is meant where none is named: beside the model, a folder included, under its name."""
    named = model if model.name not in ("", "..") else model.resolve()
    if not named.name:
        check_model(model)
        raise OutputError(f"An output needs a name. Received: {accept.quoted(model)}, which has none. Pass it with -o.")
    stem = named.name if os.path.isdir(named) else named.stem
    # A finished file stays as it is.
    return named.with_name(f"{stem}{_CHANGED if named.suffix == SUFFIX else ''}{SUFFIX}")


def _inspect(call: Call) -> Outcome:
    options = call.options
    from sqp_tflite.cli.text import show_graph
    from sqp_tflite.emit.rendering import check_names, render
    from sqp_tflite.inspection import inspection
    from sqp_tflite.places import check_places, report_places
    from sqp_tflite.validate import check_accelerator, require_compiler

    paths, read = piped.named(options.report), (Path(options.file),)
    check_names(paths)
    places = report_places(paths)
    check_places(places, read)
    piped.check_places(places, call.out)
    check_accelerator(options.target, options.accelerator, options.npu_only)
    require_compiler(options.target)
    graph, report = inspection(
        Path(options.file), options.target, call.command, options.require, options.max_memory,
        accelerator=options.accelerator, npu_only=options.npu_only,
    )  # fmt: skip
    report = dataclasses.replace(report, seconds=call.seconds())
    content = Path(options.file).read_bytes() if places else b""
    files = {place: render(report, graph, content, place.path.suffix) for place in places}
    _deliver(call, b"", report, files, read)
    shown = functools.partial(show_graph, graph=graph, report=report)
    written = " The report was written." if options.report else ""
    return Outcome(1 if report.findings else 0, lambda: show_result(call, report.to_dict(), shown), written)


def _check(call: Call) -> Outcome:
    options = call.options
    # Before TensorFlow is imported.
    check_model(Path(options.model))
    check_input(Path(options.file), "Pass a .tflite file.")
    if options.data is not None:
        check_data(Path(options.data))
    with progress_of(call) as tell:
        tell("load")
        require_libraries()
        with quick_imports():
            from sqp_tflite.parity import check

        _narrow()
        rows = check(
            options.model,
            options.file,
            options.data,
            tolerance=options.tolerance,
            names=accept.meanings("--map", options.map),
            imports=accept.modules("--import", options.imports),
            trust_code=options.trust_code,
            hard_sigmoid=options.hard_sigmoid,
            inputs=options.inputs,
            outputs=options.outputs,
            ends=True,
            half=options.half,
            max_memory=options.max_memory,
            progress=tell,
        )
    from sqp_tflite.cli.text import show_check
    from sqp_tflite.report import ON_DATA, ON_MADE_UP, SCHEMA
    from sqp_tflite.versions import versions

    judged = verdict(rows)
    found = {
        "schema": SCHEMA,
        "verdict": judged,
        "judged_on": ON_DATA if options.data is not None else ON_MADE_UP,
        "source": options.model,
        "file": options.file,
        "agreement": [dataclasses.asdict(row) for row in rows],
        "versions": dict(versions()),
        "command": call.command,
    }
    shown = functools.partial(show_check, file=options.file, rows=rows)
    ran = any(row.status != "not checked" for row in rows)
    missing = (_ONLY_DATA if ran else _NO_INTERPRETER) if judged == "not_proven" else ""
    return Outcome(_EXIT_CODES[judged], lambda: show_result(call, found, shown), missing=missing)


def _cc(call: Call) -> Outcome:
    from sqp_tflite.cli.coding import coded

    options = call.options
    coding = coded(
        Path(options.file),
        None if options.output is None else Path(options.output),
        prefix=options.c_prefix,
        section=options.c_section,
        qualifier=options.c_qualifier,
        max_memory=options.max_memory,
    )
    call.ending.check()
    coding.write()
    shown = functools.partial(show_result, call, coding.found, coding.show)
    return Outcome(0, shown, f" `{coding.folder}` was written.")
