"""Verdicts with no argument but F and x: right at every stationary point of the zoo, and a reason where there is none.

`python -m benchmarks.verdicts` asks the same of 50 seeds and of 300 instances of each of its families.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import unsaddle
from tests.curvature.test_contract import Counting
from unsaddle import FiniteSum, Function, Stream, is_minimum
from unsaddle.curvature import Status
from unsaddle.judgement.verdict import Verdict
from unsaddle.problems import Problem, StationaryPoint, phase_retrieval, prescribed_spectrum, saddle_chain, spectra, zoo

FLOATS = (torch.float64, torch.float32)
DOUBLE = torch.float64
KINDS = {"strict saddle": "saddle", "minimum": "minimum", "degenerate": "undecided"}


def _zoo() -> list[Any]:
    return [
        pytest.param(
            problem,
            exact,
            point,
            id=f"{problem.name} {i} {str(dtype).split('.')[1]}",
            marks=[] if dtype is DOUBLE and i == 0 else pytest.mark.slow,
        )
        for dtype in FLOATS
        for problem, exact in zip(zoo(dtype), zoo(), strict=True)
        for i, point in enumerate(problem.stationary_points)
    ]


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 10), marks=pytest.mark.study)], ids=str)
@pytest.mark.parametrize(("problem", "exact", "point"), _zoo())
def test_every_stationary_point_of_the_zoo_is_told_for_what_it_is(
    problem: Problem, exact: Problem, point: StationaryPoint, seeds: range
) -> None:
    f = exact.objective.sample(hessian=True)
    for seed in seeds:
        verdict = is_minimum(problem.objective, point.point, seed=seed)
        assert verdict.kind == KINDS[point.kind]
        assert (verdict.direction is not None) == (verdict.kind == "saddle")
        if verdict.kind == "saddle":
            v = verdict.direction.double()  # type: ignore[union-attr]
            truth = float(v @ f.hvp(point.point.double(), v) / (v @ v))  # type: ignore[attr-defined]
            low, high = verdict.interval
            assert low <= truth <= high < 0.0
        elif verdict.kind == "minimum":
            assert verdict.gamma == pytest.approx(0.01 * verdict.evidence.smoothness)
            low, high = verdict.interval
            rounding = 1e-5 * point.largest_curvature
            assert low <= point.lowest_curvature <= high + rounding


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
def test_away_from_a_stationary_point_the_gradient_is_named(dtype: torch.dtype) -> None:
    for problem in zoo(dtype):
        x = problem.stationary_points[0].point + 0.7  # By 1.0 the chain would be at its next stationary point.
        verdict = is_minimum(problem.objective, x)
        norm = float(problem.objective.sample().grad(x).norm())
        assert norm > verdict.eps
        assert verdict.kind == "not stationary"
        assert verdict.gradient_norm == pytest.approx(norm)


# --- What a verdict says ----------------------------------------------------------------------------------------------

SADDLE = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
ORIGIN = torch.zeros(2, dtype=DOUBLE)
WELL = torch.tensor([0.0, 2.0**0.5], dtype=DOUBLE)


def test_a_saddle_reads_as_one() -> None:
    text = str(is_minimum(SADDLE, ORIGIN))
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "A saddle. F falls by 0.75 along the direction."
    assert lines[1].startswith("why         The curvature along the direction is -2 ±")
    for line in (
        "way down    x + 1·direction, where F is lower by 0.75",
        "gradient    0 (up to 0.002 counts as zero)",
        "looked for  curvature below -0.02, at resolution 1.5e-08",
        "confidence  0.95",
        "cost        10 gradients",
    ):
        assert line in lines


def test_a_minimum_reads_as_one_with_its_gamma_and_its_resolution() -> None:
    verdict = is_minimum(SADDLE, WELL)
    text = str(verdict)
    assert text.startswith(f"A minimum: no curvature below {-verdict.gamma:.3g}.\n")
    assert "Nothing below -gamma was found; the lowest" in text
    assert f"below {-verdict.gamma:.3g}, at resolution {verdict.resolution:.2g}" in text
    assert (verdict.confidence, verdict.evidence.status) == (0.95, Status.NOTHING_FOUND)


def test_a_slope_with_negative_curvature_says_so_at_once() -> None:
    verdict = is_minimum(SADDLE, ORIGIN + 0.3)
    assert str(verdict).splitlines()[0] == "Not stationary. There is negative curvature, too."
    assert "more than that step, though the gradient may lead farther" in verdict.reason


def test_a_slope_reads_as_one() -> None:
    verdict = is_minimum(SADDLE, WELL + 1.0)
    lines = str(verdict).splitlines()
    assert lines[0] == "Not stationary."
    assert lines[1].split(maxsplit=1) == ["why", "The gradient is not small: follow it."]
    assert f"(up to {verdict.eps:.3g} counts as zero)" in lines[2]


def test_a_ridge_is_no_minimum_though_the_gradient_is_zero_there() -> None:
    """The slopes of −|x| are ±1 beside 0, and autograd's gradient at 0 is 0."""
    verdict = is_minimum(Function(lambda x: -x.abs().sum()), ORIGIN)
    assert verdict.kind == "saddle"
    assert "Nearer to x the gradient jumps" in verdict.reason
    assert verdict.drop > 0.0


