"""`minimize`: what it refuses, what it says, and methods of a user's own."""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from unsaddle import Ending, FiniteSum, Function, ModelObjective, Stream, is_minimum, minimize, numpy_function
from unsaddle.first_order.anchor import Anchor
from unsaddle.first_order.method import FirstOrderMethod, Local
from unsaddle.methods import FIRST_ORDER, RIVALS, method_names
from unsaddle.objective import Objective
from unsaddle.options import check_settings
from unsaddle.problems.dense import eigenvalues

DOUBLE = torch.float64
METHODS = method_names()
ZERO = torch.zeros(2, dtype=DOUBLE)


def wells(x: Tensor) -> Tensor:
    """A saddle at 0, minima at (0, ±√2)."""
    return x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4.0


def rows(n: int = 20) -> FiniteSum:
    return FiniteSum(lambda x, w: w.mean() * wells(x), torch.ones(n, dtype=DOUBLE))


def stream(noise: float = 0.2) -> Stream:
    return Stream(
        lambda x, t: wells(x) + noise * (t @ x).mean(),
        lambda size, generator: (torch.randn(size, 2, generator=generator, dtype=DOUBLE),),
    )


# --- Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"objective": wells}, TypeError, r"objective must be a Function.*wrap a callable as unsaddle\.Function"),
        ({"x0": torch.zeros(2, dtype=torch.int64)}, TypeError, "x0 must be float32 or float64, got int64"),
        ({"x0": torch.zeros(1, 2)}, ValueError, "x0 must have one dimension"),
        ({"x0": torch.tensor([0.0, math.nan])}, ValueError, "x0 must be finite, got nan or inf in it; start elsewhere"),
        ({"x0": torch.tensor([0.0, math.inf])}, ValueError, "x0 must be finite"),
        ({"eps": 0.0}, ValueError, r"eps must be a finite number > 0, got 0\.0; leave it out to have it follow L1"),
        ({"eps": -1.0}, ValueError, "eps must be a finite number > 0"),
        ({"eps": math.nan}, ValueError, "eps must be a finite number > 0, got nan"),
        ({"eps": "small"}, TypeError, "eps must be a number, got 'small'"),
        ({"gamma": 0.0}, ValueError, "gamma must be a finite number > 0, got 0.0; leave it out"),
        ({"gamma": -0.1}, ValueError, "gamma must be a finite number > 0"),
        ({"delta": 0.0}, ValueError, "delta must be between 0 and 1"),
        ({"delta": 1.0}, ValueError, "delta must be between 0 and 1"),
        ({"max_samples": 0}, ValueError, "max_samples must be at least 1, got 0"),
        ({"max_samples": 10.0}, TypeError, "max_samples must be an integer"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"settings": "magic"}, ValueError, "settings must be one of practical, theory; got 'magic'"),
        ({"extractor": "eye"}, ValueError, r"extractor must be one of auto, .*neon\+.*got 'eye'"),
        ({"escape": "jump"}, ValueError, "escape must be one of line search"),
        ({"escape": "random"}, ValueError, "needs hessian_lipschitz"),
        ({"escape": "random", "hessian_lipschitz": -1.0}, ValueError, "hessian_lipschitz must be a finite number > 0"),
        ({"batch_size": 21}, ValueError, "batch_size must be at most n = 20, got 21; leave it out"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"batch_size": 1.5}, TypeError, "batch_size must be an integer"),
        ({"step_size": 0.0}, ValueError, "step_size must be a finite number > 0, got 0.0; leave it out"),
        ({"anchor_size": 0}, ValueError, "anchor_size must be at least 1"),
        ({"speed": 1.0}, TypeError, "unknown setting 'speed'; this method takes batch_size, step_size, anchor_size"),
        ({"max_sample": 3}, TypeError, "unknown setting 'max_sample'; .* did you mean 'max_samples'?"),
        ({"smoothness": 1.0}, TypeError, "unknown setting 'smoothness'; with settings='practical'"),
        ({"method": "neon-shb", "momentum": 1.0}, ValueError, r"momentum must be in \[0, 1\), got 1\.0"),
        ({"method": "neon-sgd", "momentum": 0.9}, TypeError, "unknown setting 'momentum'; this method takes batch"),
        ({"method": "neon-natasha", "sigma": -1.0}, ValueError, "sigma must be a finite number > 0"),
        ({"method": lambda f, x, g: (x, x), "step_size": 1.0}, TypeError, "unknown setting 'step_size'"),
    ],
)
def test_bad_input_is_refused_with_what_was_expected(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"objective": rows(), "x0": ZERO} | change
    with pytest.raises(error, match=message):
        minimize(arguments.pop("objective"), arguments.pop("x0"), **arguments)


