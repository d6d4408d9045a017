"""NEON⁺ and NCFind: Algorithms 2 and 3 against what the paper proves of them."""

import itertools
import math

import pytest
import torch

from tests.curvature.quadratics import quadratic, random_symmetric
from unsaddle import Function, vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon import NeonSettings, neon
from unsaddle.curvature.neon_plus import NeonPlusSettings, neon_plus, theory_settings
from unsaddle.curvature.result import Status
from unsaddle.problems import prescribed_spectrum, rank_one_negative

NEVER = 1e9  # γ at which NCFind is never called: no curvature is below −1e9.


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def plus(**changes):
    return NeonPlusSettings(
        **{
            "step_size": 0.3,
            "num_steps": 40,
            "noise_radius": 1.0,
            "target": float("inf"),
            "momentum": 0.8,
            "gamma": NEVER,
        }
        | changes
    )


def run(f_hat, settings, seed=0):
    seen = []
    found = neon_plus(f_hat, settings, rng(seed), observer=lambda _, y: seen.append(y.clone()))
    return seen, found


def at_zero(hessian):
    return DisplacedFunction(quadratic(hessian).sample(), torch.zeros(hessian.shape[0], dtype=torch.float64))


@pytest.mark.parametrize("seed", range(5))
def test_on_a_quadratic_it_is_the_block_recursion_of_the_paper(seed):
    """Identity 2: (u_{τ+1}, u_τ) = A(u_τ, u_{τ−1}) from u_1 = (1+ζ)(I−ηH)u_0 − ζu_0, and y_{τ+1} = (I−ηH)u_τ."""
    d, eta, zeta = 15, 0.3, 0.8
    hessian = random_symmetric(d, seed)
    generator = rng(seed + 50)
    slope, x = (torch.randn(d, generator=generator, dtype=torch.float64) for _ in range(2))
    f_hat = DisplacedFunction(quadratic(hessian, slope).sample(), x)
    ys, _ = run(f_hat, plus(), seed)
    identity = torch.eye(d, dtype=torch.float64)
    step = identity - eta * hessian
    block = torch.cat(
        [torch.cat([(1 + zeta) * step, -zeta * step], 1), torch.cat([identity, torch.zeros_like(identity)], 1)]
    )
    u0 = ys[0]
    u1 = (1 + zeta) * step @ u0 - zeta * u0
    assert (ys[1] - step @ u0).norm() <= 1e-12 * u0.norm()
    state = torch.cat([u1, u0])
    for y in ys[2:]:
        expected = step @ state[:d]
        assert (y - expected).norm() <= 1e-12 * expected.norm()
        state = block @ state


def test_the_printed_block_recursion_from_a_doubled_start_is_another_sequence():
    """E27: u_{−1} = u_0 holds for the y-sequence only; A applied to (u_0, u_0) gives another u_1."""
    hessian = random_symmetric(6, 0)
    ys, _ = run(at_zero(hessian), plus())
    step = torch.eye(6, dtype=torch.float64) - 0.3 * hessian
    doubled = (1.8 * step - 0.8 * step) @ ys[0]  # u_1 by A(u_0, u_0)
    assert (ys[2] - step @ doubled).norm() > 1e-2 * ys[2].norm()


@pytest.mark.parametrize("gamma", [0.5, 0.1, 0.01])
def test_eigenvalues_of_the_block_matrix(gamma):
    """Identity 3: the top one at λ = −γ is at least 1 + √(ηγ)/2; at λ = 0 it is 1; in (0, L1] all are below 1 (E28)."""
    eta = 0.4
    zeta = 1.0 - math.sqrt(eta * gamma)

    def modulus(eigenvalue):
        a = 1.0 - eta * eigenvalue
        block = torch.tensor([[(1 + zeta) * a, -zeta * a], [1.0, 0.0]], dtype=torch.float64)
        return float(torch.linalg.eigvals(block).abs().max())

    assert modulus(-gamma) >= 1.0 + math.sqrt(eta * gamma) / 2.0
    assert modulus(0.0) == pytest.approx(1.0, abs=1e-12)
    assert all(modulus(eigenvalue) < 1.0 for eigenvalue in (1e-3, 0.1, 0.5, 1.0, 2.0))