@pytest.mark.parametrize(
    ("fun", "advice"),
    [
        (lambda x: x.sum() * 0.0, "has no curvature to measure"),
        (lambda x: (x - 1.0).sqrt().sum(), "pass an x where F is finite"),
        (lambda x: x.abs().sum(), "Use a smooth F, or pass"),
        (lambda x: (x**4).sum(), "the Hessian seems to be zero"),
    ],
)
def test_undecided_says_what_would_decide(fun: Any, advice: str) -> None:
    verdict = is_minimum(Function(fun), ORIGIN)
    assert verdict.kind == "undecided"
    assert str(verdict).startswith("Undecided.\n")
    assert advice in verdict.reason
    assert all(math.isnan(end) for end in verdict.interval)


@pytest.mark.parametrize("x", [ORIGIN, WELL, torch.full((2,), math.nan, dtype=DOUBLE)], ids=["saddle", "well", "nan"])
def test_a_plot_has_the_slice_and_the_history(x: Tensor) -> None:
    figure_class = pytest.importorskip("matplotlib.figure").Figure
    figure = is_minimum(SADDLE, x).plot()
    assert isinstance(figure, figure_class)
    names = ["distance along the direction"] if x.isnan().any() else ["distance along the direction", "gradients"]
    assert [axes.get_xlabel() for axes in figure.axes] == names


def test_the_same_seed_gives_the_same_verdict() -> None:
    problem = prescribed_spectrum(torch.linspace(-0.2, 1.0, 50, dtype=DOUBLE))
    first, again, other = (is_minimum(problem.objective, torch.zeros(50, dtype=DOUBLE), seed=s) for s in (3, 3, 4))
    assert first.curvature == again.curvature
    assert torch.equal(first.direction, again.direction)  # type: ignore[arg-type]
    assert not torch.equal(first.direction, other.direction)  # type: ignore[arg-type]


# --- Cost -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("samples", [None, 20, 7, 1])
def test_every_gradient_is_counted(samples: int | None, which: int, dtype: torch.dtype) -> None:
    problem = phase_retrieval(dimension=4, measurements=100, dtype=dtype)
    books = Counting(problem.objective)
    verdict = is_minimum(books, problem.stationary_points[which].point, samples=samples)
    assert verdict.cost == books.cost


@pytest.mark.parametrize("fun", [lambda x: x.abs().sum(), lambda x: -x.abs().sum(), lambda x: (x**3).sum()])
def test_every_gradient_of_a_failure_is_counted(fun: Any) -> None:
    books = Counting(Function(fun))
    assert is_minimum(books, ORIGIN).cost == books.cost