def test_an_unknown_method_is_answered_with_all_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"method must be one of .*; got 'adam'") as refused:
        minimize(rows(), ZERO, method="adam")
    assert all(name in str(refused.value) for name in METHODS)
    for name in FIRST_ORDER:
        assert f"neon-{name}" in METHODS
    assert set(RIVALS) <= set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_refuses_settings_that_it_does_not_have(method: str) -> None:
    with pytest.raises(TypeError, match=r"unknown setting 'nonsense'; .* takes? "):
        minimize(rows(), ZERO, method=method, nonsense=1)


@pytest.mark.parametrize("method", ["neon-svrg", "svrg", "svrg-hessian", "pgd", "pagd"])
def test_methods_that_need_everything_refuse_a_stream(method: str) -> None:
    with pytest.raises(ValueError, match=f"{method} needs .*, got a stream"):
        minimize(stream(), ZERO, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_larger_than_everything_is_refused(method: str) -> None:
    with pytest.raises(ValueError, match="batch_size must be at most n = 20, got 21"):
        minimize(rows(), ZERO, method=method, batch_size=21)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_start_without_a_value_is_a_status(method: str, bad: float) -> None:
    objective = FiniteSum(
        lambda x, w: (w.mean() * bad, x), torch.ones(20, dtype=DOUBLE), gradient=True, hvp=lambda x, v, w: v
    )
    solution = minimize(objective, ZERO, method=method, max_samples=10_000)
    assert solution.status is Ending.NOT_FINITE
    assert not solution.success
    assert torch.equal(solution.x, ZERO)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in RIVALS])
def test_a_divergent_step_is_a_status_and_the_last_finite_point_is_kept(method: str) -> None:
    """Steps of 100 on curvatures of 2 and more, x⁴ on top: infinity in a few rounds."""
    start = torch.tensor([1.0, 3.0], dtype=DOUBLE)
    settings = {"step_size": 100.0} | ({"num_steps": 1} if method.split("-")[-1] in ("sgd", "shb", "snag") else {})
    solution = minimize(rows(), start, method=method, max_samples=100_000, **settings)
    assert solution.status is Ending.DIVERGED
    assert bool(torch.isfinite(solution.x).all())
    assert float(wells(solution.x)) == pytest.approx(solution.value)
    assert "lower step_size" in str(solution)


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if name not in RIVALS])
def test_a_step_that_follows_l1_does_not_diverge_there(method: str) -> None:
    start = torch.tensor([1.0, 20.0], dtype=DOUBLE)
    solution = minimize(rows(), start, method=method, eps=1e-3, max_samples=1_000_000)
    assert solution.status in (Ending.SECOND_ORDER_POINT, Ending.FIRST_ORDER_POINT)
    assert solution.gradient_norm <= solution.eps
    # ε = 1e-3·L1·‖x‖, and L1 is the curvature here: so x is known to a thousandth of ‖x‖.
    assert abs(float(solution.x[1])) == pytest.approx(2.0**0.5, rel=1e-3)


# --- What it says ---------------------------------------------------------------------------------------------------


def test_a_solution_says_what_is_known_of_its_point() -> None:
    solution = minimize(Function(wells), ZERO, method="neon-msgd", eps=1e-4, gamma=0.5)
    assert solution.success
    assert solution.status is Ending.SECOND_ORDER_POINT
    gradient = torch.func.grad(wells)(solution.x)
    spectrum = eigenvalues(Function(wells), solution.x)
    assert solution.value == float(wells(solution.x))
    assert solution.gradient_norm == pytest.approx(float(gradient.norm()), rel=1e-6)
    assert solution.gradient_norm <= solution.eps == 1e-4
    assert solution.gradient_error == solution.curvature_error == 0.0
    assert solution.gamma == 0.5
    assert float(spectrum[0]) >= -0.5
    assert solution.curvature >= float(spectrum[0]) - 1e-4
    assert solution.method == "neon-msgd"
    assert solution.escapes == 1
    assert solution.cost.samples == solution.cost.gradients  # A function is one sample.
    assert solution.cost.hessian_products == 0
    assert is_minimum(Function(wells), solution.x).kind == "minimum"


