"""The HTML report is whole in itself and readable, seen in headless Chromium."""

import dataclasses
import functools
import os
import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from sqp_tflite.agreement import Agreement
from sqp_tflite.emit import curves
from sqp_tflite.emit.drawing import FAMILIES, family, graph_drawing, memory_drawing
from sqp_tflite.emit.page import _tiles, html
from sqp_tflite.flatbuffer.graph import Op
from sqp_tflite.inspection import inspection
from sqp_tflite.report import Activation, Finding, Form, Kind, LayerError, PlanRow, Replacement

DATA = Path(__file__).parent / "data"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --hide-scrollbars --enable-logging=stderr"
).split()
WIDTHS, SCHEMES = (1280, 400), {"dark": 0, "light": 1}


@pytest.fixture(scope="module")
def chromium():
    """The browser, installed as a Debian package where this machine allows it."""
    if shutil.which("chromium") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update"], capture_output=True, check=False, timeout=300)
        subprocess.run(["apt-get", "install", "-y", "chromium"], capture_output=True, check=False, timeout=600)
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("The HTML report was not opened: no chromium here. Install the Debian package chromium.")
    return found


def exchanged(layer, was, terms):
    now = Activation("algebraic", (("of", was), ("terms", terms)))
    return PlanRow(layer, now, Form.OPS, ("MUL", "ADD", "SQRT"), was=Activation(was))


@functools.cache
def rich_report():
    """An inspected file with rows in every part of the page."""
    graph, report = inspection(DATA / "two_inputs_int8.tflite", "tflm", "sqp-export m.keras --report m.html")
    long = "encoder/block_1/a_layer_with_a_rather_long_name"
    report = dataclasses.replace(
        report,
        verdict="refused",
        lowering="algebraic",
        findings=(
            Finding(long, "EXP", "int8", "EXP is not admitted.", "Run again with `--replace accurate`.", Kind.OP),
        ),
        replacements=(
            Replacement(long, "gelu", "algebraic gelu", 4, 8e-4),
            Replacement("b", "softplus", "algebraic softplus", 3, 2.7e-4),
        ),
        plan=(
            PlanRow("conv", Activation("squareplus", (("b", 4.0),)), Form.OPS, ("MUL", "ADD", "SQRT", "ADD")),
            exchanged(long, "gelu", 4),
            exchanged("b", "softplus", 3),
        ),
        agreement=tuple(
            Agreement(
                name,
                status,
                "its own words",
                against,
                output,
                32,
                0.0123,
                3.1,
                0.004,
                0.25,
                1.0,
                200,
                256,
                0.97,
                "accuracy",
                0.981,
                0.978,
                on,
            )
            for against in ("given", "written")
            for output in ("probabilities", long)
            for name, status, on in (
                ("tflm", "ok", "data"),
                ("litert", "differs", "data"),
                ("tflm", "saturates", "ends"),
            )
        ),
        layer_errors=(LayerError(long, "t", 0.1, 0.05), LayerError("b", "t2", 0.02, 0.01)),
        unproven=(f"`{long}` was taken for elu.",),
        warnings=("output `a` is coarse.",),
        notes=("The batch is fixed to 1.",),
    )
    return graph, report


@pytest.fixture(scope="module")
def page():
    graph, report = rich_report()
    return html(report, graph)


def opened(chromium: str, url: str, folder: Path, *flags: str) -> subprocess.CompletedProcess:
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def complaints(done: subprocess.CompletedProcess) -> list[str]:
    """What the page's console says; the browser's own log lines are not the page's."""
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


MEASURE = """
const results = [...document.querySelectorAll("iframe")].map(frame => {
  const page = frame.contentDocument, root = page.documentElement;
  const texts = [...page.querySelectorAll("p, td, th, h1, h2, li, figcaption, code, pre, span, b, text")];
  const sizes = texts.filter(e => e.textContent.trim()).map(e =>
    parseFloat(frame.contentWindow.getComputedStyle(e).fontSize) * (e.ownerSVGElement ? e.getScreenCTM().a : 1));
  return [root.scrollWidth, frame.clientWidth, Math.min(...sizes)].join(" ");
});
document.title = results.join(";");
"""