def test_a_saddle_and_a_minimum_cost_what_they_are_made_of() -> None:
    """In two dimensions: x, five for the survey and two steps; then two to measure, or eight to check nothing."""
    assert is_minimum(SADDLE, ORIGIN).cost.gradients == 1 + 5 + 2 + 2
    assert is_minimum(SADDLE, WELL).cost.gradients == 1 + 5 + 2 + 8
    # Of two variables in float32, none may cross a step of half precision at a thousandth of x; one more rung tells.
    assert is_minimum(SADDLE, WELL.float()).cost.gradients == 1 + 5 + 2 + 2 + 8
    assert is_minimum(SADDLE, ORIGIN.float()).cost.gradients == 1 + 5 + 2 + 2


# --- Bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"eps": 0.0}, ValueError, "eps must be a finite number > 0, got 0.0; leave it out"),
        ({"eps": -1.0}, ValueError, "eps must be a finite number > 0, got -1.0"),
        ({"gamma": 0.0}, ValueError, "gamma must be a finite number > 0, got 0.0"),
        ({"gamma": math.inf}, ValueError, "gamma must be a finite number > 0, got inf"),
        ({"delta": 0.0}, ValueError, "delta must be between 0 and 1, got 0.0"),
        ({"delta": 1.0}, ValueError, "delta must be between 0 and 1, got 1.0"),
        ({"samples": 5}, ValueError, "samples must be at most n = 1, got 5"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
    ],
)
def test_bad_arguments_are_refused_with_what_was_expected(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        is_minimum(SADDLE, ORIGIN, **options)


def test_a_point_is_needed_and_taken_from_an_objective_that_has_one() -> None:
    with pytest.raises(ValueError, match="x was left out, but this objective has no point of its own; pass x"):
        is_minimum(SADDLE)

    class WithPoint(Function):
        point = ORIGIN

    assert is_minimum(WithPoint(lambda x: (x**2).sum())).kind == "minimum"


def test_a_plain_callable_is_refused_with_how_to_wrap_it() -> None:
    with pytest.raises(TypeError, match=r"got function; wrap a callable as unsaddle.Function\(fun\)"):
        is_minimum(lambda x: x.sum(), ORIGIN)  # type: ignore[arg-type]


def test_a_vanishing_delta_is_no_crash() -> None:
    assert is_minimum(SADDLE, WELL, delta=1e-300).kind == "minimum"


# --- Objectives that do not answer the same twice ---------------------------------------------------------------------


def _unsteady(kind: str, dtype: torch.dtype) -> tuple[Function, Tensor]:
    random = torch.Generator().manual_seed(0)
    A = torch.randn(40, 6, generator=random, dtype=dtype)
    y = torch.randn(40, generator=random, dtype=dtype)
    target = torch.randn(2, 2, generator=random, dtype=dtype)
    solution = torch.linalg.lstsq(A, y).solution

    def mask(size: int) -> Tensor:
        return 2.0 * (torch.rand(size, generator=random) > 0.5).to(dtype)

    def shuffled(x: Tensor) -> Tensor:
        rows = torch.randperm(40, generator=random)[:8]
        return (A[rows] @ x - y[rows]).square().mean()

    def dropped_layer(x: Tensor) -> Tensor:
        first, second = x.view(2, 20, 2)
        return 0.5 * (second.T @ (mask(20)[:, None] * first) - target).square().sum()

    return {
        "dropout": (Function(lambda x: (A @ (x * mask(6)) - y).square().mean()), solution),
        "noise": (Function(lambda x: (A @ x - y).square().mean() + 1e-3 * (mask(6) * x).sum()), solution),
        "reshuffled rows": (Function(shuffled), solution),
        "dropout where the gradient vanishes": (Function(dropped_layer), torch.zeros(80, dtype=dtype)),
    }[kind]


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize("kind", ["dropout", "noise", "reshuffled rows", "dropout where the gradient vanishes"])
def test_an_objective_that_is_not_deterministic_is_named(kind: str, dtype: torch.dtype) -> None:
    for seed in range(10):
        objective, x = _unsteady(kind, dtype)
        verdict = is_minimum(objective, x, seed=seed)
        assert verdict.kind == "undecided"
        assert "not deterministic" in verdict.reason
        assert "Switch dropout off" in verdict.reason


# --- Kinks, infinities, flatness --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize("d", [1, 5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("power", [1.0, 1.25, 1.5])
def test_curvature_that_is_infinite_decides_nothing(power: float, sign: float, d: int, dtype: torch.dtype) -> None:
    """|x|^p with p < 2 at 0, where L1 is whatever the radius makes of it."""
    f = Function(lambda x: (0.0, sign * power * x.sign() * x.abs() ** (power - 1.0)), gradient=True)
    for seed in range(5):
        assert is_minimum(f, torch.zeros(d, dtype=dtype), seed=seed).kind == "undecided"


def test_a_kink_beside_a_way_down_does_not_make_a_minimum() -> None:
    for seed in range(10):
        verdict = is_minimum(Function(lambda x: x[0].abs() - x[1] ** 2), ORIGIN, seed=seed)
        assert verdict.kind in ("saddle", "undecided")


@pytest.mark.parametrize("power", [3, 4, -4])
def test_where_the_hessian_is_zero_nothing_is_said(power: int) -> None:
    f = Function(lambda x: math.copysign(1.0, power) * (x ** abs(power)).sum())
    for seed in range(5):
        assert is_minimum(f, torch.zeros(3, dtype=DOUBLE), seed=seed).kind == "undecided"


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize(
    ("fun", "kind"),
    [(lambda x: x.sum() * 0.0 + 3.0, "undecided"), (lambda x: x.sum(), "not stationary")],
    ids=["constant", "affine"],
)
def test_constant_and_affine_functions_are_flat(fun: Any, kind: str, dtype: torch.dtype) -> None:
    for x in (torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)):
        verdict = is_minimum(Function(fun), x)
        assert (verdict.kind, verdict.evidence.status) == (kind, Status.FLAT)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_undecided(bad: float) -> None:
    for f in (
        Function(lambda x: (x * bad).sum()),
        Function(lambda x: (x**2).sum() * (1.0 if bool((x == 0).all()) else bad)),
    ):
        verdict = is_minimum(f, ORIGIN)
        assert (verdict.kind, verdict.evidence.status) == ("undecided", Status.NOT_FINITE)
    assert is_minimum(SADDLE, torch.full((2,), bad, dtype=DOUBLE)).kind == "undecided"


