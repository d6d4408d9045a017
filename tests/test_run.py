"""What every run shares: its budget, its trace, its callback, and its ends."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from unsaddle import Ending, FiniteSum, Function, Solution, minimize
from unsaddle.methods import method_names
from unsaddle.objective import SampledFunction
from unsaddle.run import Budget, Run, RunEnded, Snapshot, Trace, TraceEvent

DOUBLE = torch.float64


def noisy_wells(n: int = 300, d: int = 4) -> FiniteSum:
    """Σ (x_j² − 1)²/4 with a noisy linear term: a saddle or maximum near 0, minima near the corners of a cube."""
    noise = torch.randn(n, d, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    noise -= noise.mean(dim=0)

    def hvp(x: Tensor, v: Tensor, t: Tensor) -> Tensor:
        return (3.0 * x**2 - 1.0) * v

    return FiniteSum(
        lambda x, t: (((x**2 - 1.0) ** 2).sum() / 4.0 + (t @ x).mean(), x**3 - x + t.mean(dim=0)),
        noise,
        gradient=True,
        hvp=hvp,
    )


class Largest:
    """An objective that remembers the most samples a call of it took."""

    def __init__(self, objective: FiniteSum) -> None:
        self._objective, self.largest = objective, 0
        self.num_samples = objective.num_samples

    def sample(self, size: int | None = None, *arguments: Any, **how: Any) -> SampledFunction:
        f = self._objective.sample(size, *arguments, **how)
        self.largest = max(self.largest, f.size)
        return f


def spent(solution: Solution) -> int:
    return solution.cost.samples + solution.cost.value_samples + solution.cost.hessian_samples


START = torch.tensor([0.3, -0.2, 0.1, 0.0], dtype=DOUBLE)

# --- The budget -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_samples", [1, 301, 997, 4999])
@pytest.mark.parametrize("method", method_names())
def test_a_budget_is_exceeded_by_less_than_one_call(method: str, max_samples: int) -> None:
    objective = Largest(noisy_wells())
    solution = minimize(objective, START, method=method, eps=1e-6, max_samples=max_samples)
    assert spent(solution) - max_samples < max(1, objective.largest)
    assert bool(torch.isfinite(solution.x).all())
    if solution.status is Ending.BUDGET_SPENT:
        assert not solution.success
    else:
        assert spent(solution) < max_samples
    if max_samples == 1:
        assert solution.status is Ending.BUDGET_SPENT
        assert torch.equal(solution.x, START)


def test_the_call_that_spends_the_last_of_it_ends_the_run() -> None:
    budget = Budget(10)
    budget.add_gradient(4)
    budget.add_values(2, 2)
    with pytest.raises(RunEnded) as ended:
        budget.add_hessian_product(2)
    assert ended.value.status is Ending.BUDGET_SPENT
    assert budget.left == 0


def test_a_sample_larger_than_what_is_left_is_not_drawn() -> None:
    run = Run(noisy_wells(), START, method="", eps=0.1, max_samples=100)
    run.objective.sample(60, run.generator).grad(START)
    with pytest.raises(RunEnded, match="max_samples was spent"):
        run.objective.sample(41, run.generator)
    assert run.ledger.limit - run.ledger.left == 60
    run.objective.sample(39, run.generator).value(START)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["neon-scsg", "neon-sgd", "neon-svrg", "neon-msgd"])
def test_a_run_that_ends_in_between_returns_the_last_point_that_was_checked(method: str) -> None:
    """With the value and the gradient norm that were seen there, and not those of another point."""
    for max_samples in range(2000, 8000, 500):
        solution = minimize(noisy_wells(), START, method=method, eps=1e-6, max_samples=max_samples)
        assert solution.status is Ending.BUDGET_SPENT
        last = solution.trace.of("check")[-1]
        assert (solution.value, solution.gradient_norm) == (last.value, last.gradient_norm)


def test_a_step_that_overshoots_into_infinity_does_not_leave_the_run_there() -> None:
    """The budget ends between the epoch and its check."""
    for max_samples in range(320, 2000, 40):
        solution = minimize(noisy_wells(), START, method="neon-svrg", step_size=1e3, max_samples=max_samples)
        assert bool(torch.isfinite(solution.x).all())


# --- Ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", method_names())
def test_a_true_answer_of_the_callback_stops_the_run(method: str) -> None:
    seen: list[Snapshot] = []

    def stop(state: Snapshot) -> bool:
        seen.append(state)
        return True

    solution = minimize(noisy_wells(), START, method=method, eps=1e-6, max_samples=500_000, callback=stop)
    assert len(seen) == 1
    assert solution.status is Ending.STOPPED
    assert len(solution.trace) == 1
    assert solution.cost == seen[0].cost


def test_a_callback_that_returns_nothing_stops_nothing_and_sees_every_event() -> None:
    seen: list[Snapshot] = []
    solution = minimize(noisy_wells(), torch.zeros(4, dtype=DOUBLE), eps=1e-3, callback=seen.append)
    assert solution.success
    assert [state.event for state in seen] == list(solution.trace)
    assert [state.escapes for state in seen] == sorted(state.escapes for state in seen)
    assert seen[-1].escapes == solution.escapes >= 1
    assert "tensor" not in repr(seen[-1])  # x may have a million entries.


@pytest.mark.parametrize("method", method_names())
def test_ctrl_c_in_the_objective_returns_the_best_point_so_far(method: str) -> None:
    calls = 0

    def loss(x: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return 0.25 * ((x**2 - 1.0) ** 2).sum() + 0.0 * t.sum(), x**3 - x

    objective = FiniteSum(
        loss, torch.zeros(40, dtype=DOUBLE), gradient=True, hvp=lambda x, v, t: (3.0 * x**2 - 1.0) * v
    )
    solution = minimize(objective, START, method=method, eps=1e-12, max_samples=100_000)
    assert solution.status is Ending.INTERRUPTED
    assert str(solution).startswith("Interrupted.")
    checks = solution.trace.of("check")
    if checks:
        best = min(checks, key=lambda event: event.value)
        assert (solution.value, solution.gradient_norm) == (best.value, best.gradient_norm)
    value = float(0.25 * ((solution.x**2 - 1.0) ** 2).sum())
    assert value <= float(0.25 * ((START**2 - 1.0) ** 2).sum()) + 1e-12


def test_ctrl_c_before_anything_was_seen_returns_the_start() -> None:
    def fun(x: Tensor) -> Tensor:
        raise KeyboardInterrupt

    solution = minimize(Function(fun), START)
    assert solution.status is Ending.INTERRUPTED
    assert torch.equal(solution.x, START)
    assert solution.x is not START


def test_an_error_in_the_objective_is_the_callers_to_see() -> None:
    def fun(x: Tensor) -> Tensor:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        minimize(Function(fun), START)


@pytest.mark.slow
@pytest.mark.parametrize("method", method_names())
def test_the_start_is_not_changed_and_the_same_seed_gives_the_same_run(method: str) -> None:
    start = START.clone()
    settings: dict[str, Any] = {"method": method, "eps": 1e-3, "max_samples": 20_000}
    first = minimize(noisy_wells(), start, seed=7, **settings)
    again = minimize(noisy_wells(), start, seed=7, **settings)
    assert torch.equal(start, START)
    assert torch.equal(first.x, again.x)
    assert (first.status, first.cost, first.escapes) == (again.status, again.cost, again.escapes)
    assert math.isnan(first.value) == math.isnan(again.value)
    assert len(first.trace) == len(again.trace)


def test_another_seed_gives_another_run_and_no_global_seed_is_read_or_set() -> None:
    before = torch.random.get_rng_state()
    first = minimize(noisy_wells(), START, seed=1, max_samples=20_000)
    other = minimize(noisy_wells(), START, seed=2, max_samples=20_000)
    assert not torch.equal(first.x, other.x)
    assert torch.equal(before, torch.random.get_rng_state())


# --- The trace ------------------------------------------------------------------------------------------------------


def test_the_trace_has_every_event_with_what_was_spent_by_then() -> None:
    solution = minimize(noisy_wells(), torch.zeros(4, dtype=DOUBLE), eps=1e-3)
    trace = solution.trace
    assert {event.kind for event in trace} == {"check", "extraction", "escape"}
    for count in ("samples", "value_samples", "hessian_samples", "seconds"):
        amounts = [getattr(event, count) for event in trace]
        assert amounts == sorted(amounts)
    assert trace[-1].kind == "extraction"
    assert trace[-1].samples == solution.cost.samples
    assert len(trace.of("escape")) == solution.escapes
    assert all(event.curvature < 0.0 for event in trace.of("escape"))
    assert all(math.isfinite(event.gradient_norm) for event in trace.of("check"))


ESCAPING = [name for name in method_names() if name.startswith("neon-")] + [
    "pgd",
    "pagd",
    "natasha2",
    "sncg",
    "svrg-hessian",
]


@pytest.mark.parametrize("method", ESCAPING)
def test_at_an_escape_the_callback_sees_the_new_point(method: str) -> None:
    """Whichever the method: lower than the saddle, not where the run had looked or jumped from, and counted."""
    seen: list[Snapshot] = []
    points: list[Tensor] = []

    def look(snapshot: Snapshot) -> None:
        seen.append(snapshot)
        points.append(snapshot.x.clone())

    objective, saddle = noisy_wells(), torch.zeros(4, dtype=DOUBLE)
    solution = minimize(objective, saddle, method=method, eps=1e-2, gamma=0.1, max_samples=200_000, callback=look)
    at = [i for i, snapshot in enumerate(seen) if snapshot.event.kind == "escape"]
    assert len(at) == solution.escapes >= 1
    f = objective.sample()
    assert float(f.value(points[at[0]])) < float(f.value(saddle))
    for count, i in enumerate(at, 1):
        assert seen[i].escapes == count
        left = [j for j in range(i) if seen[j].event.kind == "extraction" or seen[j].event.note == "perturbed"]
        assert not torch.equal(points[i], points[left[-1]] if left else saddle)
        if not math.isnan(seen[i].event.value):
            assert seen[i].event.value == pytest.approx(float(f.value(points[i])), rel=1e-12)


@pytest.mark.parametrize("method", ["neon-scsg", "natasha2", "sncg", "svrg-hessian"])
def test_an_extraction_says_the_same_with_every_method(method: str) -> None:
    """The value, the gradient and the curvature, of the point that the callback is shown."""
    solution = minimize(
        noisy_wells(), torch.zeros(4, dtype=DOUBLE), method=method, eps=1e-2, gamma=0.1, max_samples=200_000
    )
    extractions = solution.trace.of("extraction")
    assert len(extractions) >= 2
    for event in extractions:
        assert math.isfinite(event.value + event.gradient_norm + event.curvature)
    assert solution.curvature == extractions[-1].curvature


def test_a_trace_can_be_narrowed_and_written_as_rows() -> None:
    def event(kind: str, samples: int) -> TraceEvent:
        return TraceEvent(
            kind=kind, samples=samples, hessian_samples=0, value_samples=1, seconds=0.5, value=2.0, note="n"
        )

    trace = Trace([event("check", 1), event("escape", 2), event("check", 3)])
    assert isinstance(trace.of("check"), Trace)
    assert [e.samples for e in trace.of("check")] == [1, 3]
    assert trace.of("nothing") == ()
    rows = trace.rows()
    assert [row["kind"] for row in rows] == ["check", "escape", "check"]
    assert rows[0]["samples"] == 1
    assert set(rows[0]) == {
        "kind",
        "samples",
        "hessian_samples",
        "value_samples",
        "seconds",
        "value",
        "gradient_norm",
        "curvature",
        "note",
    }
    assert json.loads(json.dumps(rows))[1]["note"] == "n"


def test_an_ending_reads_as_a_sentence() -> None:
    for ending in Ending:
        assert str(ending) == ending.value
        assert len(str(ending).split()) >= 4
