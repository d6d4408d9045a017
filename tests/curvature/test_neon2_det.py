"""Neon2 det: a Chebyshev iteration with gradients."""

import math

import pytest
import torch

from tests.curvature.quadratics import quadratic, random_symmetric, rng
from unsaddle import Function, negative_curvature, vectors
from unsaddle.curvature import neon2_det
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon2_det import Neon2DetSettings
from unsaddle.curvature.result import Status
from unsaddle.theory import quadratics

SIGMA = 1e-3


def settings_of(**changes):
    """γ = 0.5 and L1 = 2; by default it never ends before T."""
    return Neon2DetSettings(
        **{"smoothness": 2.0, "gamma": 0.5, "num_steps": 40, "noise_radius": SIGMA, "escape_radius": math.inf} | changes
    )


def practical(d, gamma, smoothness, delta=0.05, **changes):
    scales = {"smoothness": smoothness, "gamma": gamma}
    return settings_of(
        num_steps=quadratics.neon2_det_num_steps(dimension=d, delta=delta, **scales),
        escape_radius=SIGMA * quadratics.neon2_det_escape_ratio(**scales),
        **scales | changes,
    )


def at_zero(hessian):
    return DisplacedFunction(quadratic(hessian).sample(), torch.zeros(hessian.shape[0], dtype=hessian.dtype))


def run(f_hat, settings, seed=0, **options):
    seen = []
    found = neon2_det.neon2_det(
        f_hat, settings, rng(seed), observer=lambda t, v: seen.append((t, v.clone())), **options
    )
    return seen, found


def chebyshev(t, m):
    """T_t(m), real m."""
    inside = torch.cos(t * torch.arccos(m.clamp(-1.0, 1.0)))
    beyond = torch.cosh(t * torch.arccosh(m.abs().clamp_min(1.0))) * m.sign() ** t
    return torch.where(m.abs() <= 1.0, inside, beyond)


@pytest.mark.parametrize("seed", range(5))
def test_on_a_quadratic_it_is_a_chebyshev_polynomial(seed):
    """Identity 6: v_t = T_t(M)ξ, M = (1 − 3γ/(4L1))I − H/L1, to 1e-10, wherever x is and whatever ∇f(x)."""
    d = 12
    hessian = random_symmetric(d, seed, lowest=-0.5, largest=2.0)
    generator = rng(seed + 100)
    slope, x = (torch.randn(d, generator=generator, dtype=torch.float64) for _ in range(2))
    f_hat = DisplacedFunction(quadratic(hessian, slope).sample(), x)
    seen, found = run(f_hat, settings_of(noise_radius=1.0), seed)
    xi = vectors.random_direction(x, rng(seed))
    m, q = torch.linalg.eigh((1.0 - 0.75 * 0.5 / 2.0) * torch.eye(d, dtype=torch.float64) - hessian / 2.0)
    assert [t for t, _ in seen] == list(range(1, 41))
    for t, v in seen:
        expected = q @ (chebyshev(t, m) * (q.T @ xi))
        assert (v - expected).norm() <= 1e-10 * expected.norm()
    assert (found.status, found.exhausted) == (Status.NOTHING_FOUND, True)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_above_minus_three_quarters_of_gamma_stays_bounded(seed):
    """And curvatures up to 2L1 − 3γ/4 as well: an L1 too small by nearly two is harmless."""
    bounded = random_symmetric(15, seed, lowest=-0.75 * 0.5, largest=2 * 2.0 - 0.75 * 0.5)
    seen, _ = run(at_zero(bounded), settings_of(num_steps=300), seed)
    assert max(float(v.norm()) for _, v in seen) <= SIGMA * (1 + 1e-9)


@pytest.mark.parametrize("d", [1, 2, 30])
def test_gamma_itself_grows_as_fast_as_the_number_of_steps_rests_on(d):
    """At λ = −γ, T_t(M) = cosh(tθ)."""
    hessian = torch.diag(torch.tensor([-0.5] + [1.0] * (d - 1), dtype=torch.float64))
    seen, _ = run(at_zero(hessian), settings_of())
    theta = quadratics.neon2_det_growth(smoothness=2.0, gamma=0.5)
    xi = vectors.random_direction(torch.zeros(d, dtype=torch.float64), rng()) * SIGMA
    for t, v in seen:
        assert float(v[0]) == pytest.approx(math.cosh(t * theta) * float(xi[0]), rel=1e-9)


