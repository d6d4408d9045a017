"""The colours, sizes and axes of every figure.

The colours are those of Okabe and Ito: colour-blind readers can tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILION, PURPLE, GREY = "#c9b800", "#0072b2", "#d55e00", "#cc79a7", "#7f7f7f"

MEASURED, PREDICTED, THRESHOLD, MARK = BLACK, VERMILION, BLUE, GREEN
"""What was measured, what a formula predicts, a line that something is compared with, and a point that is marked."""

PARAMETERS: dict[str, Any] = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.color": "#d9d9d9",
    "axes.axisbelow": True,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "svg.fonttype": "path",
    "svg.hashsalt": "unsaddle",
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}
"""Sizes for figures one or two columns of a journal wide (3.4 or 7 inches)."""


@contextmanager
def journal() -> Iterator[None]:
    """Draw and save within this, or decorate a function that draws with `@journal()`.

    Raises an ImportError that says what to install if there is no matplotlib.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plot() needs matplotlib; install it with pip install 'unsaddle[plot]'") from error

    with matplotlib.rc_context(PARAMETERS):  # type: ignore[arg-type]
        yield


@contextmanager
def drawn(width: float, height: float) -> Iterator[Figure]:
    """A figure without a window, in inches, to be drawn within this."""
    with journal():
        from matplotlib.figure import Figure

        yield Figure(figsize=(width, height), layout="constrained")


def count_along_x(axes: Axes) -> None:
    """Ticks of the horizontal axis at whole numbers only: it counts something."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def legend_under(axes: Axes) -> None:
    """A legend below the axes and their label, where it hides nothing."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.get_figure()
    assert figure is not None
    below = axes.transAxes + ScaledTranslation(0.0, -0.38, figure.dpi_scale_trans)  # Inches.
    looks = {"ncols": 2, "handlelength": 2.0, "columnspacing": 1.0}
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below, **looks)
