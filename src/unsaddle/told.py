"""How a result shows itself: one line and a small table, as text on a terminal and as HTML in a notebook."""

from __future__ import annotations

import base64
import html
import io
import math
import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 100
"""Characters of a line."""

UNBROKEN = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
"""Where no line may end: between a number and its error."""

MOST_DIGITS = 4
"""Digits of a number that is known better than that."""

Rows = Sequence[tuple[str, str]]
"""What is said about a result: a name of one or two words, and what it is."""


def as_text(head: str, rows: Rows) -> str:
    """One line, and a table below it whose second column is aligned. Long cells are wrapped.

    >>> print(as_text("A saddle.", [("gradient", "0"), ("cost", "10 gradients")]))
    A saddle.
      gradient  0
      cost      10 gradients
    """
    column = max((len(name) for name, _ in rows), default=0) + 4
    lines = [head]
    for name, cell in rows:
        whole = cell.replace(" ± ", UNBROKEN)
        first, *rest = textwrap.wrap(whole, WIDTH - column, break_long_words=False, break_on_hyphens=False) or [""]
        lines.append(f"  {name.ljust(column - 2)}{first}")
        lines += [" " * column + line for line in rest]
    return "\n".join(lines).replace(UNBROKEN, " ± ")


def as_html(head: str, rows: Rows, figure: Figure | None = None) -> str:
    """The same line and table for a notebook, with a picture below if there is one."""
    cells = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(cell)}</td></tr>'
        for name, cell in rows
    )
    picture = "" if figure is None else f'<img alt="{html.escape(head, quote=True)}" src="{_as_link(figure)}">'
    return f"<div><p><b>{html.escape(head)}</b></p><table>{cells}</table>{picture}</div>"


class Pictured:
    """A result whose text is a table of its own, and whose picture takes no evaluations."""

    if TYPE_CHECKING:

        def plot(self) -> Figure: ...

    def _repr_html_(self) -> str:
        """The text and the picture, for notebooks."""
        picture = f'<br><img alt="" src="{_as_link(self.plot())}">' if find_spec("matplotlib") else ""
        return f"<div><pre>{html.escape(str(self))}</pre>{picture}</div>"


def _as_link(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def measured(value: float, error: float) -> str:
    """A number with its error, in as many digits as are known: two of the error.

    Where the two are close, there are more. They tell whether the interval ends before zero.

    >>> measured(2079.6, 912.3), measured(-0.112, 0.1077), measured(-2.15953, 0.0081), measured(-0.31024, 9.6e-7)
    ('2080 ± 910', '-0.112 ± 0.1077', '-2.16 ± 0.0081', '-0.3102 ± 9.6e-07')
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0.0):
        return f"{value:.4g} ± {error:.2g}"
    apart = abs(abs(value) - error)
    last = _exponent(min(error, apart) if apart > 0.0 else error) - 1
    return f"{_rounded(value, last)} ± {_rounded(error, last)}"


def _exponent(number: float) -> int:
    return math.floor(math.log10(number))


def _rounded(number: float, last: int) -> str:
    """The number up to the digit of 10^last, in two digits at least."""
    digits = 1 if number == 0.0 else min(max(_exponent(abs(number)) - last + 1, 2), MOST_DIGITS)
    return f"{float(f'{number:.{digits}g}'):g}"


def counted(count: int, noun: str, ending: str = "s") -> str:
    """A count with its noun.

    >>> counted(1, "gradient"), counted(1234, "gradient"), counted(2, "batch", "es")
    ('1 gradient', '1234 gradients', '2 batches')
    """
    return f"{count} {noun}{'' if count == 1 else ending}"
