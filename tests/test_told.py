"""How results show themselves: as text, in notebooks, and as pictures."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from unsaddle import (
    Curvature,
    Density,
    Eigenpairs,
    Function,
    MorseIndex,
    Solution,
    Verdict,
    eigenpairs,
    is_minimum,
    minimize,
    morse_index,
    negative_curvature,
    spectral_density,
)
from unsaddle.told import WIDTH, as_html, as_text, measured

ZERO = torch.zeros(2, dtype=torch.float64)


def saddle(x: Tensor) -> Tensor:
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4


def verdict() -> Verdict:
    return is_minimum(Function(saddle), ZERO)


def curvature() -> Curvature:
    return negative_curvature(Function(saddle), ZERO, keep_history=True)


def solution() -> Solution:
    return minimize(Function(saddle), ZERO)


def pairs() -> Eigenpairs:
    return eigenpairs(Function(saddle), ZERO, lowest=1, highest=1)


def index() -> MorseIndex:
    return morse_index(Function(saddle), ZERO)


def density() -> Density:
    return spectral_density(Function(saddle), ZERO)


RESULTS = pytest.mark.parametrize("make", [verdict, curvature, solution])


SHOWN = pytest.mark.parametrize("make", [verdict, curvature, solution, pairs, index, density])


@SHOWN
def test_a_result_is_one_short_line_and_an_aligned_table(make: Any) -> None:
    head, *rows = str(make()).splitlines()
    assert len(head) <= 80
    columns = {re.match(r"  (\S.*?\s{2,}|\s+)\S", row).end() for row in rows}  # type: ignore[union-attr]
    assert len(columns) == 1
    assert max(map(len, rows)) <= WIDTH


@SHOWN
def test_the_repr_fits_into_one_line_of_a_debugger(make: Any) -> None:
    result = make()
    assert repr(result).startswith(f"<{type(result).__name__} ")
    assert len(repr(result)) <= 80


@RESULTS
def test_a_notebook_shows_the_table_and_the_picture(make: Any) -> None:
    pytest.importorskip("matplotlib")
    page = make()._repr_html_()
    assert page.count("<img ") == 1
    assert page.count("<tr>") >= 4


def test_a_notebook_does_not_wait_for_a_picture_of_a_slow_function() -> None:
    def slow(x: Tensor) -> Tensor:
        time.sleep(pause)
        return saddle(x)

    pause = 0.0
    found = is_minimum(Function(slow), ZERO)
    pause = 0.2
    begun = time.perf_counter()
    assert "<img" not in found._repr_html_()
    assert time.perf_counter() - begun < 2.0


def test_the_spectrum_shows_its_own_table_and_picture() -> None:
    pytest.importorskip("matplotlib")
    page = pairs()._repr_html_()
    assert "eigenvalue" in page
    assert "<img " in page


def test_what_a_result_says_cannot_break_out_of_the_page() -> None:
    assert "<b>x" not in as_html("<b>x", [("<b>x", "<b>x")])


def test_long_cells_are_wrapped_below_their_own_column() -> None:
    lines = as_text("Head.", [("a", "word " * 60), ("longer", "b")]).splitlines()
    assert all(line.startswith(" " * 10) for line in lines[2:-1])
    assert lines[-1] == "  longer  b"


@RESULTS
def test_a_picture_marks_x_or_its_events_and_names_every_line(make: Any) -> None:
    pytest.importorskip("matplotlib")
    for axes in make().plot().axes:
        assert axes.get_legend() is not None
        ticks = axes.get_xticks()
        assert "distance" in axes.get_xlabel() or all(float(t).is_integer() for t in ticks)


def test_the_slice_of_a_saddle_goes_past_its_lowest_point() -> None:
    pytest.importorskip("matplotlib")
    found = verdict()
    left = found.plot().axes[0]
    marked = {line.get_label(): line.get_xdata()[0] for line in left.lines if len(line.get_xdata()) == 1}
    assert marked["x"] == 0.0
    assert sorted(marked.values()) == pytest.approx([0.0, found.length])
    assert left.get_xlim()[1] > found.length


def test_a_search_inside_a_verdict_is_drawn_by_the_verdict() -> None:
    with pytest.raises(ValueError, match=r"verdict.plot\(\)"):
        verdict().evidence.plot()


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"unsaddle\[plot\]"):
        solution().plot()


def test_an_error_as_large_as_the_number_is_told() -> None:
    assert measured(-0.5, 0.5) == "-0.5 ± 0.5"