def test_a_solution_reads_as_a_line_and_a_table() -> None:
    solution = minimize(Function(wells), ZERO, method="neon-msgd", eps=1e-3, gamma=0.5)
    text = str(solution)
    lines = [line.split(maxsplit=1) for line in text.splitlines()[1:]]
    assert text.startswith("The gradient is small and nothing below -gamma was found.\n")
    assert ["value", "-1"] in lines
    assert ["escapes", "1"] in lines
    assert ["method", "neon-msgd"] in lines
    for words in ("(eps 0.001)", "(sought: below -0.5)", "component gradients"):
        assert words in text
    assert "Hessian products" not in text
    assert repr(solution) == "<Solution neon-msgd SECOND_ORDER_POINT: value -1, 1 escape>"


def test_without_neon_nothing_is_claimed_of_the_curvature() -> None:
    solution = minimize(Function(wells), ZERO, method="msgd")
    assert solution.status is Ending.FIRST_ORDER_POINT
    assert not solution.success
    assert torch.equal(solution.x, ZERO)
    assert math.isnan(solution.curvature)
    assert math.isnan(solution.gamma)
    assert "use a neon- method" in str(solution)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("method", [f"neon-{name}" for name in FIRST_ORDER])
def test_every_method_ends_in_either_precision(method: str, dtype: torch.dtype) -> None:
    solution = minimize(Function(wells), ZERO.to(dtype), method=method, max_samples=100_000)
    assert solution.success
    assert solution.x.dtype is dtype
    assert solution.gradient_norm <= solution.eps
    # ε = 1e-3·L1·‖x‖, and L1 is the curvature here: so x is known to a thousandth of ‖x‖.
    assert abs(float(solution.x[1])) == pytest.approx(2.0**0.5, rel=1e-3)


@pytest.mark.parametrize("method", [f"neon-{name}" for name in FIRST_ORDER])
def test_float32_comes_to_an_end_on_top_of_a_large_value(method: str) -> None:
    """At f = 100 a rounding is 8e-6, and the gain of a step near ‖∇f‖ = ε less than that: no guard may take offence."""
    f = Function(lambda x: 100.0 + wells(x))
    solution = minimize(f, ZERO.float(), method=method, max_samples=100_000)
    assert solution.status is Ending.SECOND_ORDER_POINT


def test_numpy_goes_in_as_well() -> None:
    f = numpy_function(
        lambda x: (x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4, np.array([2 * x[0], x[1] ** 3 - 2 * x[1]])), jac=True
    )
    start = np.zeros(2)
    solution = minimize(f, start)  # type: ignore[arg-type]
    assert solution.success
    assert start.tolist() == [0.0, 0.0]


# --- Streams --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [f"neon-{name}" for name in FIRST_ORDER if name != "svrg"])
def test_a_stream_is_minimised_to_a_point_that_is_second_order_stationary_in_truth(method: str) -> None:
    solution = minimize(stream(), ZERO, method=method, eps=0.05, gamma=0.5, max_samples=2_000_000)
    assert solution.success
    assert solution.gradient_error > 0.0
    # Against F itself, of which the noise has mean zero.
    assert float(torch.func.grad(wells)(solution.x).norm()) <= 1.5 * 0.05
    assert float(eigenvalues(Function(wells), solution.x)[0]) >= -0.5


# --- A method of a user's own ---------------------------------------------------------------------------------------