def test_growth_rates_that_the_practical_number_of_steps_rests_on():
    """1 + 0.618√(ηγ) at −γ and 1 + 0.366√(ηγ) at −γ/2, to first order."""
    root = 1e-4
    zeta = 1.0 - root

    def growth(x):  # of ηλ = x
        b = (1 + zeta) * (1 - x)
        return (0.5 * (b + math.sqrt(b * b - 4 * zeta * (1 - x))) - 1.0) / root

    assert growth(-(root**2)) == pytest.approx((math.sqrt(5) - 1) / 2, abs=1e-3)
    assert growth(-(root**2) / 2) == pytest.approx((math.sqrt(3) - 1) / 2, abs=1e-3)


def test_energy_never_increases_until_ncfind_is_called():
    """Identity 4: f̂(y_τ) + ‖y_τ − y_{τ−1}‖²/(2η) is non-increasing while the test of line 4 is false."""
    problem = prescribed_spectrum(rank_one_negative(20, lowest=-0.2, largest=1.0), power=4, scale=0.5)
    f = problem.objective.sample()
    f_hat = DisplacedFunction(f, torch.zeros(20, dtype=torch.float64))
    eta, gamma = 0.25, 0.2
    settings = plus(step_size=eta, gamma=gamma, momentum=1.0 - math.sqrt(eta * gamma), num_steps=60, noise_radius=0.1)
    ys, _ = run(f_hat, settings)
    energy = [float(f.value(ys[0]))]
    energy += [float(f.value(b) + (b - a).square().sum() / (2 * eta)) for a, b in itertools.pairwise(ys)]
    assert len(ys) > 10
    assert all(b <= a + 1e-15 for a, b in itertools.pairwise(energy))


def test_gradients_at_y_are_known_without_being_taken():
    """On a quadratic the interpolated quotient at y_τ, kept in the history, is yᵀHy/‖y‖² exactly."""
    hessian = random_symmetric(12, 4)
    f_hat = at_zero(hessian)
    seen = []
    found = neon_plus(f_hat, plus(), rng(), keep_history=True, observer=lambda _, y: seen.append(y.clone()))
    exact = [float(y @ hessian @ y / (y @ y)) for y in seen]
    assert [q for _, q in found.history] == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_the_free_test_of_line_4_is_the_printed_one_on_quadratics():
    """With 𝓕 set, line 4 is evaluated with values as printed; both call NCFind at the same step."""
    for seed in range(10):
        hessian = random_symmetric(8, seed, lowest=-1.0, largest=1.0)
        settings = plus(gamma=0.4, momentum=1 - math.sqrt(0.3 * 0.4), num_steps=200)
        free, _ = run(at_zero(hessian), settings, seed)
        printed, _ = run(at_zero(hessian), plus(**{**vars(settings), "decrease": 1e300}), seed)
        assert len(free) == len(printed) < 200


@pytest.mark.parametrize("seed", range(10))
def test_ncfind_returns_the_last_difference_if_no_momentum_was_large(seed):
    """Identity 5: rq(y − u) ≤ −γ + L2(‖u‖ + ‖y‖); on a quadratic ≤ −γ."""
    hessian = random_symmetric(8, seed, lowest=-1.0, largest=1.0)
    settings = plus(gamma=0.4, momentum=1 - math.sqrt(0.3 * 0.4), num_steps=200, decrease=1e300)
    ys, found = run(at_zero(hessian), settings, seed)
    assert found.status is Status.FOUND
    difference = ys[-1] - ys[-2]
    cosine = found.vector @ difference / (found.vector.norm() * difference.norm())
    assert float(cosine.abs()) == pytest.approx(1.0, abs=1e-9)
    assert float(found.vector @ hessian @ found.vector / (found.vector @ found.vector)) <= -0.4