def test_fresh_samples_that_are_not_finite_are_undecided() -> None:
    """F_S has the good rows only; the fresh batches meet the bad one."""

    def value_and_grad(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return 0.5 * w.mean() * x @ x, w.mean() * x

    weights = torch.ones(20, dtype=DOUBLE)
    weights[0] = math.nan
    verdicts = [
        is_minimum(FiniteSum(value_and_grad, weights, gradient=True), ORIGIN + 1e-9, samples=10, seed=s)
        for s in range(20)
    ]
    assert all(v.kind in ("undecided", "minimum") for v in verdicts)
    assert any(v.kind == "undecided" and "NaN or infinite" in v.reason for v in verdicts)
    assert all(math.isfinite(v.gradient_norm + v.gradient_error) for v in verdicts if v.kind == "minimum")


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
def test_in_one_dimension(dtype: torch.dtype) -> None:
    x = torch.zeros(1, dtype=dtype)
    assert is_minimum(Function(lambda x: (x**2).sum()), x).kind == "minimum"
    assert is_minimum(Function(lambda x: -(x**2).sum()), x).kind == "saddle"
    assert is_minimum(Function(lambda x: (x**2).sum()), x + 1.0).kind == "not stationary"


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-8, 1e-4])
def test_at_zero_and_next_to_it_a_saddle_is_one(size: float, dtype: torch.dtype) -> None:
    for objective, d in ((SADDLE, 2), (saddle_chain(length=6, dtype=dtype).objective, 6)):
        verdict = is_minimum(objective, torch.full((d,), size, dtype=dtype))
        assert verdict.kind == "saddle"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
