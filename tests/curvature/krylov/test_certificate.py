"""Krylov: what it finds is there, what it excludes is not, at the rate and the cost that it states."""

from __future__ import annotations

import gc
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.curvature.quadratics import quadratic, random_symmetric
from unsaddle import Function
from unsaddle.curvature import Status, negative_curvature
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import KrylovCandidate, KrylovSettings, krylov
from unsaddle.problems import positive_semidefinite, prescribed_spectrum, rank_one_negative
from unsaddle.theory import extraction

DOUBLE = torch.float64
GAMMA, DELTA, STARTS = 0.2, 0.05, 2000
SETTINGS = KrylovSettings(num_steps=500, delta=DELTA, gamma=GAMMA, smallest_radius=1e-6)


def diagonal(s: Tensor) -> Function:
    return Function(lambda x: (0.0, s * x), gradient=True)


def run(s: Tensor, seed: int, settings: KrylovSettings = SETTINGS) -> tuple[KrylovCandidate, int]:
    """The candidate at 0, and how many steps it took. A random start makes a diagonal as good as any rotation of it."""
    f = diagonal(s).sample()
    candidate = krylov(
        DisplacedFunction(f, torch.zeros_like(s)), settings, torch.Generator().manual_seed(seed), keep_history=True
    )
    return candidate, f.cost.gradients - 1


# --- "Nothing" is wrong with probability δ at most --------------------------------------------------------------------

MISSES = 141
"""Of 2000 starts. At a rate of δ = 0.05 more come with probability below 1e-4."""


def test_the_number_of_misses_allowed_is_the_binomial_quantile() -> None:
    def more(k: int) -> float:
        log_comb = [math.lgamma(STARTS + 1) - math.lgamma(i + 1) - math.lgamma(STARTS - i + 1) for i in range(k + 1)]
        return 1.0 - sum(
            math.exp(c + i * math.log(DELTA) + (STARTS - i) * math.log1p(-DELTA)) for i, c in enumerate(log_comb)
        )

    assert more(MISSES) < 1e-4 <= more(MISSES - 5)


@pytest.mark.study
@pytest.mark.parametrize(
    ("lowest", "rest", "basis"),
    [
        (-GAMMA, torch.linspace(0.0, 1.0, 29), 20),
        (-GAMMA, torch.linspace(-0.09, 1.0, 29), 6),
        (-8.0 * GAMMA, torch.linspace(0.0, 1.0, 29), 5),
    ],
    ids=["at −γ", "beside a crowd above −γ/2, with restarts", "far below −γ, with restarts"],
)
def test_an_eigenvalue_below_minus_gamma_is_missed_with_probability_delta_at_most(
    lowest: float, rest: Tensor, basis: int
) -> None:
    s = torch.cat([torch.tensor([lowest]), rest]).double()
    settings = replace(SETTINGS, basis=basis)
    statuses = [run(s, seed, settings)[0].status for seed in range(STARTS)]
    assert set(statuses) <= {Status.FOUND, Status.NOTHING_FOUND}
    assert statuses.count(Status.NOTHING_FOUND) <= MISSES


@pytest.mark.slow
@pytest.mark.parametrize(("d", "basis"), [(8, 4), (12, 6)])
def test_as_many_steps_as_dimensions_are_not_everything_after_a_restart(d: int, basis: int) -> None:
    """δ = 1e-4 and 100 starts: a second miss comes with probability below 1e-4."""
    s = torch.cat([torch.tensor([-0.0105]), torch.linspace(0.0, 1.0, d - 1) ** 2]).double()
    settings = replace(SETTINGS, gamma=0.01, delta=1e-4, basis=basis)
    assert sum(run(s, seed, settings)[0].vector is None for seed in range(100)) <= 1


def test_a_basis_as_large_as_the_space_is_everything() -> None:
    for d in (1, 2, 5, 20):
        s = torch.linspace(0.5, 1.0, d, dtype=DOUBLE) if d > 1 else torch.ones(1, dtype=DOUBLE)
        candidate, steps = run(s, 0, replace(SETTINGS, delta=1e-300))
        assert candidate.status is Status.NOTHING_FOUND
        assert steps <= d


@pytest.mark.parametrize("basis", [6, 20])
def test_what_is_found_has_the_lowest_eigenvalue_within_a_tenth(basis: int) -> None:
    s = torch.cat([torch.tensor([-0.3]), torch.linspace(0.0, 1.0, 99)]).double()
    for seed in range(20):
        candidate, _ = run(s, seed, replace(SETTINGS, basis=basis))
        assert candidate.status is Status.FOUND
        v = candidate.vector
        assert v is not None
        assert float(v @ (s * v)) == pytest.approx(candidate.lowest, abs=1e-6)
        assert -0.3 - 1e-9 <= candidate.lowest <= -0.27