def test_the_history_is_of_the_curvature_along_the_probes():
    """y_{t+1} = 2My_t − y_{t−1} from y_0 = 0 and y_1 = ξ, and nothing but gradients at y_t is paid for."""
    hessian = random_symmetric(9, 3, lowest=-0.5, largest=2.0)
    f_hat = at_zero(hessian)
    _, found = run(f_hat, settings_of(num_steps=20), 5, keep_history=True)
    m = (1.0 - 0.75 * 0.5 / 2.0) * torch.eye(9, dtype=torch.float64) - hessian / 2.0
    before, y = torch.zeros(9, dtype=torch.float64), vectors.random_direction(f_hat.x, rng(5))
    expected = []
    for _ in range(20):
        expected.append(float(y @ hessian @ y / (y @ y)))
        before, y = y, 2 * m @ y - before
    assert [q for _, q in found.history] == pytest.approx(expected, rel=1e-9, abs=1e-10)
    assert [gradients for gradients, _ in found.history] == list(range(2, 22))  # ∇f(x) was the first
    assert found.lowest == pytest.approx(min(expected))


@pytest.mark.parametrize("seed", range(20))
def test_what_has_grown_to_the_escape_radius_is_returned_unseen_and_negative_enough(seed):
    """Without `target`, the length alone proves a curvature of −0.617γ on quadratics."""
    hessian = random_symmetric(25, seed, lowest=-0.5, largest=2.0)
    settings = practical(25, 0.5, 2.0, delta=0.01)
    seen, found = run(at_zero(hessian), settings, seed)
    assert found.status is Status.FOUND
    assert float(found.vector.norm()) >= settings.escape_radius > float(seen[-2][1].norm())
    assert torch.equal(found.vector, seen[-1][1])
    assert float(found.vector @ hessian @ found.vector / (found.vector @ found.vector)) <= -0.617 * 0.5