def test_relu_networks_on_few_samples_give_no_false_saddle(dtype: torch.dtype) -> None:
    """With its last layer trained to interpolate, loss 0 is a minimum, kinks or not."""
    for seed in range(30):
        random = torch.Generator().manual_seed(seed)
        rows = torch.randn(6, 3, generator=random, dtype=DOUBLE)
        first = torch.randn(3, 8, generator=random, dtype=DOUBLE)
        last = torch.randn(8, generator=random, dtype=DOUBLE)
        targets = ((rows @ first).relu() @ last).to(dtype)
        rows = rows.to(dtype)

        def loss(x: Tensor, rows: Tensor = rows, targets: Tensor = targets) -> Tensor:
            return ((rows @ x[:24].view(3, 8)).relu() @ x[24:] - targets).square().mean()

        verdict = is_minimum(Function(loss), torch.cat([first.flatten(), last]).to(dtype), seed=seed)
        assert verdict.kind in ("minimum", "undecided")


# --- Half precision inside a float32 interface ------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_a_saddle_computed_in_bfloat16_is_never_called_a_minimum(decay: float) -> None:
    """Between two bfloat16 numbers the function stands still, but for a weight decay in float32: a false minimum."""
    kinds = set()
    for seed in range(60):
        random = torch.Generator().manual_seed(seed)
        q, _ = torch.linalg.qr(torch.randn(20, 20, generator=random))
        hessian = (q * torch.cat([torch.tensor([-0.5]), torch.rand(19, generator=random)])) @ q.T
        hessian = ((hessian + hessian.T) / 2.0).bfloat16()
        x0 = torch.randn(20, generator=random).bfloat16()
        slope = hessian @ x0

        def value_and_grad(
            x: Tensor, hessian: Tensor = hessian, slope: Tensor = slope, x0: Tensor = x0
        ) -> tuple[float, Tensor]:
            return 0.0, (hessian @ x.bfloat16() - slope).float() + decay * (x - x0.float())

        kinds.add(is_minimum(Function(value_and_grad, gradient=True), x0.float(), seed=seed).kind)
    assert kinds <= {"saddle", "undecided"}


@pytest.mark.study
def test_rounding_in_bfloat16_is_not_taken_for_a_gradient() -> None:
    """At a minimum, the gradient of bfloat16 is off by as much as rounding x moves it. 4 of 60 at most, δ = 0.05."""
    wrong = 0
    for seed in range(60):
        random = torch.Generator().manual_seed(seed)
        rows = torch.randn(60, 20, generator=random)
        x0 = torch.randn(20, generator=random)
        targets = rows @ x0

        def loss(x: Tensor, rows: Tensor = rows, targets: Tensor = targets) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                outputs = torch.nn.functional.linear(rows, x[None])
            return 0.5 * (outputs.float()[:, 0] - targets).square().mean()

        wrong += is_minimum(Function(loss), x0, seed=seed).kind in ("saddle", "not stationary")
    assert wrong <= 4


# --- On samples -------------------------------------------------------------------------------------------------------