def test_a_users_own_method_is_promoted() -> None:
    """Gradient descent in three lines: stuck at the saddle alone, past it with NEON."""
    rounds = 0

    def descent(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        nonlocal rounds
        rounds += 1
        for _ in range(10):
            x = x - 0.1 * objective.sample().grad(x)
        return x, x

    solution = minimize(Function(wells), ZERO, method=descent)
    assert solution.success
    assert solution.method == "your method"
    assert solution.escapes == 1
    assert rounds >= 1
    assert solution.cost.gradients >= 10 * rounds  # What it draws is counted.
    assert solution.gradient_norm <= solution.eps
    # ε = 1e-3·L1·‖x‖, and L1 is the curvature here: so x is known to a thousandth of ‖x‖.
    assert abs(float(solution.x[1])) == pytest.approx(2.0**0.5, rel=1e-3)


def test_a_users_own_method_on_samples_gets_its_randomness_from_the_seed() -> None:
    def sgd(objective: Objective, x: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        y = x
        for t in range(40):
            x = x - 0.1 * objective.sample(256, generator).grad(x)
            y = y + (x - y) / (t + 1)
        return y, x

    first, again = (minimize(stream(), ZERO, method=sgd, eps=0.05, gamma=0.5, seed=3) for _ in range(2))
    assert first.success
    assert torch.equal(first.x, again.x)


def test_a_users_own_method_must_return_a_pair() -> None:
    with pytest.raises(TypeError, match=r"must return a pair \(y, z\), got Tensor; return \(x, x\) for one x"):
        minimize(Function(wells), ZERO + 1.0, method=lambda f, x, g: x)  # type: ignore[arg-type,return-value]


# --- A method in the registry ---------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Toy(FirstOrderMethod):
    """Gradient descent: what a file of `first_order/` holds at least."""

    step_size: float = 0.1

    def __post_init__(self) -> None:
        check_settings(self, positive=("step_size",), hint="0.1 is usual")

    def test_size(self, local: Local) -> int | None:
        return None

    def advance(
        self, objective: Objective, x: Tensor, seen: Anchor | None, local: Local, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        z = x - self.step_size * objective.sample().grad(x)
        return z, z


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line that CONTRIBUTING.md asks for."""
    monkeypatch.setitem(FIRST_ORDER, "toy", Toy)


@pytest.mark.usefixtures("toy")
def test_a_method_takes_one_entry_to_run_alone_and_promoted() -> None:
    alone = minimize(Function(wells), ZERO, method="toy", eps=1e-3)
    assert alone.status is Ending.FIRST_ORDER_POINT
    assert torch.equal(alone.x, ZERO)
    promoted = minimize(Function(wells), ZERO, method="neon-toy", step_size=0.2, eps=1e-3)
    assert promoted.success
    assert promoted.escapes == 1
    assert abs(float(promoted.x[1])) == pytest.approx(2.0**0.5, abs=1e-3)


@pytest.mark.usefixtures("toy")
def test_such_a_method_has_the_settings_that_its_class_has() -> None:
    with pytest.raises(TypeError, match="unknown setting 'momentum'; this method takes step_size, escape, hessian_lip"):
        minimize(Function(wells), ZERO, method="neon-toy", momentum=0.9)
    with pytest.raises(ValueError, match=r"step_size must be a finite number > 0, got -1\.0; 0\.1 is usual"):
        minimize(Function(wells), ZERO, method="neon-toy", step_size=-1.0)
    with pytest.raises(ValueError, match=r"method must be one of .*neon-toy"):
        minimize(Function(wells), ZERO, method="neon-toys")


@pytest.mark.usefixtures("toy")
def test_without_a_theorem_it_refuses_the_settings_of_theory() -> None:
    constants = {"smoothness": 2.0, "hessian_lipschitz": 6.0}
    theorems = "sgd, shb, snag, msgd, scsg, svrg, natasha"
    for method in ("toy", "neon-toy"):
        with pytest.raises(ValueError, match=f"settings='theory' needs a method that .*: {theorems}, .*got toy; use"):
            minimize(Function(wells), ZERO, method=method, settings="theory", eps=0.1, gamma=0.5, **constants)


def test_a_method_for_finite_sums_says_so_in_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class FullToy(Toy):
        needs_finite_sum = True

    monkeypatch.setitem(FIRST_ORDER, "toy", FullToy)
    with pytest.raises(ValueError, match="neon-toy needs a finite sum, got a stream of samples; use neon-scsg"):
        minimize(stream(), ZERO, method="neon-toy")


# --- A point of its own ---------------------------------------------------------------------------------------------


def test_an_objective_with_a_point_of_its_own_needs_no_start_and_is_not_written_to() -> None:
    model = torch.nn.Linear(3, 1, dtype=DOUBLE)
    features = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    targets = features @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=DOUBLE)
    objective = ModelObjective(model, lambda m, batch: (m(batch[0]) - batch[1]).square().mean(), [(features, targets)])
    before = [p.detach().clone() for p in model.parameters()]
    solution = minimize(objective, method="neon-msgd", eps=1e-3)
    assert solution.success
    assert solution.gradient_norm <= 1e-3
    assert torch.equal(minimize(objective, objective.point, method="neon-msgd", eps=1e-3).x, solution.x)
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_an_objective_without_one_says_so() -> None:
    with pytest.raises(ValueError, match="x0 was left out, but this objective has no point of its own; pass x0"):
        minimize(Function(wells))


# --- Progress -------------------------------------------------------------------------------------------------------


def test_progress_is_silent_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    seen: list[Any] = []
    solution = minimize(Function(wells), ZERO, progress=True, callback=seen.append)
    assert solution.success
    assert len(seen) == len(solution.trace)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_progress_is_shown_on_a_terminal() -> None:
    pytest.importorskip("rich")
    program = (
        "import torch, unsaddle\n"
        "f = unsaddle.Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)\n"
        "s = unsaddle.minimize(f, torch.zeros(2).double(), progress=True, max_samples=1000)\n"
        "print(s.success)\n"
    )
    ours, theirs = os.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=theirs,
        stdout=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # The other end is closed.
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert ran.stdout is not None
    assert ran.stdout.read().strip() == b"True"
    assert ran.wait() == 0
    ran.stdout.close()
    text = shown.decode(errors="replace")
    for word in ("value", "gradient", "curvature", "samples", "1 escapes"):
        assert word in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=[] if name in ("neon-sgd", "neon-scsg") else pytest.mark.study)
        for name in METHODS
        if name.startswith("neon-")
    ],
)
def test_where_rounding_keeps_the_gradient_above_eps_a_run_stalls_and_says_so(method: str) -> None:
    """The gradient never is exactly zero in float32, and below 1e-2 the value of 100 no longer shows that it falls."""
    centre = torch.linspace(0.1, 0.7, 5) / 3.0
    f = Function(lambda x: 100.0 + (x - centre).square().sum() / 2.0 + torch.cos(3.0 * x).sum() / 30.0)
    solution = minimize(f, torch.full((5,), 0.3), method=method, eps=1e-30)
    assert solution.status is Ending.STALLED
    assert not solution.success
    assert 0.0 < solution.gradient_norm < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in METHODS if name.startswith("neon-")])
def test_an_eps_beyond_the_precision_ends_without_a_budget(method: str) -> None:
    f = Function(lambda x: 100.0 + (x @ x) ** 2 / 4.0 + x @ x / 2.0)
    solution = minimize(f, torch.full((5,), 0.3), method=method, eps=1e-30)
    assert solution.status in (Ending.STALLED, Ending.SECOND_ORDER_POINT)
    assert solution.gradient_norm < 0.1


WORDS = set(inspect.signature(minimize).parameters) - {"objective", "x0", "method_settings"}


@pytest.mark.parametrize("method", ["neon-scsg", "sgd", "pgd"])
@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_slip_is_looked_up_among_all_that_minimize_takes(word: str, method: str) -> None:
    with pytest.raises(TypeError, match=rf"unknown setting '{word}s'; this method takes .*did you mean '{word}'"):
        minimize(rows(), ZERO, method=method, **{f"{word}s": 1})


@pytest.mark.parametrize("method", ["pgd", "sgd", "neon-svrg", "noisy-sgd"])
def test_a_step_size_may_be_an_integer_of_any_length(method: str) -> None:
    f = Function(lambda x: (x @ x) / 2.0)
    solution = minimize(f, torch.ones(2, dtype=torch.float64), method=method, step_size=10**30, max_samples=500)
    assert isinstance(solution.status, Ending)