def framed(pages: list[tuple[int, str]], after: str = "") -> str:
    """A page that shows others side by side, each in a frame of its own width: what a window so wide would show."""
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:1200px" srcdoc="{escape(page)}"></iframe>'
        for width, page in pages
    )
    script = f"<script>onload = () => {{{after}}}</script>" if after else ""
    return (
        '<!doctype html><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f'<body style="margin:0;display:flex;width:max-content">{frames}{script}</body>'
    )


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.large), "dark"])
def test_page_opens_without_a_complaint_at_both_widths(chromium, page, scheme, tmp_path):
    file, shot = tmp_path / "report.html", tmp_path / "shot.png"
    file.write_text(framed([(width, page) for width in WIDTHS]), encoding="utf-8")
    flags = [f"--window-size={sum(WIDTHS)},1200", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"]
    done = opened(chromium, file.as_uri(), tmp_path / "profile", f"--screenshot={shot}", *flags)
    assert complaints(done) == []
    seen = image.imread(shot)[..., :3]
    assert seen.shape[1] == sum(WIDTHS)
    for part in (seen[:, : WIDTHS[0]], seen[:, WIDTHS[0] :]):
        brightness = float(np.median(part))
        # The page's background is most of what one sees: #f6f7f9 and white, or #0f1215 and #181c21.
        assert brightness > 0.9 if scheme == "light" else brightness < 0.2
        assert len(np.unique((part * 255).astype(np.uint8).reshape(-1, 3), axis=0)) > 50


@pytest.fixture(scope="module")
def measured(chromium, page, tmp_path_factory):
    """Per frame: width of the content, width of the window, size of the smallest text; the last has a planted fault."""
    folder = tmp_path_factory.mktemp("measured")
    wide = page.replace("<main>", '<main><div style="width:900px">wide</div>')
    (folder / "all.html").write_text(framed([*((w, page) for w in WIDTHS), (400, wide)], MEASURE), encoding="utf-8")
    done = opened(chromium, (folder / "all.html").as_uri(), folder / "profile", "--dump-dom")
    title = re.search(r"<title>(.*?)</title>", done.stdout)[1]
    return [tuple(float(value) for value in part.split()) for part in title.split(";")]


@pytest.mark.parametrize("width", WIDTHS)
def test_page_is_no_wider_than_the_window_and_no_text_is_tiny(measured, width):
    content, room, least = measured[WIDTHS.index(width)]
    assert content <= room == width
    # 9 CSS pixels are 2.4 mm at arm's length, the size of footnotes.
    assert least >= 9


def test_width_check_sees_a_page_that_is_too_wide(measured):
    content, room, _ = measured[-1]
    assert content > room


def test_console_check_sees_a_script_error(chromium, page, tmp_path):
    file = tmp_path / "broken.html"
    file.write_text(page.replace("</body>", "<script>undefinedFunction()</script></body>"), encoding="utf-8")
    assert complaints(opened(chromium, file.as_uri(), tmp_path / "profile", "--dump-dom"))


OUTSIDE = r"""(?:src|href|action|data)\s*=\s*["'](?!data:,|#)|url\(|@import|<script|<link(?! rel="icon")|https?://"""


def test_page_asks_nobody_for_anything(page):
    assert re.findall(OUTSIDE, page) == []


@pytest.mark.parametrize("fault", ['<img src="x.png">', '<a href="https://x.example">', "<script>1</script>", "url(x)"])
def test_outside_check_sees(page, fault):
    assert re.findall(OUTSIDE, page.replace("</main>", fault))


def test_verdict_comes_first_and_every_part_is_there(page):
    body = page[page.index("<body>") :]
    assert body.index("Refused.") < body.index("Reasons") < body.index('id="activations"')
    for part in ("findings", "activations", "agreement", "layers", "graph", "memory", "ops", "io", "reproduce"):
        assert f'id="{part}"' in body
    assert "sqp-export m.keras --report m.html" in body


def test_names_are_escaped():
    graph, report = rich_report()
    evil = dataclasses.replace(
        report,
        source="<script>alert(1)</script>",
        notes=("<img src=x>",),
        memory=dataclasses.replace(
            report.memory, steps=tuple(dataclasses.replace(step, layer="<b>&") for step in report.memory.steps)
        ),
    )
    made = html(evil, graph)
    assert "<script" not in made and "<img" not in made and "<b>&amp;" not in made.replace("<b>&amp;amp;", "")


def test_graph_has_a_box_per_operator_in_the_colour_of_its_rule():
    graph, report = rich_report()
    drawn = graph_drawing(graph, report)
    assert drawn.count('<g class="op ') == len(graph.main.ops)
    assert 'class="op linear"' in drawn and 'class="op move"' in drawn


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("CONV_2D", "int8", "linear"),
        ("SQRT", "float32", "arithmetic"),
        ("SQRT", "int8", "refused"),
        ("EXP", "float32", "refused"),
        ("RELU", "int8", "clip"),
        ("RESHAPE", "int8", "move"),
        ("QUANTIZE", "float32", "type"),
    ],
)
def test_family_is_the_rule_of_the_policy(name, dtype, expected):
    assert family(Op(0, name, 1, (), (), dtype), "tflm") == expected


