"""The page of one verdict: what it says, its picture, where its direction lives, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unsaddle.judgement import Kind, Verdict
from unsaddle.measure.where import DRAWN, Where
from unsaddle.pictures import journal
from unsaddle.report.blocks import Figure, Section, Table
from unsaddle.report.page import drawing, save

INTRODUCTION = "The verdict of is_minimum, with its picture. Every number on this page was measured in this run."


TO_DO: dict[Kind, tuple[str, ...]] = {
    Kind.SADDLE: (
        "Descent is slow here, or stands still. The direction leads down.",
        "Take the step: x + verdict.length · verdict.direction, where verdict = unsaddle.is_minimum(objective). For a "
        "model: objective.assign(objective.point + verdict.length * verdict.direction).",
        "In training, wrap the optimizer: unsaddle.Neon(optimizer, objective). Where the loss stops falling, it looks "
        "for saddles and leaves them.",
    ),
    Kind.MINIMUM: (
        "There is no way down from here. If the loss is still too high, the model or the data limit it, or a better "
        "minimum is elsewhere: try another start.",
        "Curvature softer than gamma was not looked for. A smaller --gamma looks for it, and takes more gradients.",
    ),
    Kind.NOT_STATIONARY: (
        "The gradient still leads down. Go on training; ask again where the loss has stopped falling.",
        "If it has stopped already, look at the learning rate, and at gradients that are clipped or frozen. Or the "
        "gradient is small for you: --eps says which one counts as zero.",
    ),
    Kind.UNDECIDED: ("The reason above says what would decide it.",),
}
"""What to do next, by kind."""

TOO = "There is negative curvature, too: x + length · direction is lower. The reason says which way is the better one."


def advice(verdict: Verdict) -> tuple[str, ...]:
    """What to do next."""
    too = (TOO,) if verdict.kind is Kind.NOT_STATIONARY and verdict.drop > 0.0 else ()
    return (*TO_DO[verdict.kind], *too)


def sections(verdict: Verdict, where: Where) -> list[Section]:
    """The verdict, where its direction lives, and what to do."""
    told = Table(
        caption="The verdict", heads=("what", "measured"), rows=[[name, cell] for name, cell in verdict._rows()]
    )
    picture = Figure(
        name="verdict",
        figure=verdict.plot(),
        caption="Left: F along the direction, evaluated, beside what the curvature predicts; the dot is x. "
        "Right: the lowest curvature that the search had seen after each gradient.",
    )
    written = [Section(title=verdict._head(), tables=[told], figures=[picture])]
    if where:
        rows: list[list[Any]] = [list(row) for row in zip(where.names, where.shares, where.sizes, strict=True)]
        shares = Table(
            caption="Shares of the direction's squared length",
            heads=("tensor", "direction", "a random direction"),
            rows=rows[:DRAWN],
        )
        bars = Figure(name="where", figure=where.plot(), caption="Bars: the direction. Strokes: a random direction.")
        written.append(
            Section(title="Where the direction lives", paragraphs=[str(where)], tables=[shares], figures=[bars])
        )
    return [*written, Section(title="What to do", paragraphs=advice(verdict))]


def write(directory: Path, verdict: Verdict, name: str) -> Path:
    """Write the page of a verdict on `name`; return its path."""
    with journal():
        written = sections(verdict, verdict.where())
        drawings = {figure.name: drawing(figure) for section in written for figure in section.figures}
    return save(directory, written, drawings, title=f"unsaddle check: {name}", introduction=INTRODUCTION)