def test_ncfind_returns_the_first_iterate_whose_momentum_was_large():
    """Algorithm 3 with E7: there exists j; the printed min over j is zero at j = 0 and never reaches the threshold.

    With the r of Theorem 2, the first such y_j also passes f̂ ≤ −2𝓕 and is returned by that; the noise here is larger.
    """
    eta, gamma, decrease = 0.3, 0.05, 1e-3
    settings = plus(gamma=gamma, momentum=1 - math.sqrt(eta * gamma), num_steps=400, decrease=decrease)
    f_hat = at_zero(torch.diag(torch.tensor([-1.0, *[0.3] * 40], dtype=torch.float64)))
    by_ncfind = 0
    for seed in range(60):
        ys, found = run(f_hat, settings, seed)
        normal_exit = torch.allclose(found.vector, ys[-1])
        far = [b for a, b in itertools.pairwise(ys) if float((b - a).norm()) >= math.sqrt(6 * eta * decrease)]
        if not normal_exit:
            assert torch.allclose(found.vector, far[0], rtol=1e-9)
            by_ncfind += 1
    assert by_ncfind >= 5


@pytest.mark.parametrize("seed", range(30))
def test_theorem_2_at_a_larger_step(seed):
    """All constants of Theorem 2 but η, which is raised from 4e-16 to 0.02 so that the run ends."""
    d, gamma = 10, 0.5
    hessian = random_symmetric(d, seed, lowest=-gamma, largest=1.0)
    f = Function(lambda x: 0.5 * x @ hessian @ x + (x.abs() ** 3).sum() / 6.0).sample()
    settings = theory_settings(
        gamma=gamma, delta=0.1, dimension=d, smoothness=1.0, hessian_lipschitz=1.0, step_size=0.02
    )
    found = neon_plus(DisplacedFunction(f, torch.zeros(d, dtype=torch.float64)), settings, rng(seed))
    assert found.status is Status.FOUND
    assert float(found.vector @ hessian @ found.vector / found.vector.square().sum()) <= -settings.target


def test_theory_takes_one_value_a_step_but_the_first_and_practice_none():
    hessian = torch.eye(5, dtype=torch.float64)
    for decrease, values in ((None, 0), (1e300, 24)):
        f = quadratic(hessian).sample()
        f_hat = DisplacedFunction(f, torch.zeros(5, dtype=torch.float64))
        neon_plus(f_hat, plus(num_steps=25, decrease=decrease), rng())
        assert (f.cost.gradients, f.cost.values) == (26, values)


@pytest.mark.parametrize("seed", range(10))
def test_it_needs_fewer_gradients_than_neon_on_a_known_spectrum(seed):
    gamma, L1 = 1e-2, 1.0
    problem = prescribed_spectrum(rank_one_negative(200, lowest=-gamma, largest=L1), power=3, scale=1e-3)
    counts = []
    for extractor, settings in (
        (neon, NeonSettings(step_size=0.5, num_steps=5000, noise_radius=1e-3, target=gamma / 2)),
        (
            neon_plus,
            NeonPlusSettings(
                step_size=0.5,
                num_steps=5000,
                noise_radius=1e-3,
                target=gamma / 2,
                momentum=1 - math.sqrt(0.5 * gamma),
                gamma=gamma,
            ),
        ),
    ):
        f = problem.objective.sample()
        found = extractor(DisplacedFunction(f, torch.zeros(200, dtype=torch.float64)), settings, rng(seed))
        assert found.status is Status.FOUND
        counts.append(f.cost.gradients)
    assert counts[1] <= 0.6 * counts[0]


def test_blocks_change_nothing(monkeypatch):
    f_hat = at_zero(random_symmetric(50, 5))
    settings = plus(noise_radius=1e-2, target=0.9, num_steps=200)
    whole = neon_plus(f_hat, settings, rng()).vector
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 7 * 8)
    assert torch.allclose(neon_plus(f_hat, settings, rng()).vector, whole, rtol=1e-10)