def _stream(s: Tensor, spread: float, slope: float = 0.0) -> Stream:
    """f(x; z) = ½Σ(s_i + spread·z_i)x_i² + slope·wᵀx with standard normal z, w."""
    d = s.numel()

    def value_and_grad(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        mean = z.mean(0)
        curvatures, b = s + spread * mean[:d], slope * mean[d:]
        return 0.5 * (curvatures * x * x).sum() + b @ x, curvatures * x + b

    return Stream(value_and_grad, lambda m, g: (torch.randn(m, 2 * d, generator=g, dtype=DOUBLE),), gradient=True)


def _verdicts(objective: Any, d: int, seeds: int, **options: Any) -> list[Verdict]:
    return [is_minimum(objective, torch.zeros(d, dtype=DOUBLE), seed=seed, **options) for seed in range(seeds)]


@pytest.mark.slow
def test_a_stream_with_enough_samples_is_decided() -> None:
    up = torch.linspace(0.1, 1.0, 6, dtype=DOUBLE)
    down = torch.cat([torch.tensor([-0.3], dtype=DOUBLE), up])
    assert {v.kind for v in _verdicts(_stream(up, 0.5), 6, 20, samples=4000, gamma=0.2)} == {"minimum"}
    assert {v.kind for v in _verdicts(_stream(down, 0.5), 7, 20, samples=4000, gamma=0.2)} == {"saddle"}


def test_too_few_samples_are_undecided_and_say_that_more_would_help() -> None:
    up = torch.linspace(0.1, 1.0, 6, dtype=DOUBLE)
    verdicts = _verdicts(_stream(up, 2.0), 6, 20, samples=32, gamma=0.2)
    assert {v.kind for v in verdicts} == {"undecided"}
    assert all("pass samples=" in v.reason.lower() for v in verdicts)


@pytest.mark.slow
@pytest.mark.parametrize("count", [60, pytest.param(200, marks=pytest.mark.study)])
def test_the_sign_of_the_sample_is_never_taken_for_that_of_the_sum(count: int) -> None:
    """Positive definite, ten rows of which are not: many verdicts, none of them a saddle."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(400, 4, 4, generator=random, dtype=DOUBLE)
    noise = noise + noise.transpose(1, 2)
    hessians = torch.eye(4, dtype=DOUBLE) * 0.3 + noise - noise.mean(0)

    def value_and_grad(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        hx = rows.mean(0) @ x
        return 0.5 * x @ hx, hx

    verdicts = _verdicts(FiniteSum(value_and_grad, hessians, gradient=True), 4, count, samples=10)
    assert "saddle" not in {v.kind for v in verdicts}
    assert sum(v.evidence.status is Status.SAMPLE_ONLY for v in verdicts) >= count // 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "count", "most"), [(2, 100, 13), *(pytest.param(d, 300, 28, marks=pytest.mark.study) for d in (1, 2, 10))]
)
def test_gradient_noise_at_a_stationary_point_is_not_taken_for_a_gradient(d: int, count: int, most: int) -> None:
    """δ = 0.05 of all: more than `most` come with probability below 1e-3. One standard error would be 20 % off."""
    objective = _stream(torch.ones(d, dtype=DOUBLE), 0.01, slope=1.0)
    verdicts = _verdicts(objective, d, count, samples=64, gamma=0.5)
    assert sum(v.kind == "not stationary" for v in verdicts) <= most


def test_all_samples_of_a_finite_sum_leave_nothing_to_chance() -> None:
    problem = phase_retrieval(dimension=4, measurements=50)
    saddle, minimum, _ = problem.stationary_points
    for samples in (None, 50):
        assert is_minimum(problem.objective, saddle.point, samples=samples).kind == "saddle"
        assert is_minimum(problem.objective, minimum.point, samples=samples).kind == "minimum"


def test_a_verdict_is_true_only_of_a_minimum() -> None:
    f = unsaddle.Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    assert not unsaddle.is_minimum(f, torch.zeros(2))
    assert unsaddle.is_minimum(f, torch.tensor([0.0, 2.0]).sqrt())


def test_what_sampling_does_is_reported() -> None:
    rows = torch.randn(2000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    objective = FiniteSum(lambda x, t: (0.5 * (1.0 + 0.1 * t) * x[0] ** 2 + 0.3 * t * x[0]).mean(), rows)
    verdict = is_minimum(objective, torch.zeros(1, dtype=torch.float64), samples=800, eps=0.2, gamma=0.2)
    assert verdict.kind == "minimum"
    assert verdict.gradient_variance == pytest.approx(0.09, rel=0.6)
    assert verdict.hessian_deviation == pytest.approx(0.1, rel=0.6)
    everything = is_minimum(objective, torch.zeros(1, dtype=torch.float64), eps=0.2)
    assert everything.gradient_variance == everything.hessian_deviation == 0.0


def test_a_budget_too_small_is_undecided_and_says_so() -> None:
    problem = prescribed_spectrum(spectra.rank_one_negative(100, lowest=-1e-3, largest=1.0))
    verdict = is_minimum(problem.objective, problem.saddles[0].point, gamma=1e-4, max_gradients=25)
    assert verdict.kind == "undecided"
    assert verdict.cost.gradients <= 25
    assert "max_gradients" in str(verdict)


def test_a_stream_is_decided_without_a_number_of_samples() -> None:
    stream = Stream(
        lambda x, t: ((x[0] - 0.1 * t) ** 2 - x[1] ** 2).mean(), lambda size, g: (torch.randn(size, generator=g),)
    )
    assert is_minimum(stream, torch.zeros(2)).kind == "saddle"


@pytest.mark.parametrize("dimension", [3, 8, 40, 200])
@pytest.mark.parametrize("ratio", [1e-1, 1e-2, 1e-3, 1e-4])
def test_a_soft_saddle_beside_stiff_modes_is_one_whatever_gamma(dimension: int, ratio: float) -> None:
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        Q = torch.linalg.qr(torch.randn(dimension, dimension, generator=generator, dtype=DOUBLE)).Q
        spectrum = torch.linspace(0.1, 1.0, dimension, dtype=DOUBLE)
        spectrum[0] = -ratio
        H = Q @ torch.diag(spectrum) @ Q.T
        f = Function(lambda x, H=H: 0.5 * x @ H @ x + (x**4).sum() / 4)
        verdict = is_minimum(f, torch.zeros(dimension, dtype=DOUBLE), seed=seed)
        assert verdict.kind == "saddle"
        assert verdict.curvature == pytest.approx(-ratio, rel=0.05)
        assert ratio**2 / (40.0 * dimension) <= verdict.drop <= ratio**2 * dimension
        assert verdict.bound >= ratio * (1.0 - 1e-6)  # It is never wrong.


@pytest.mark.parametrize("dimension", [8, 100])
def test_the_bound_is_never_wrong_and_more_gradients_lower_it(dimension: int) -> None:
    """At a minimum, λ_min ≥ −bound always; in few dimensions the search goes to the end, and the bound is 0."""
    spectrum = torch.linspace(1e-3, 1.0, dimension, dtype=DOUBLE)
    f = Function(lambda x: (0.5 * (spectrum * x * x).sum(), spectrum * x), gradient=True)
    for gamma in (1e-1, 1e-2, 1e-3):
        verdict = is_minimum(f, torch.zeros(dimension, dtype=DOUBLE), gamma=gamma)
        assert verdict.kind == "minimum"
        assert 0.0 <= verdict.bound <= gamma
        if dimension <= 10:
            assert verdict.bound <= 1e-9


def test_where_the_gradient_is_not_small_negative_curvature_is_told_as_well() -> None:
    f = Function(lambda x: x[0] + x[0] ** 2 - 0.5 * x[1] ** 2 + x[1] ** 4)
    verdict = is_minimum(f, torch.zeros(2, dtype=DOUBLE))
    assert verdict.kind == "not stationary"
    assert verdict.curvature == pytest.approx(-1.0, rel=1e-3)
    assert verdict.direction is not None
    assert verdict.drop > 0.0
    assert "negative curvature too" in verdict.reason


@pytest.mark.parametrize(("inner", "outer"), [(torch.float32, DOUBLE), (torch.bfloat16, torch.float32)])
@pytest.mark.parametrize("lowest", [-0.5, 0.1])
def test_arithmetic_in_less_than_the_precision_of_x_misleads_no_verdict(
    inner: torch.dtype, outer: torch.dtype, lowest: float
) -> None:
    """A staircase, flat next to x, beside a smooth term in the outer precision."""
    kinds = set()
    for seed in range(5):
        generator, d = torch.Generator().manual_seed(seed), 20
        Q = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=DOUBLE)).Q
        spectrum = torch.linspace(0.1, 1.0, d, dtype=DOUBLE)
        spectrum[0] = lowest
        H = (Q @ torch.diag(spectrum) @ Q.T).to(inner)
        x0 = torch.randn(d, generator=generator, dtype=DOUBLE).to(outer)

        def value_and_grad(x: Tensor, H: Tensor = H, x0: Tensor = x0) -> tuple[float, Tensor]:
            slope, off = (H @ x.to(H.dtype) - H @ x0.to(H.dtype)).to(x.dtype), x - x0
            return float(0.5 * off @ slope + 0.5e-3 * off @ off), slope + 1e-3 * off

        kinds.add(str(is_minimum(Function(value_and_grad, gradient=True), x0, seed=seed).kind))
    if inner is torch.float32:
        assert kinds == {"saddle" if lowest < 0.0 else "minimum"}
    else:
        assert kinds <= ({"saddle", "undecided"} if lowest < 0.0 else {"minimum", "undecided"})