def test_families_hold_every_admitted_op():
    from sqp_tflite.ops.policy import ADMITTED

    assert frozenset().union(*(ops for _, _, ops in FAMILIES)) == ADMITTED


@pytest.mark.parametrize(("budget", "shown"), [(3000, True), (100_000, False), (None, False)])
def test_memory_drawing_shows_a_budget_that_is_near(budget, shown):
    _, report = rich_report()
    report = dataclasses.replace(report, memory=dataclasses.replace(report.memory, ram_budget=budget))
    assert ("budget" in memory_drawing(report)) == shown


def test_squareplus_curve_is_the_form_that_the_file_computes():
    _, report = rich_report()
    (drawn,) = [curve for curve in curves.curves(report) if curve.title == "squareplus (b=4)"]
    # Two roundings of numbers up to 16 in float32: 2 * 16 * 2**-24.
    assert np.abs(drawn.error).max() < 2e-6
    assert drawn.before[curves.POINTS // 2] == 1.0


def test_replaced_activations_have_curves_within_their_stated_change():
    _, report = rich_report()
    drawn = {curve.title: curve for curve in curves.curves(report)}
    for change in report.replacements:
        # The stated change is for all inputs; the curve samples some of them, in float32.
        assert 0 < np.abs(drawn[change.was].error).max() <= change.max_change * 1.01


STYLE = (Path(curves.__file__).parent / "templates" / "report.html").read_text("utf-8")


def luminance(colour: str) -> float:
    colour = "".join(char * 2 for char in colour) if len(colour) == 3 else colour
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_colours_stand_out_from_the_background(scheme):
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)", 1)
    colours = dict(re.findall(r"--(\w+): #([0-9a-f]+);", light if scheme == "light" else dark.split("* {")[0]))
    for ink in ("ink", "soft", "good", "bad", "warn", "linear", "arithmetic", "clip", "move", "type"):
        one, other = sorted((luminance(colours[ink]), luminance(colours["card"])), reverse=True)
        # 4.5 is what WCAG 2 asks of text at level AA.
        assert (one + 0.05) / (other + 0.05) >= 4.5, ink


@pytest.mark.parametrize(
    ("same", "shown", "hidden"), [(0.25, "Same class", "Interpreters"), (None, "Interpreters", "Same")]
)
def test_the_class_is_a_headline_for_classifiers_only(same, shown, hidden):
    graph, report = rich_report()
    row = Agreement("tflm", "ok", samples=3, max_abs_error=0.1, error_of_range=0.01, argmax_agreement=same)
    rows = (row, Agreement("litert", "differs"), Agreement("tflite-runtime", "not checked"))
    tiles = {tile.label: tile.value for tile in _tiles(dataclasses.replace(report, agreement=rows), graph)}
    assert shown in tiles and hidden not in " ".join(tiles)
    assert tiles.get("Interpreters", "1 of 2") == "1 of 2"