# --- It stops early ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [0.1, 1e-2, 1e-3])
@pytest.mark.parametrize("basis", [20, 400])
def test_nothing_is_said_sooner_than_after_kuczynski_and_wozniakowskis_count(gamma: float, basis: int) -> None:
    d = 2000
    count = extraction.lanczos_num_steps(smoothness=1.0, accuracy=gamma, dimension=d, delta=DELTA)
    for seed in range(5):
        s = positive_semidefinite(d, largest=1.0, zeros=d // 2, seed=seed)
        candidate, steps = run(s, seed, replace(SETTINGS, gamma=gamma, basis=basis))
        assert candidate.status is Status.NOTHING_FOUND
        assert steps < count


def test_squaring_delta_costs_less_than_a_second_start() -> None:
    s = positive_semidefinite(2000, largest=1.0, zeros=1000)
    once = run(s, 0, replace(SETTINGS, gamma=1e-2))[1]
    squared = run(s, 0, replace(SETTINGS, gamma=1e-2, delta=DELTA**2))[1]
    assert once < squared < 2 * once


# --- Cost and memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("central", [False, True])
def test_a_step_is_one_gradient_or_two_if_central(central: bool) -> None:
    for s in (positive_semidefinite(200, largest=1.0), rank_one_negative(200, lowest=-0.2, largest=1.0)):
        candidate, gradients = run(s, 1, replace(SETTINGS, central=central))
        assert gradients == len(candidate.history) * (2 if central else 1)
        spent = [count for count, _ in candidate.history]
        assert spent == [1 + (k + 1) * (2 if central else 1) for k in range(len(spent))]


def test_ending_at_the_last_step_is_said() -> None:
    candidate, steps = run(positive_semidefinite(200, largest=1.0), 0, replace(SETTINGS, num_steps=5))
    assert (candidate.exhausted, candidate.vector, steps) == (True, None, 5)


@pytest.mark.slow
@pytest.mark.parametrize("basis", [6, 20])
def test_memory_is_the_basis_and_five_vectors(basis: int) -> None:
    """basis + 1 vectors in one block, x, ∇f(x), the probe point, and the gradient and the spectrum of the function."""
    d = 50_000

    def large() -> list[Tensor]:
        return [t for t in gc.get_objects() if type(t) is Tensor and t.dtype == DOUBLE and t.numel() >= d]

    gc.collect()
    others = large()  # Of tests before this one.
    known = {t.untyped_storage().data_ptr() for t in others}
    s = rank_one_negative(d, lowest=-0.02, largest=1.0)
    seen: list[float] = []
    calls = 0

    def value_and_grad(x: Tensor) -> tuple[float, Tensor]:
        nonlocal calls
        calls += 1
        if calls > 2 and calls % 9 == 0:
            storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in large()}
            seen.append(sum(size for where, size in storages.items() if where not in known) / (8.0 * d))
        return 0.0, s * x

    f = Function(value_and_grad, gradient=True).sample()
    x = torch.zeros(d, dtype=DOUBLE)
    krylov(DisplacedFunction(f, x), replace(SETTINGS, gamma=0.02, basis=basis), torch.Generator().manual_seed(0))
    assert len(seen) >= 3
    assert max(seen) <= basis + 1 + 5


