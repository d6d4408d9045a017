"""Each method has one colour, line style and marker, the same in every figure.

Line styles and markers differ as well as colours (`pictures.py`), so that methods can also be told apart in grey.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unsaddle.pictures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, YELLOW

SOLID, DASHED, DOTTED, DASH_DOT = "-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5))
LONG, DOTS = (0, (9, 2)), (0, (3, 1.5, 1, 1.5, 1, 1.5))


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """How a method is drawn, and what it is called in a legend."""

    label: str
    color: str
    line: Any
    marker: str

    def plot(self) -> dict[str, Any]:
        """Keyword arguments of `Axes.plot`."""
        return {"label": self.label, "color": self.color, "linestyle": self.line, "marker": self.marker}


def _line_style(label: str, color: str, line: Any, marker: str) -> LineStyle:
    return LineStyle(label=label, color=color, line=line, marker=marker)


LINE_STYLES: dict[str, LineStyle] = {
    # Extractors.
    "neon": _line_style("NEON", BLUE, DASHED, "o"),
    "neon+": _line_style("NEON⁺", VERMILION, SOLID, "s"),
    "neon-st": _line_style("NEONst", SKY, DASH_DOT, "o"),
    "neon+-st": _line_style("NEON⁺st", ORANGE, DASH_DOT, "s"),
    "neon-short": _line_style("NEON, r = 10⁻⁴", BLUE, DOTS, "o"),
    "neon+-short": _line_style("NEON⁺, r = 10⁻⁴", VERMILION, DASHED, "s"),
    "power": _line_style("Power", GREY, SOLID, ""),
    "lanczos": _line_style("Lanczos", BLACK, DOTTED, "^"),
    "krylov": _line_style("krylov (ours)", GREEN, LONG, "D"),
    "neon-renormalised": _line_style("NEON, renormalised", BLUE, DOTS, "P"),
    "neon+-renormalised": _line_style("NEON⁺, renormalised", VERMILION, DOTS, "X"),
    "neon2-det": _line_style("Neon2, deterministic", PURPLE, SOLID, "v"),
    "neon2-online": _line_style("Neon2, online", PURPLE, DASHED, "<"),
    "oja": _line_style("Oja", YELLOW, SOLID, "p"),
    "oja-first-order": _line_style("Oja, first order", YELLOW, DASHED, "h"),
    # Methods: promoted ones are drawn with solid lines, the same method without NEON in its colour, dotted.
    "neon-sgd": _line_style("NEON-SGD", BLUE, SOLID, "o"),
    "neon-shb": _line_style("NEON-SHB", SKY, SOLID, "v"),
    "neon-snag": _line_style("NEON-SNAG", PURPLE, SOLID, "^"),
    "neon-msgd": _line_style("NEON-mSGD", YELLOW, SOLID, "<"),
    "neon-scsg": _line_style("NEON-SCSG", VERMILION, SOLID, ">"),
    "neon-svrg": _line_style("NEON-SVRG", GREEN, SOLID, "D"),
    "neon-natasha": _line_style("NEON-Natasha", ORANGE, SOLID, "P"),
    "sgd": _line_style("SGD", BLUE, DOTTED, "o"),
    "shb": _line_style("SHB", SKY, DOTTED, "v"),
    "snag": _line_style("SNAG", PURPLE, DOTTED, "^"),
    "msgd": _line_style("mSGD", YELLOW, DOTTED, "<"),
    "scsg": _line_style("SCSG", VERMILION, DOTTED, ">"),
    "svrg": _line_style("SVRG", GREEN, DOTTED, "D"),
    "natasha": _line_style("Natasha", ORANGE, DOTTED, "P"),
    "noisy-sgd": _line_style("noisy SGD", GREY, DASHED, "X"),
    "sgld": _line_style("SGLD", GREY, DASH_DOT, "*"),
    "pgd": _line_style("PGD", BLACK, DASHED, "p"),
    "pagd": _line_style("PAGD", BLACK, DASH_DOT, "h"),
    "natasha2": _line_style("Natasha2", ORANGE, DASHED, "d"),
    "sncg": _line_style("SNCG", PURPLE, DASHED, "1"),
    "svrg-hessian": _line_style("SVRG-Hessian", GREEN, DASHED, "2"),
}


def drawn_as(method: str) -> LineStyle:
    """The line style of a method. A method without one is drawn grey under its own name."""
    return LINE_STYLES.get(method, _line_style(method, GREY, DOTS, "."))


TWO_COLUMNS = 7.0
"""The width in inches of two columns of a journal."""


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = TWO_COLUMNS, height: float = 2.6, **options: Any
) -> Any:
    """A figure without a window, and its axes as `Figure.subplots` returns them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, columns, **options)


def legend_below(figure: Any, *axes: Any, columns: int = 4) -> None:
    """Put one legend below the figure, with each label once."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
