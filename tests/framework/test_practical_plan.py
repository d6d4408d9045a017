"""NEON-A with measured constants: fresh samples for everything, tests that pause, extractions that grow."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.first_order.sums import DOUBLE, random
from unsaddle import Ending, FiniteSum, Function, Solution, Stream, minimize
from unsaddle.curvature.registry import GRADIENT_ONLY
from unsaddle.first_order.anchor import Anchor
from unsaddle.first_order.method import Local, PlainMethod
from unsaddle.first_order.scsg import Scsg
from unsaddle.framework import PracticalPlan, neon_a
from unsaddle.framework import practical_plan as practical
from unsaddle.framework.plan import Evidence
from unsaddle.options import Options
from unsaddle.run import Run

WANTED = {"neon+": 5, "neon": 30}
"""Samples until it is known, over those of "auto", at most."""


def options(**changes: Any) -> Options:
    asked = Options(eps=0.05, gamma=0.3, delta=0.05, extractor="auto", theory=False, method_settings={})
    return replace(asked, **changes)


class NumberedStream(Stream):
    """A noisy double well in the second coordinate, whose every sample has a number of its own."""

    def __init__(self, noise: float = 0.3) -> None:
        self.drawn = 0

        def draw(size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
            numbers = torch.arange(self.drawn, self.drawn + size)
            self.drawn += size
            return torch.randn(size, 2, generator=generator, dtype=DOUBLE), numbers

        def loss(x: Tensor, t: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:
            value = 0.5 * x[0] ** 2 - 0.5 * x[1] ** 2 + x[1] ** 4 / 4.0
            gradient = torch.stack([x[0], x[1] ** 3 - x[1]])
            # Noise in the gradient, and in the curvature along x_1.
            value = value + noise * (t[:, 0] * x[0]).mean() + noise / 2.0 * (t[:, 1] * x[1] ** 2).mean()
            gradient = gradient + noise * torch.stack([t[:, 0].mean(), t[:, 1].mean() * x[1]])
            self.used.setdefault(self.stage, set()).update(numbers.tolist())
            return value, gradient

        self.stage, self.used = "", dict[str, set[int]]()
        super().__init__(loss, draw, gradient=True)


class Staged(PracticalPlan):
    """Says what a sample is drawn for."""

    objective: NumberedStream

    def _as(self, stage: str) -> None:
        self.objective.stage = f"{stage} {len(self.objective.used)}"

    def begin(self, *arguments: Any) -> None:
        self._as("begin")
        super().begin(*arguments)

    def test(self, *arguments: Any) -> Anchor:
        self._as("test")
        seen = super().test(*arguments)
        self._as("method")
        return seen

    def extract(self, *arguments: Any) -> Evidence:
        self._as("extract")
        return super().extract(*arguments)

    def escape(self, *arguments: Any) -> Tensor | None:
        self._as("escape")
        return super().escape(*arguments)


def test_check_extraction_and_escape_draw_samples_of_their_own() -> None:
    """Only the method may meet the samples of a test again, which are its anchor."""
    objective = NumberedStream()
    plan = Staged(options=options())
    plan.objective = objective
    run = Run(objective, torch.zeros(2, dtype=DOUBLE), method="scsg", eps=0.05, max_samples=3_000_000)
    with run.until_ended():
        neon_a(run, Scsg(), plan)
    solution = run.finish()
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert solution.escapes >= 1
    stages = [name for name in objective.used if not name.startswith("method")]
    kinds = {name.split()[0] for name in stages}
    assert kinds == {"begin", "test", "extract", "escape"}
    for i, first in enumerate(stages):
        for second in stages[:i]:
            assert not objective.used[first] & objective.used[second], (first, second)
    # The truth: minima at x_1 = ±1, with curvatures 1 and 2.
    x = solution.x
    assert math.hypot(float(x[0]), float(x[1] ** 3 - x[1])) <= 1.5 * 0.05
    assert solution.gradient_error > 0.0
    assert solution.curvature_error > 0.0


# --- The first-order test -------------------------------------------------------------------------------------------


class Sizes:
    """Counts what looks were asked for."""

    def __init__(self, mean: float, spread: float, n: int | None = None) -> None:
        self.sizes: list[int] = []
        self._mean, self._spread = mean, spread
        self.num_samples = n

    def sample(self, size: int | None = None, generator: torch.Generator | None = None, **how: Any) -> Any:
        self.sizes.append(size or 0)
        draws = self._mean + self._spread * torch.randn(size or 1, generator=generator, dtype=DOUBLE)
        slope = draws.mean()
        f = Function(lambda x: (slope * x.sum(), slope.expand(1)), gradient=True).sample()
        f.size = size or 1
        return f


def looks_of(mean: float, rounds: int, spread: float = 1.0) -> tuple[list[int], list[Anchor]]:
    """Look sizes of so many tests in a row, at a gradient `mean` and with ε = 0.05."""
    objective = Sizes(mean, spread)
    plan = PracticalPlan(options=options())
    run = Run(objective, torch.zeros(1, dtype=DOUBLE), method="", eps=0.05)  # type: ignore[arg-type]
    local = Local(eps=0.05, num_samples=None, variance=spread**2, gradient_norm=1.0)
    method = PlainMethod(lambda f, x, g: (x, x))
    method.test_size = lambda local: 64  # type: ignore[method-assign]
    looks, sizes = [], []
    for _ in range(rounds):
        objective.sizes.clear()
        looks.append(plan.test(run, run.x, method, local))
        sizes.append(sum(objective.sizes))
    return sizes, looks


def test_a_large_gradient_is_looked_at_once() -> None:
    sizes, looks = looks_of(3.0, rounds=5)
    assert sizes == [64] * 5
    assert not any(look.passes(0.05) for look in looks)


def test_a_small_gradient_passes_on_four_v_over_eps_squared_samples() -> None:
    sizes, looks = looks_of(0.0, rounds=1)
    # V/|S| is then ε²/4, and 4·1/0.05² = 1600, with the V that was measured on 64 samples.
    assert 64 + 400 <= sizes[0] <= 64 + 4000
    assert looks[0].samples == sizes[0] - 64
    assert looks[0].squared_error <= 1.6 * 0.05**2 / 4.0


def test_after_larger_tests_that_fail_the_next_wait_longer_and_longer() -> None:
    """At ‖∇F‖ = 3ε, looks of 64 cannot tell and larger ones fail: the pauses between those are 1, 3, 7, 15 at least."""
    sizes, looks = looks_of(0.15, rounds=60)
    assert not any(look.passes(0.05) for look in looks)
    larger = [i for i, size in enumerate(sizes) if size > 64]
    gaps = [b - a - 1 for a, b in itertools.pairwise(larger)]
    assert len(gaps) >= 3
    assert all(gap >= least for gap, least in zip(gaps, (1, 3, 7, 15, 31), strict=False))


# --- The extraction -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extractor", ["neon", "neon+", "power", "lanczos"])
def test_any_extractor_will_do(extractor: str) -> None:
    f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    solution = minimize(f, torch.zeros(2, dtype=DOUBLE), method="neon-msgd", gamma=0.5, extractor=extractor)
    assert solution.success
    assert abs(float(solution.x[1])) == pytest.approx(2.0**0.5, abs=1e-3)


# --- The escape -----------------------------------------------------------------------------------------------------


def well(x: Tensor) -> Tensor:
    """−½x² + |x|³/3 in the second coordinate: L2 = 2, minima at ±1."""
    return 0.5 * x[0] ** 2 - 0.5 * x[1] ** 2 + x[1].abs() ** 3 / 3.0


@pytest.mark.parametrize("escape", ["line search", "measured", "gradient", "random"])
def test_every_escape_leaves_an_exact_saddle(escape: str) -> None:
    lengths = []

    def watch(state: Any) -> None:
        if state.event.kind == "escape":
            lengths.append(abs(float(state.x[1])))

    settings = {} if escape == "line search" else {"hessian_lipschitz": 2.0}
    solution = minimize(Function(well), torch.zeros(2, dtype=DOUBLE), escape=escape, callback=watch, **settings)
    assert solution.success
    assert abs(float(solution.x[1])) == pytest.approx(1.0, abs=1e-2)
    if escape != "line search":
        assert lengths[0] == pytest.approx(1.0, rel=1e-3)  # 2q/L2 with q = 1


def test_an_escape_that_needs_l2_says_so() -> None:
    for escape in ("measured", "gradient", "random"):
        with pytest.raises(ValueError, match=f"escape='{escape}' needs hessian_lipschitz; give it, or use"):
            PracticalPlan(options=options(), escape_by=escape)
    with pytest.raises(ValueError, match="escape must be one of line search, measured, gradient, random; got 'jump'"):
        PracticalPlan(options=options(), escape_by="jump")


# --- Divergence -----------------------------------------------------------------------------------------------------


def cliff(x: Tensor) -> Tensor:
    """½‖x‖² up to ‖x‖ = 2, and nothing beyond."""
    return 0.5 * x @ x if float(x.detach().norm()) < 2.0 else x.sum() * math.nan


def run_with(method: Any, **changes: Any) -> Solution:
    run = Run(Function(cliff), torch.ones(2, dtype=DOUBLE), method="", eps=1e-3, max_samples=100_000)
    with run.until_ended():
        neon_a(run, method, PracticalPlan(options=options(eps=1e-3), **changes))
    return run.finish()


def test_an_automatic_step_is_made_smaller_after_infinity() -> None:
    class Reckless:
        """Steps of 5/L1, unguarded."""

        forgotten = 0

        def test_size(self, local: Local) -> int | None:
            return None

        def advance(
            self, objective: Any, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
        ) -> tuple[Tensor, Tensor]:
            assert seen is not None
            y = x - 5.0 / local.smoothness * seen.gradient
            return y, y

        def forget(self) -> None:
            self.forgotten += 1

    method = Reckless()
    solution = run_with(method)
    assert solution.status is Ending.SECOND_ORDER_POINT
    assert method.forgotten == 1  # 5 → 5/8
    fixed = run_with(Reckless(), fixed_step=True)
    assert fixed.status is Ending.DIVERGED
    assert fixed.x.tolist() == [1.0, 1.0]
    assert fixed.value == 1.0


def test_a_method_that_always_ends_in_infinity_is_given_up_on() -> None:
    tries = []

    def mine(objective: Any, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        tries.append(1)
        return x * math.inf, x * math.inf

    solution = run_with(PlainMethod(mine))
    assert solution.status is Ending.DIVERGED
    assert solution.x.tolist() == [1.0, 1.0]
    assert len(tries) == practical.RECOVERIES + 1


def test_a_gradient_that_overflows_is_gone_back_from_too() -> None:
    """An infinite gradient norm sizes the next look: that must not overflow in its turn."""
    steep = Function(lambda x: (0.5 * x @ x, x if float(x.norm()) < 2.0 else x * math.inf), gradient=True)

    def mine(objective: Any, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return 5.0 * x, 5.0 * x

    solution = minimize(steep, torch.ones(2, dtype=DOUBLE), method=mine)
    assert solution.status is Ending.DIVERGED
    assert solution.x.tolist() == [1.0, 1.0]


def test_where_the_hessian_vanishes_there_is_a_step_all_the_same() -> None:
    local = Local(eps=0.05, num_samples=1)
    run = Run(Function(lambda x: 3.0 * x.sum() + 0.0 * x @ x), torch.zeros(4, dtype=DOUBLE), method="", eps=0.05)
    PracticalPlan(options=options()).begin(run, run.x, local)
    assert local.smoothness > 0.0
    assert math.isfinite(local.smoothness)


def test_what_a_start_costs_is_a_look_at_64_and_l1_on_256() -> None:
    rows = torch.randn(5000, 3, generator=random(), dtype=DOUBLE)
    run = Run(
        FiniteSum(lambda x, t: 0.5 * (x - t).square().sum(dim=1).mean(), rows),
        torch.zeros(3, dtype=DOUBLE),
        method="",
        eps=0.05,
    )
    local = Local(eps=0.05, num_samples=5000)
    PracticalPlan(options=options()).begin(run, run.x, local)
    assert run.ledger.samples % 256 == 64
    assert local.smoothness == pytest.approx(1.0, rel=1e-6)
    assert local.variance == pytest.approx(3.0, rel=0.8)  # 7·3 degrees of freedom: ±0.31 a standard deviation


@pytest.mark.parametrize("extractor", GRADIENT_ONLY)
def test_on_a_stream_every_gradient_only_extractor_says_that_it_has_arrived(extractor: str) -> None:
    """It leaves the saddle, and knows at the end that there is nothing below −γ, though it never sees all of F."""
    asked: dict[str, Any] = {"method": "neon-scsg", "eps": 0.05, "gamma": 0.3, "max_samples": 3_000_000}
    solution = minimize(NumberedStream(), torch.zeros(2, dtype=DOUBLE), extractor=extractor, **asked)
    assert solution.success
    assert solution.escapes >= 1
    assert abs(abs(float(solution.x[1])) - 1.0) <= 0.05
    if extractor in WANTED:
        auto = minimize(NumberedStream(), torch.zeros(2, dtype=DOUBLE), **asked)
        assert solution.cost.samples <= WANTED[extractor] * auto.cost.samples