# --- Without γ, in float32, and where something is wrong --------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_gamma_by_default_is_a_hundredth_of_the_largest_eigenvalue_seen(scale: float) -> None:
    s = scale * torch.cat([torch.linspace(0.0, 1.0, 299), torch.tensor([3.0])]).double()
    candidate, _ = run(s, 0, replace(SETTINGS, gamma=None))
    assert candidate.status is Status.NOTHING_FOUND
    assert candidate.scale.gamma == 0.01 * candidate.scale.smoothness
    assert 0.9 * 3.0 * scale <= candidate.scale.smoothness <= 3.0 * scale * (1.0 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("power", [3, 4])
def test_in_float32_lambda_min_comes_out_within_two_percent(power: int) -> None:
    d = 500
    s = rank_one_negative(d, lowest=-0.1, largest=1.0)
    problem = prescribed_spectrum(s, power=power, dtype=torch.float32)
    for seed in range(10):
        x = 1e-3 * torch.randn(d, generator=torch.Generator().manual_seed(seed))
        exact = torch.linalg.eigvalsh(_dense(prescribed_spectrum(s, power=power), x.double()))[0]
        result = negative_curvature(problem.objective, x, extractor="krylov", seed=seed)
        assert result.status is Status.FOUND
        assert result.curvature == pytest.approx(float(exact), rel=0.1)
        assert result.lowest == pytest.approx(result.curvature, rel=0.02)


def _dense(problem: object, x: Tensor) -> Tensor:
    f = problem.objective.sample(hessian=True)  # type: ignore[attr-defined]
    return torch.stack([f.hvp(x, e) for e in torch.eye(x.numel(), dtype=x.dtype)])


def test_the_second_product_stays_near_x_where_one_eigenvalue_is_far_above_all_others() -> None:
    # As in networks: L1 = 1, while a random direction sees 1/√d of it. The third derivative is along that eigenvector.
    d = 10_000
    s = torch.linspace(-1e-4, 1e-4, d, dtype=DOUBLE)
    s[0], s[1] = 1.0, -0.05
    b = torch.randn(d, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    b /= 2.0 * b.norm()

    def gradient(x: Tensor) -> tuple[float, Tensor]:
        bent = x[0] ** 2 / 2.0 * b  # of x₀²(bᵀx)/2
        bent[0] += x[0] * (b @ x)
        return 0.0, s * x + bent

    settings = replace(SETTINGS, gamma=None, noise=1e-6, first_curvature=float(s.norm()) / math.sqrt(d))
    for seed in range(5):
        f = DisplacedFunction(Function(gradient, gradient=True).sample(), torch.zeros(d, dtype=DOUBLE))
        candidate = krylov(f, settings, torch.Generator().manual_seed(seed))
        assert candidate.status is Status.FOUND
        assert candidate.asymmetry <= candidate.scale.gamma / 2.0


def test_the_start_of_another_seed_is_another() -> None:
    s = rank_one_negative(50, lowest=-0.5, largest=1.0)
    first, again, other = (run(s, seed)[0].vector for seed in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_ends_the_run(bad: float) -> None:
    calls = 0

    def value_and_grad(x: Tensor) -> tuple[float, Tensor]:
        nonlocal calls
        calls += 1
        return 0.0, s * x * (bad if calls == 4 else 1.0)

    s = torch.linspace(0.0, 1.0, 30, dtype=DOUBLE)
    f = DisplacedFunction(Function(value_and_grad, gradient=True).sample(), torch.zeros(30, dtype=DOUBLE))
    candidate = krylov(f, SETTINGS, torch.Generator().manual_seed(0))
    assert candidate.status is Status.NOT_FINITE
    assert candidate.vector is None


def test_a_gradient_that_does_not_change_is_flat() -> None:
    candidate, steps = run(torch.zeros(30, dtype=DOUBLE), 0)
    assert (candidate.status, steps) == (Status.FLAT, 1)


def test_a_dense_hessian_and_its_eigenvalues_agree() -> None:
    for seed in range(5):
        hessian = random_symmetric(60, seed)
        f = DisplacedFunction(quadratic(hessian).sample(), torch.zeros(60, dtype=DOUBLE))
        candidate = krylov(f, replace(SETTINGS, accuracy=1e-6), torch.Generator().manual_seed(seed))
        assert candidate.lowest == pytest.approx(-1.0, abs=1e-9)
        assert candidate.asymmetry < 1e-8


FARTHER = replace(SETTINGS, gamma=None, basis=60, num_steps=60, farther=60, fine=1e-2)


@pytest.mark.parametrize("ratio", [1e-3, 2e-4])
@pytest.mark.parametrize("seed", range(5))
def test_steps_farther_than_gamma_see_softer_curvature(ratio: float, seed: int) -> None:
    s = torch.cat([torch.tensor([-ratio], dtype=torch.float64), torch.logspace(-2, 0, 59, dtype=torch.float64)])
    seen, _ = run(s, seed, FARTHER)
    assert seen.status is Status.NOTHING_FOUND
    assert seen.lowest == pytest.approx(-ratio, rel=0.1)
    assert seen.bound >= ratio
    early, steps = run(s, seed, replace(FARTHER, farther=0))
    assert steps < 40
    assert early.bound >= ratio


def test_they_end_where_soft_curvature_is_excluded() -> None:
    s = torch.linspace(0.5, 1.0, 60, dtype=torch.float64)
    seen, steps = run(s, 0, FARTHER)
    assert steps < 20
    assert seen.bound <= 1e-4
