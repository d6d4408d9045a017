"""The page: what is in it, and that it needs nothing beside itself."""

import math
import re

import pytest

from unsaddle.experiments import rows as stored
from unsaddle.experiments.rows import RowFile
from unsaddle.pictures import journal
from unsaddle.report import page
from unsaddle.report.blocks import Figure, Section, Table
from unsaddle.report.page import number, write
from unsaddle.report.sections import WRITERS
from unsaddle.report.style import LINE_STYLES, drawn_as, new_figure

pytest.importorskip("matplotlib")

ENVIRONMENT = {
    "commit": "0123456789ab",
    "python": "3.11.7",
    "torch": "2.13.0",
    "numpy": "2.4",
    "unsaddle": "0.1.0",
    "cpu": "a processor",
    "cores": 2,
    "threads": 1,
    "load": math.nan,
    "time": "2026-01-01T00:00:00+00:00",
    "command": "unsaddle reproduce --targets 1",
}


NCFIND = {"iterations": 9, "samples": 2000, "quotient": -1.1, "iterate_quotient": -0.8}


def curve(method, target=0, **fields):
    steps = list(range(30))
    measured = {
        "data_name": "a <small> set",
        "num_samples": 50,
        "dimension": 7,
        "status": "NOTHING_FOUND",
        "iterations": steps,
        "samples": [50 * (step + 1) for step in steps],
        "quotient": [0.3 - 2.3 * (1 - 0.9**step) for step in steps],
        "norm": [1.0] * 30,
        "lowest": -2.0,
        "found": None,
        "ncfind": NCFIND if "neon+" in method else None,
    }
    settings = {"method": method, "target": target, "data": {"file": None}, "step_size": 0.01}
    settings |= {"gamma": 1.0, "iterations": 1000}
    return {"experiment": "reproduce", "settings": settings} | measured | fields | {"environment": ENVIRONMENT}


CURVES = ("lanczos", "power", "neon", "neon+", "neon-st", "neon+-st", "neon-short", "neon+-short", "krylov")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    with RowFile(directory) as file:
        for target in (0, 1):
            for method in CURVES:
                file.append(curve(method, target))
    return write(directory)


@pytest.mark.slow
def test_the_page_holds_figures_observations_settings_versions_and_the_command(path):
    text = path.read_text()
    for expected in (
        "NEON overlaps the power method",
        "Figure 1: target 0 on a &lt;small&gt; set, n = 50, d = 7.",
        "Supplement, pair 1: target 1",
        "unsaddle reproduce --targets 1",
        "2.13.0",
        "a processor",
        "Settings of the 18 rows of reproduce",
        "step_size",
    ):
        assert expected in text
    assert text.count("<figure>") == 3
    assert {f.name for f in (path.parent / "figures").iterdir()} == {
        "reproduce-target-0.svg",
        "reproduce-target-1.svg",
        "reproduce-short-noise.svg",
    }


@pytest.mark.slow
def test_the_page_needs_nothing_beside_itself_and_is_small(path):
    text = path.read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', text) + re.findall(r"url\(([^)]*)\)", text)
    assert sources
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert "@import" not in text
    assert path.stat().st_size < 1_000_000


@pytest.mark.slow
def test_the_same_rows_make_the_same_page(path):
    before = path.read_text()
    assert write(path.parent).read_text() == before


@pytest.mark.slow
def test_rows_that_are_not_all_there_yet_make_a_page_too(tmp_path):
    with RowFile(tmp_path) as file:
        for method in ("lanczos", "neon"):
            file.append(curve(method))
    assert "<figure>" in write(tmp_path).read_text()
    with RowFile(tmp_path) as file:
        file.append(curve("neon", target=7))  # A target without its reference.
    assert "target 7" not in write(tmp_path).read_text()


def test_without_rows_it_says_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no rows; run unsaddle reproduce"):
        write(tmp_path)
    with RowFile(tmp_path) as file:
        file.append({"experiment": "cooking", "settings": {}})
    with pytest.raises(ValueError, match="rows must be of reproduce, compare, complexity, got cooking"):
        write(tmp_path)
    assert set(WRITERS) == {"reproduce", "compare", "complexity"}
    assert len(stored.read(tmp_path)) == 1


def test_cells_are_escaped_and_sort_by_their_number():
    table = Table(
        caption="a < b", heads=("name", "value"), rows=[("<b>", 1234567.0), ("x", None), ("y", True), ("z", math.nan)]
    )
    text = page.page([Section(title="t", paragraphs=("p & q",), tables=(table,))], {})
    assert "<td>&lt;b&gt;</td>" in text
    assert 'data-order="1234567.0">1\u202f234\u202f567</td>' in text
    assert '<td class="none">–</td>' in text
    assert '<td class="yes">✓ true</td>' in text
    assert '<td class="number">not a number</td>' in text
    assert "<p>p &amp; q</p>" in text
    with pytest.raises(ValueError, match="each row of 'a' must have 2 cells"):
        Table(caption="a", heads=("x", "y"), rows=[(1,)])


@pytest.mark.parametrize(
    ("value", "text"),
    [(-3, "−3"), (0.00001234, "1.234e-05"), (12345.6, "12\u202f346"), (2e12 + 0.5, "2.000e+12"), (0.5, "0.5")],
)
def test_numbers_are_short(value, text):
    assert number(value) == text


@pytest.mark.slow
def test_a_drawing_with_very_many_points_is_embedded_as_pixels():
    with journal():
        figure, axes = new_figure()
        axes.plot([(-1) ** i * i % 7919 for i in range(60_000)], linestyle="", marker="o")
        assert page.drawing(Figure(caption="c", name="n", figure=figure)).kind == "png"


def test_every_method_has_a_look_of_its_own():
    from unsaddle.curvature.registry import EXTRACTORS
    from unsaddle.methods import method_names

    assert {*EXTRACTORS, *method_names()} <= LINE_STYLES.keys()
    drawn = [(x.color, str(x.line), x.marker) for x in LINE_STYLES.values()]
    assert len(set(drawn)) == len(drawn)
    assert drawn_as("something new").label == "something new"
