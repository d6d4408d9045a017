"""How often an extractor finds what is there, and that it never finds what is not: 200 seeds a claim.

δ = 0.05, so at least 95 % of the runs must succeed. `ENOUGH` successes of 200 are asked for: if the true rate is 0.95
or more, fewer come with probability below 1e-4, and a rate of 0.75 passes with probability below 1e-3.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.curvature.quadratics import rotated
from unsaddle import FiniteSum, Function, Stream
from unsaddle.curvature import Status, negative_curvature
from unsaddle.objective import Oracle
from unsaddle.problems import near_ties, positive_semidefinite, rank_one_negative

pytestmark = pytest.mark.study

SEEDS, DELTA, GAMMA, DIMENSION = 200, 0.05, 0.1, 40
METHODS = ("neon", "neon+", "power", "lanczos")
FLOATS = (torch.float64, torch.float32)


def _below(k: int, rate: float) -> float:
    """P(fewer than k of 200 succeed) at the given rate of success."""
    return sum(math.comb(SEEDS, i) * rate**i * (1.0 - rate) ** (SEEDS - i) for i in range(k))


ENOUGH = max(k for k in range(SEEDS) if _below(k, 1.0 - DELTA) < 1e-4)


def test_the_threshold_tells_a_good_rate_from_a_bad_one() -> None:
    assert ENOUGH == 177
    assert _below(ENOUGH, 0.95) < 1e-4 <= _below(ENOUGH + 1, 0.95)
    assert 1.0 - _below(ENOUGH, 0.75) < 1e-3


def _function(hessian: Tensor, x0: Tensor, cubic: float) -> Function:
    """½zᵀHz + (L2/6)Σ|z_i|³ with z = x − x0: stationary at x0, with Hessian H there and L2 everywhere."""

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - x0
        hz = hessian @ z
        return 0.5 * torch.dot(z, hz) + cubic / 6.0 * (z.abs() ** 3).sum(), hz.add_(z * z.abs(), alpha=cubic / 2.0)

    def hvp(x: Tensor, v: Tensor) -> Tensor:
        return (hessian @ v).add_((x - x0).abs() * v, alpha=cubic)

    return Function(value_and_grad, gradient=True, hvp=hvp)


def _point(dtype: torch.dtype) -> Tensor:
    """Not zero, where every float is exact, but of norm one."""
    x = torch.randn(DIMENSION, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return (x / x.norm()).to(dtype)


SADDLES = {
    "rank-one negative part at −γ": rank_one_negative(DIMENSION, lowest=-GAMMA, largest=1.0),
    "rank-one negative part at −1.1γ": rank_one_negative(DIMENSION, lowest=-1.1 * GAMMA, largest=1.0),
    "near-ties": near_ties(DIMENSION, lowest=-GAMMA, largest=1.0, ties=5, gap=GAMMA / 20.0),
    "all others at the top": torch.cat([torch.tensor([-GAMMA]), torch.ones(DIMENSION - 1)]).double(),
}
# The adversary of constants/practice.py: everything else just above the −γ/2 that has to be beaten.
CROWD = torch.cat([torch.tensor([-GAMMA]), torch.full((DIMENSION - 2,), -0.45 * GAMMA), torch.ones(1)]).double()
MINIMA = {
    "positive semi-definite with zeros": positive_semidefinite(DIMENSION, largest=1.0, zeros=5),
    "positive definite": positive_semidefinite(DIMENSION, largest=1.0, zeros=0),
}


def _successes(method: str, spectrum: Tensor, dtype: torch.dtype, hessian_lipschitz: float = 0.5) -> int:
    hessian, x = rotated(spectrum, seed=7), _point(dtype)
    f = _function(hessian.to(dtype), x, hessian_lipschitz)
    good = 0
    for seed in range(SEEDS):
        result = negative_curvature(
            f,
            x,
            gamma=GAMMA,
            extractor=method,
            delta=DELTA,
            smoothness=1.1,
            hessian_lipschitz=hessian_lipschitz,
            seed=seed,
        )
        if result.direction is not None:
            v = result.direction.double()
            truth = float(v @ hessian @ v / (v @ v))
            assert truth < 0.0
            good += truth <= -GAMMA / 2.0
    return good


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize("spectrum", SADDLES.values(), ids=SADDLES)
@pytest.mark.parametrize("method", METHODS)
def test_curvature_below_minus_gamma_is_found_as_often_as_promised(
    method: str, spectrum: Tensor, dtype: torch.dtype
) -> None:
    assert _successes(method, spectrum, dtype) >= ENOUGH


def test_oja_finds_it_as_often_as_promised() -> None:
    assert _successes("oja", SADDLES["rank-one negative part at −γ"], torch.float64) >= ENOUGH


@pytest.mark.parametrize("spectrum", SADDLES.values(), ids=SADDLES)
def test_krylov_finds_it_as_often_as_promised(spectrum: Tensor) -> None:
    assert _successes("krylov", spectrum, torch.float64) >= ENOUGH


@pytest.mark.parametrize("method", ["krylov", *METHODS])
def test_a_crowd_just_above_half_gamma_does_not_hide_it(method: str) -> None:
    assert _successes(method, CROWD, torch.float64) >= ENOUGH


@pytest.mark.parametrize("dtype", FLOATS, ids=("float64", "float32"))
@pytest.mark.parametrize("spectrum", MINIMA.values(), ids=MINIMA)
@pytest.mark.parametrize("method", ["krylov", *METHODS])
def test_where_no_curvature_is_negative_nothing_is_found_200_times_of_200(
    method: str, spectrum: Tensor, dtype: torch.dtype
) -> None:
    x = _point(dtype)
    f = _function(rotated(spectrum, seed=7).to(dtype), x, 0.5)
    for seed in range(SEEDS):
        result = negative_curvature(f, x, gamma=0.2, extractor=method, smoothness=1.0, hessian_lipschitz=0.5, seed=seed)
        assert result.status is Status.NOTHING_FOUND


@pytest.mark.parametrize("method", ["neon", "neon+"])
def test_nothing_is_found_at_the_limit_of_float32(method: str) -> None:
    """L2 such that U/5 is just above r_min: one more digit lost, and the answer is that precision is too low."""
    x = _point(torch.float32)
    hessian = rotated(MINIMA["positive semi-definite with zeros"], seed=7).float()
    # r_min = √2·ε·L1‖x‖/(0.1γ) = 8.4e-6 at γ = 0.2, and U/5 = γ/(10·L2).
    statuses = {
        scale: {
            negative_curvature(
                _function(hessian, x, scale),
                x,
                gamma=0.2,
                extractor=method,
                smoothness=1.0,
                hessian_lipschitz=scale,
                seed=seed,
            ).status
            for seed in range(SEEDS if scale < 2000.0 else 3)
        }
        for scale in (1600.0, 3200.0)
    }
    assert statuses == {1600.0: {Status.NOTHING_FOUND}, 3200.0: {Status.PRECISION_TOO_LOW}}


# --- On samples: Lemma 2 --------------------------------------------------------------------------------------------


def _noisy_quadratics(spectrum: Tensor, noise: float, n: int = 400) -> tuple[FiniteSum, Tensor]:
    """f_i = ½xᵀ(H + N_i)x with symmetric N_i that come in pairs ±N, so that F has exactly H."""
    d = spectrum.numel()
    random = torch.Generator().manual_seed(0)
    half = torch.randn(n // 2, d, d, generator=random, dtype=torch.float64) * (noise / d**0.5)
    half = (half + half.transpose(1, 2)) / 2.0
    hessian = rotated(spectrum, seed=7)
    return FiniteSum.from_oracle(_MeanQuadratic, hessian + torch.cat([half, -half])), hessian


class _MeanQuadratic(Oracle):
    """½xᵀH̄x, with H̄ averaged once for a sample."""

    def __init__(self, hessians: Tensor) -> None:
        self._mean = hessians.mean(0)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hx = self._mean @ x
        return 0.5 * torch.dot(x, hx), hx

    def hvp(self, x: Tensor, v: Tensor) -> Tensor:
        return self._mean @ v


@pytest.mark.parametrize("method", METHODS)
def test_curvature_that_only_the_sample_has_is_never_called_found(method: str) -> None:
    """F is positive definite; four components are not; fresh batches must be off by 0.3 to agree with those."""
    objective, _ = _noisy_quadratics(torch.linspace(0.3, 1.0, 20, dtype=torch.float64), noise=1.5)
    statuses = [
        negative_curvature(
            objective,
            torch.zeros(20, dtype=torch.float64),
            gamma=0.2,
            extractor=method,
            samples=4,
            smoothness=3.0,
            hessian_lipschitz=0.0,
            seed=seed,
        ).status
        for seed in range(SEEDS)
    ]
    assert set(statuses) <= {Status.SAMPLE_ONLY, Status.NOTHING_FOUND}
    assert statuses.count(Status.SAMPLE_ONLY) >= 100


def _successes_on(objective: FiniteSum | Stream, hessian: Tensor, method: str, samples: int) -> int:
    good = 0
    for seed in range(SEEDS):
        result = negative_curvature(
            objective,
            torch.zeros(20, dtype=torch.float64),
            gamma=0.2,
            extractor=method,
            samples=samples,
            smoothness=1.2,
            hessian_lipschitz=0.0,
            seed=seed,
        )
        if result.direction is not None:
            truth = float(result.direction @ hessian @ result.direction)
            assert truth < 0.0
            good += truth <= -0.05  # −γ/2 on F_S, less what F_S may be off
    return good


@pytest.mark.parametrize("method", METHODS)
def test_what_is_found_on_samples_is_curvature_of_the_sum(method: str) -> None:
    """λ_min(∇²F) = −0.3 and ‖∇²F_S − ∇²F‖ is about 0.06 at 100 samples, so γ = 0.2 is met on every sample."""
    spectrum = torch.cat([torch.tensor([-0.3]), torch.linspace(0.0, 1.0, 19)]).double()
    objective, hessian = _noisy_quadratics(spectrum, noise=0.4)
    assert _successes_on(objective, hessian, method, samples=100) >= ENOUGH


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_is_searched_on_one_sample_and_confirmed_on_others(method: str) -> None:
    """f(x; z) = ½Σ(s_i + 0.3z_i)x_i² with z ~ N(0, I)."""
    s = torch.cat([torch.tensor([-0.3]), torch.linspace(0.0, 1.0, 19)]).double()

    def value_and_grad(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        curvatures = s + 0.3 * z.mean(0)
        return 0.5 * (curvatures * x * x).sum(), curvatures * x

    stream = Stream(
        value_and_grad,
        lambda size, random: (torch.randn(size, 20, generator=random, dtype=torch.float64),),
        gradient=True,
        hvp=lambda x, v, z: value_and_grad(v, z)[1],
    )
    assert _successes_on(stream, torch.diag(s), method, samples=200) >= ENOUGH
