"""The order of Algorithm 4, with methods and plans that do what a script says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from unsaddle import Ending, Function, Solution
from unsaddle.first_order.anchor import Anchor
from unsaddle.first_order.method import FirstOrderMethod, Local, PlainMethod
from unsaddle.framework import Evidence, neon_a
from unsaddle.objective import Objective
from unsaddle.run import Run

SMALL, LARGE = 0.5, 2.0  # Gradient norms, at ε = 1.
NOTHING = Evidence(decided=True, curvature=0.3, gamma=0.1)
FOUND = Evidence(direction=torch.ones(1), decided=True, curvature=-0.7, gamma=0.1)
UNDECIDED = Evidence(decided=False, curvature=-0.05, gamma=0.1)


def at(place: float) -> Tensor:
    return torch.tensor([place])


@dataclass
class Script:
    """A plan, and a method, that answer from lists and write down what they were asked."""

    norms: list[float]
    extractions: list[Evidence] = field(default_factory=list)
    escapes: list[Tensor | None] = field(default_factory=list)
    rounds: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    recoveries: int = 0
    log: list[str] = field(default_factory=list)

    def begin(self, run: Run, x: Tensor, local: Local) -> None:
        self.log.append(f"begin {float(x):g}")

    def test(self, run: Run, y: Tensor, method: FirstOrderMethod, local: Local) -> Anchor:
        self.log.append(f"test {float(y):g}")
        norm = self.norms.pop(0)
        return Anchor(
            x=y,
            functions=(),
            gradient=torch.tensor([norm]),
            value=float(y) if math.isfinite(norm) else math.nan,
            variance=math.nan,
            samples=1,
            everything=True,
        )

    def is_small(self, run: Run, seen: Anchor) -> bool:
        return seen.norm <= 1.0

    def extract(self, run: Run, y: Tensor) -> Evidence:
        self.log.append(f"extract {float(y):g}")
        return self.extractions.pop(0)

    def escape(self, run: Run, y: Tensor, seen: Anchor, found: Evidence) -> Tensor | None:
        self.log.append(f"escape {float(y):g}")
        return self.escapes.pop(0)

    def recover(self, run: Run, local: Local) -> bool:
        self.log.append("recover")
        self.recoveries -= 1
        return self.recoveries >= 0

    def test_size(self, local: Local) -> int | None:
        return None

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        self.log.append(f"advance {float(x):g}" + (" with the look" if seen is not None else ""))
        assert seen is None or seen.x is x
        return self.rounds.pop(0)

    def forget(self) -> None:
        self.log.append("forget")


def play(script: Script, promoted: bool = True) -> Solution:
    run = Run(Function(lambda x: x.sum()), at(0.0), method="script", eps=1.0)
    with run.until_ended():
        neon_a(run, script, script, promoted=promoted)
    return run.finish()


def test_a_run_is_method_test_extraction_escape_and_again() -> None:
    one, two, three = at(1.0), at(2.0), at(3.0)
    script = Script(
        norms=[LARGE, SMALL, LARGE, SMALL],
        rounds=[(one, one), (three, three)],
        extractions=[FOUND, NOTHING],
        escapes=[two],
    )
    solution = play(script)
    assert script.log == [
        "begin 0",
        "test 0",
        "advance 0 with the look",
        "test 1",
        "extract 1",
        "escape 1",
        "forget",
        "begin 2",
        "test 2",
        "advance 2 with the look",
        "test 3",
        "extract 3",
    ]
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert solution.success
    assert float(solution.x) == 3.0
    assert (solution.value, solution.gradient_norm, solution.curvature, solution.gamma) == (3.0, SMALL, 0.3, 0.1)
    assert solution.escapes == 1
    kinds = [event.kind for event in solution.trace]
    assert kinds == ["check", "check", "extraction", "escape", "check", "check", "extraction"]


def test_y_is_tested_and_z_is_gone_on_from() -> None:
    """Without the look, since that was at y; and an escape starts from y."""
    script = Script(
        norms=[LARGE, LARGE, SMALL, SMALL],
        rounds=[(at(1.0), at(10.0)), (at(2.0), at(20.0))],
        extractions=[FOUND, NOTHING],
        escapes=[at(3.0)],
    )
    solution = play(script)
    assert script.log == [
        "begin 0",
        "test 0",
        "advance 0 with the look",
        "test 1",
        "advance 10",
        "test 2",
        "extract 2",
        "escape 2",
        "forget",
        "begin 3",
        "test 3",
        "extract 3",
    ]
    assert float(solution.x) == 3.0


def test_y_and_not_z_is_returned() -> None:
    script = Script(norms=[LARGE, SMALL], rounds=[(at(1.0), at(10.0))], extractions=[NOTHING])
    assert float(play(script).x) == 1.0


def test_without_neon_the_first_small_gradient_is_the_end() -> None:
    script = Script(norms=[SMALL])
    solution = play(script, promoted=False)
    assert script.log == ["begin 0", "test 0"]
    assert solution.status is Ending.FIRST_ORDER_POINT
    assert not solution.success
    assert math.isnan(solution.curvature)
    assert math.isnan(solution.gamma)


@pytest.mark.parametrize(("evidence", "tries"), [(UNDECIDED, 0), (FOUND, 3)])
def test_three_fruitless_extractions_end_undecided(evidence: Evidence, tries: int) -> None:
    """Undecided, or a direction that goes down neither way. Each is tested again first."""
    script = Script(norms=[SMALL] * 3, extractions=[evidence] * 3, escapes=[None] * tries)
    solution = play(script)
    assert solution.status is Ending.CURVATURE_UNDECIDED
    assert solution.curvature == evidence.curvature
    assert [line.split()[0] for line in script.log].count("extract") == 3
    assert [line.split()[0] for line in script.log].count("test") == 3
    assert solution.escapes == 0


def test_an_escape_sets_the_count_of_fruitless_ones_back() -> None:
    script = Script(
        norms=[SMALL] * 6,
        extractions=[UNDECIDED, UNDECIDED, FOUND, UNDECIDED, UNDECIDED, NOTHING],
        escapes=[at(1.0)],
    )
    assert play(script).status is Ending.SECOND_ORDER_POINT


def test_a_round_that_ends_in_infinity_is_gone_back_from() -> None:
    script = Script(
        norms=[LARGE, LARGE, math.nan, LARGE, SMALL],
        rounds=[(at(1.0), at(1.5)), (at(9.0), at(9.0)), (at(2.0), at(2.0))],
        extractions=[NOTHING],
        recoveries=1,
    )
    solution = play(script)
    assert script.log[4:] == [
        "advance 1.5",
        "test 9",
        "recover",
        "forget",
        "test 1",
        "advance 1 with the look",
        "test 2",
        "extract 2",
    ]
    assert solution.status is Ending.SECOND_ORDER_POINT


def test_where_that_does_not_help_the_last_finite_point_is_kept() -> None:
    script = Script(norms=[LARGE, LARGE, math.inf], rounds=[(at(1.0), at(1.0)), (at(9.0), at(9.0))])
    solution = play(script)
    assert solution.status is Ending.DIVERGED
    assert (float(solution.x), solution.value, solution.gradient_norm) == (1.0, 1.0, LARGE)


def test_a_start_that_is_not_finite_is_not_called_divergence() -> None:
    solution = play(Script(norms=[math.nan], recoveries=5))
    assert solution.status is Ending.NOT_FINITE
    assert float(solution.x) == 0.0


def test_what_was_seen_at_a_saddle_is_not_said_of_the_point_after_it() -> None:
    """Stopped between the escape and the next extraction, the curvature there is not known."""
    script = Script(norms=[SMALL, LARGE], extractions=[FOUND], escapes=[at(1.0)])
    run = Run(
        Function(lambda x: x.sum()),
        at(0.0),
        method="script",
        eps=1.0,
        callback=lambda state: state.event.kind == "check" and state.escapes == 1,
    )
    with run.until_ended():
        neon_a(run, script, script)
    solution = run.finish()
    assert solution.status is Ending.STOPPED
    assert float(solution.x) == 1.0
    assert math.isnan(solution.curvature)


def test_a_plain_callable_is_promoted() -> None:
    def mine(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return x + 1.0, x + 10.0

    script = Script(norms=[LARGE, LARGE, SMALL], extractions=[NOTHING])
    run = Run(Function(lambda x: x.sum()), at(0.0), method="mine", eps=1.0)
    with run.until_ended():
        neon_a(run, PlainMethod(mine), script)
    assert float(run.finish().x) == 11.0  # y from z = 10