@pytest.mark.parametrize("target", [None, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_success_over_many_seeds(dtype, target):
    """γ = 0.2 in 50 dimensions at δ = 0.05. Of 120 seeds, fewer than 107 would succeed with probability 0.003 if the
    rate were 0.95: Binomial(120, 0.95)."""
    hessian = random_symmetric(50, 7, lowest=-0.2, largest=1.0).to(dtype)
    settings = practical(50, 0.2, 1.0, target=target)
    found = [neon2_det.neon2_det(at_zero(hessian), settings, rng(seed)).vector for seed in range(120)]
    curvatures = [float(v @ hessian @ v / (v @ v)) for v in found if v is not None]
    assert len(curvatures) >= 107
    assert max(curvatures) <= -0.1 * (1 - 1e-5)


@pytest.mark.slow
def test_delta_is_met_where_the_start_alone_decides():
    """One direction at −γ, all others at 0: a run fails just where the start is unlucky, with probability δ = 0.2 or a
    little less, as T is rounded up. Of 400 seeds, Binomial(400, 0.2) exceeds 108 with probability 0.0003. Nor is T much
    too long: 45 failures or fewer have a probability of 2e-6 at 0.2."""
    d = 40
    hessian = torch.diag(torch.tensor([-0.1] + [0.0] * (d - 1), dtype=torch.float64))
    settings = practical(d, 0.1, 1.0, delta=0.2)
    failures = sum(neon2_det.neon2_det(at_zero(hessian), settings, rng(s)).vector is None for s in range(400))
    assert 45 < failures <= 108


def test_its_own_gradients_prove_it_with_fewer_of_them():
    """The departure: over 20 seeds, `target` saves more than a third of the gradients at γ/L1 = 0.01."""
    eigenvalues = torch.cat([torch.tensor([-0.01]), torch.linspace(0.0, 1.0, 199)]).double()
    spent = {}
    for target in (None, 0.005):
        f_hat = DisplacedFunction(
            Function(lambda x: (0.5 * (eigenvalues * x) @ x, eigenvalues * x), gradient=True).sample(),
            torch.zeros(200, dtype=torch.float64),
        )
        for seed in range(20):
            found = neon2_det.neon2_det(f_hat, practical(200, 0.01, 1.0, delta=1e-3, target=target), rng(seed))
            assert found.status is Status.FOUND
            assert float(found.vector.square() @ eigenvalues / found.vector.square().sum()) <= -0.005
        spent[target] = f_hat.f.cost.gradients
    assert spent[0.005] <= 0.65 * spent[None]


@pytest.mark.parametrize("target", [None, 0.05])
def test_nothing_is_found_without_negative_curvature_and_every_step_is_one_gradient(target):
    for seed in range(30):
        f_hat = at_zero(random_symmetric(10, seed, lowest=0.0, largest=2.0))
        settings = practical(10, 0.1, 2.0, target=target)
        found = neon2_det.neon2_det(f_hat, settings, rng(seed))
        assert (found.status, found.vector, found.exhausted) == (Status.NOTHING_FOUND, None, True)
        assert f_hat.f.cost.gradients == 1 + settings.num_steps
        assert f_hat.f.cost.values == f_hat.f.cost.hessian_products == 0
        assert found.lowest >= -1e-12


def test_half_of_gamma_is_left_alone():
    """At −γ/2 all stays bounded, so that no start is mistaken for one with −γ."""
    hessian = torch.diag(torch.tensor([-0.25, 1.0, 2.0], dtype=torch.float64))
    for seed in range(20):
        found = neon2_det.neon2_det(at_zero(hessian), practical(3, 0.5, 2.0), rng(seed))
        assert found.status is Status.NOTHING_FOUND


def test_the_proof_counts_the_hessian_lipschitz_constant():
    """With L2 as given the quotient at y_t is no proof; without, it is."""
    hessian = random_symmetric(10, 1, lowest=-0.5, largest=1.0)
    for L2, status in ((0.0, Status.FOUND), (1e6, Status.NOTHING_FOUND)):
        settings = settings_of(smoothness=1.0, target=0.25, hessian_lipschitz=L2)
        assert run(at_zero(hessian), settings)[1].status is status


def test_a_curvature_beyond_twice_the_smoothness_is_named():
    """M has an eigenvalue below −1, and what grows is not negative curvature."""
    hessian = torch.diag(torch.tensor([1.0, 5.0], dtype=torch.float64))
    for target in (None, 0.25):
        found = neon2_det.neon2_det(at_zero(hessian), practical(2, 0.5, 2.0, target=target), rng())
        assert (found.status, found.vector) == (Status.SMOOTHNESS_EXCEEDED, None)


def test_a_probe_that_vanishes_is_no_obstacle():
    """In one dimension M may be zero, and with it y_2; y_3 = −ξ is not."""
    L1, gamma = 1.0, 0.5
    hessian = torch.tensor([[L1 - 0.75 * gamma]], dtype=torch.float64)
    found = neon2_det.neon2_det(at_zero(hessian), settings_of(smoothness=L1, num_steps=9), rng(), keep_history=True)
    assert found.status is Status.NOTHING_FOUND
    assert len(found.history) == 9
    assert found.lowest == pytest.approx(L1 - 0.75 * gamma)


def test_what_is_not_finite_is_named():
    hole = Function(lambda x: torch.where(x.norm() > 0, x.sum() * math.nan, x.sum()))
    f_hat = DisplacedFunction(hole.sample(), torch.zeros(3, dtype=torch.float64))
    assert neon2_det.neon2_det(f_hat, settings_of(), rng()).status is Status.NOT_FINITE


def test_blocks_change_nothing(monkeypatch):
    f_hat = at_zero(random_symmetric(50, 5, lowest=-0.5, largest=2.0))
    whole, _ = run(f_hat, settings_of())
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 7 * 8)
    in_blocks, _ = run(f_hat, settings_of())
    for (_, a), (_, b) in zip(whole, in_blocks, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12 * SIGMA)


def test_the_point_is_not_changed_and_the_seed_decides():
    x = torch.linspace(-1.0, 1.0, 10, dtype=torch.float64)
    f_hat = DisplacedFunction(quadratic(random_symmetric(10, 1, lowest=-0.5, largest=2.0)).sample(), x)
    a, b = (neon2_det.neon2_det(f_hat, practical(10, 0.5, 2.0), rng(3)).vector for _ in range(2))
    assert torch.equal(a, b)
    assert torch.equal(x, torch.linspace(-1.0, 1.0, 10, dtype=torch.float64))


@pytest.mark.parametrize("settings", ["practical", "theory"])
def test_as_negative_curvature_calls_it(settings):
    problem = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4 + 0.5 * x[2] ** 2)
    x = torch.zeros(3, dtype=torch.float64)
    constants = {"gamma": 1.5, "smoothness": 2.0, "hessian_lipschitz": 1.0}
    result = negative_curvature(problem, x, extractor="neon2-det", settings=settings, **constants)
    assert result.status is Status.FOUND
    assert result.curvature <= -0.75
    short = negative_curvature(problem, x, extractor="neon2-det", settings=settings, max_gradients=6, **constants)
    assert short.cost.gradients <= 6
