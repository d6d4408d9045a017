"""NEON⁺ (Algorithm 2) against what the paper proves of it, and its test by lengths against dense Hessians."""

import itertools
import math

import pytest
import torch
from torch.utils.data import TensorDataset

from tests.curvature.accelerated import at_zero, plus, rng, run
from tests.curvature.quadratics import quadratic, random_symmetric
from unsaddle import Function, ModelObjective, vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon import NeonSettings, neon
from unsaddle.curvature.neon_plus import NeonPlusSettings, neon_plus, theory_settings
from unsaddle.curvature.result import Status
from unsaddle.problems import prescribed_spectrum, rank_one_negative


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


def curvature(hessian, v):
    return float(v @ hessian @ v / (v @ v))


@pytest.mark.parametrize("seed", range(20))
def test_the_lengths_of_two_vectors_bound_the_curvature_of_both(seed):
    """Moments are log-convex: that of y_{τ+1} ≤ (1 − ‖y_{τ+1}‖/‖u_τ‖)/η ≤ that of u_τ, while I − ηH ⪰ 0."""
    eta, zeta = 0.3, 0.8
    hessian = random_symmetric(12, seed, lowest=[-1.0, -0.1, 0.0, 0.5][seed % 4], largest=1.0 / eta)
    ys, _ = run(at_zero(hessian), plus(step_size=eta, momentum=zeta), seed)
    found = neon_plus(at_zero(hessian), plus(step_size=eta, momentum=zeta), rng(seed), keep_history=True)
    us = [ys[0], *(b + zeta * (b - a) for a, b in itertools.pairwise(ys))]
    for u, y, (_, quotient) in zip(us, ys[1:], found.history, strict=False):
        assert quotient == pytest.approx((1.0 - float(y.norm() / u.norm())) / eta, rel=1e-9, abs=1e-12)
        assert curvature(hessian, y) - 1e-12 <= quotient <= curvature(hessian, u) + 1e-12


@pytest.mark.parametrize("target", [0.05, 0.3, 0.7])
def test_what_passes_has_the_curvature_that_was_asked_for(target):
    for seed in range(50):
        hessian = random_symmetric(12, seed, lowest=-0.8, largest=3.0)
        found = neon_plus(at_zero(hessian), plus(target=target, num_steps=300), rng(seed))
        assert found.status is Status.FOUND
        assert curvature(hessian, found.vector) <= -target + 1e-12


def test_a_hessian_that_changes_is_allowed_for():
    """f̂ = −½‖u‖²·0.5 + (L2/6)‖u‖³ at a length where the gradient at u alone does not prove −0.3."""
    L2 = 1.0
    hardening = Function(lambda x: -0.25 * x @ x + L2 / 6.0 * (x @ x) ** 1.5)
    f_hat = DisplacedFunction(hardening.sample(), torch.zeros(5, dtype=torch.float64))
    for radius, status in ((1e-2, Status.FOUND), (0.5, Status.NOTHING_FOUND)):
        settings = plus(target=0.3, noise_radius=radius, hessian_lipschitz=L2, num_steps=2)
        assert neon_plus(f_hat, settings, rng()).status is status


@pytest.mark.slow
def test_a_step_that_is_short_enough_is_never_called_too_long():
    """I − ηH ⪰ 0 with eigenvalues anywhere below 1/η, far below zero as well, and momentum from little to much."""
    for seed in range(200):
        eta = 0.3
        lowest, zeta = [-5.0, -1.0, -1e-3, 0.0, 0.5][seed % 5], [0.2, 0.5, 0.9, 0.999][seed % 4]
        hessian = random_symmetric([1, 2, 10, 40][seed % 4], seed, lowest, largest=1.0 / eta)
        settings = plus(step_size=eta, momentum=zeta, num_steps=100, trust_radius=math.inf)
        assert neon_plus(at_zero(hessian), settings, rng(seed)).status is Status.NOTHING_FOUND


@pytest.mark.parametrize("zeta", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("excess", [1.05, 2.0, 10.0, 1e6])
def test_a_step_that_diverges_is_called_too_long(zeta, excess):
    """λ = excess·(2 + 2ζ)/((1 + 2ζ)η), the largest of ten, none of which is negative."""
    eta = 0.3
    too_large = excess * (2 + 2 * zeta) / ((1 + 2 * zeta) * eta)
    hessian = torch.diag(torch.tensor([*torch.linspace(0.0, 1.0, 9).tolist(), too_large], dtype=torch.float64))
    for seed in range(10):
        settings = plus(step_size=eta, momentum=zeta, num_steps=200, target=math.inf)
        ys, found = run(at_zero(hessian), settings, seed)
        assert found.status is Status.SMOOTHNESS_EXCEEDED
        assert float(ys[-1].norm()) < 1e3


@pytest.mark.parametrize(
    "spectrum",
    [[7.1, *[0.0] * 400, *[1.09] * 500], [5.0, *[0.0] * 300, *[1.08] * 300], [-1.0, 0.25, 0.5, 1.0, 2.0, 4.0]],
    ids=["hidden", "hidden as well", "mixed"],
)
def test_growth_by_a_step_that_is_too_long_is_not_taken_for_negative_curvature(spectrum):
    """A bulk that turns just after the start hides the direction that overshoots, for a step; η is 0.5, and 2.5."""
    hessian = torch.tensor(spectrum, dtype=torch.float64)
    f = Function(lambda x: (0.5 * (hessian * x) @ x, hessian * x), gradient=True).sample()
    eta, gamma = (2.5, 0.1) if len(spectrum) < 10 else (0.5, 0.01)
    settings = plus(step_size=eta, momentum=1 - math.sqrt(eta * gamma), num_steps=300, target=gamma / 2)
    f_hat = DisplacedFunction(f, torch.zeros(len(spectrum), dtype=torch.float64))
    runs = [neon_plus(f_hat, settings, rng(seed)) for seed in range(40)]
    assert {found.status for found in runs} - {Status.FOUND} == {Status.SMOOTHNESS_EXCEEDED}
    for found in (found for found in runs if found.status is Status.FOUND):
        assert min(spectrum) < 0.0  # Of the last one only: the others are bowls.
        assert float(hessian @ found.vector**2 / found.vector.square().sum()) <= -gamma / 2


def test_rounding_is_not_taken_for_a_step_that_is_too_long():
    """I − ηH = 0: all that is left of u after a step is rounding, of either sign."""
    for seed in range(20):
        settings = plus(step_size=0.3, momentum=0.99, num_steps=3)
        hessian = torch.eye(7, dtype=torch.float64) / 0.3
        assert neon_plus(at_zero(hessian), settings, rng(seed)).status is Status.NOTHING_FOUND


def test_iterates_below_the_resolution_are_not_looked_at():
    hessian = random_symmetric(6, 0, lowest=-1.0)
    found = neon_plus(at_zero(hessian), plus(target=0.1, noise_radius=1e-3, num_steps=5, resolution=1.0), rng())
    assert (found.status, found.lowest, found.exhausted) == (Status.NOTHING_FOUND, math.inf, True)
    assert neon_plus(at_zero(hessian), plus(target=0.1, noise_radius=1e-3), rng()).status is Status.FOUND


def test_iterates_beyond_the_trust_radius_end_the_run():
    hessian = random_symmetric(6, 0, lowest=-1.0)
    ys, found = run(at_zero(hessian), plus(noise_radius=1.0, trust_radius=3.0, num_steps=300))
    assert (found.status, found.exhausted) == (Status.NOTHING_FOUND, False)
    assert 1.5 < max(float(y.norm()) for y in ys) <= 3.0
    assert found.lowest < 0.0


@pytest.mark.parametrize("renormalise", [False, True])
def test_numbers_too_small_for_the_precision_are_named(renormalise):
    """In units of −η the noise is of 1e-23, whose squares are zero in float32."""
    hessian = 1e-20 * random_symmetric(6, 0, lowest=-1.0).float()
    f = Function(lambda x: (0.5 * x @ hessian @ x, hessian @ x), gradient=True).sample()
    settings = plus(step_size=5e19, noise_radius=1e-3, target=1e-21, renormalise=renormalise)
    assert neon_plus(DisplacedFunction(f, torch.zeros(6)), settings, rng()).status is Status.PRECISION_TOO_LOW


class Bilinear(torch.nn.Module):
    """½xᵀHx + bᵀx of two parameters side by side."""

    def __init__(self, hessian, slope, x):
        super().__init__()
        self.first, self.second = (torch.nn.Parameter(part.clone()) for part in x.split([4, len(x) - 4]))
        self.register_buffer("hessian", hessian)
        self.register_buffer("slope", slope)

    def forward(self, weight):
        x = torch.cat([self.first, self.second])
        return weight.mean() * (0.5 * x @ self.hessian @ x + self.slope @ x)


@pytest.mark.parametrize("renormalise", [False, True])
def test_gradients_that_add_up_in_place_make_the_same_iterates(renormalise):
    """A model's, in two micro batches, against a function's that come in vectors of their own."""
    generator = rng(3)
    slope, x = (torch.randn(10, generator=generator, dtype=torch.float64) for _ in range(2))
    hessian = random_symmetric(10, 3)
    weights = TensorDataset(torch.tensor([0.5, 1.5, 1.2, 0.8], dtype=torch.float64))
    model = ModelObjective(Bilinear(hessian, slope, x), lambda m, batch: m(batch[0]), weights, micro_batch=2)
    settings = plus(noise_radius=1e-3, renormalise=renormalise)
    by_model, a = run(DisplacedFunction(model.sample(), model.point), settings)
    by_function, b = run(DisplacedFunction(quadratic(hessian, slope).sample(), x), settings)
    assert len(by_model) == len(by_function) == 40
    for y, z in zip(by_model, by_function, strict=True):
        assert (y - z).norm() <= 1e-9 * z.norm()
    assert a.lowest == pytest.approx(b.lowest, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.study) for seed in range(4, 30))])
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


@pytest.mark.parametrize("curvature", [0.0, 0.5])
def test_nothing_is_known_once_the_steps_are_shorter_than_gamma_would_make_them(curvature):
    """f = c‖x‖²/2 shrinks all alike, so that lengths are numbers. The least length grows as along −γ."""
    eta, zeta, gamma, least_start, radius = 0.1, 0.5, 0.4, 1e-4, 1e-2
    settings = NeonPlusSettings(
        step_size=eta, momentum=zeta, num_steps=500, noise_radius=radius, target=gamma / 2.0, gamma=gamma,
        least_start=least_start, hessian_lipschitz=1e-9, trust_radius=1e6,
    )  # fmt: skip
    F = Function(lambda x: (curvature * (x @ x) / 2.0, curvature * x), gradient=True)
    f_hat = DisplacedFunction(F.sample(), torch.zeros(4, dtype=torch.float64))
    before = f_hat.f.ledger.gradients
    found = neon_plus(f_hat, settings, torch.Generator().manual_seed(0))
    y = u = float(vectors.random_in_ball(f_hat.x, radius, torch.Generator().manual_seed(0)).norm())
    least_y = least_u = least_start
    steps = 0
    while y >= least_y:
        following = (1.0 + eta * gamma) * least_u
        least_y, least_u = following, following + zeta * (following - least_y)
        following = (1.0 - eta * curvature) * u
        y, u = following, following + zeta * (following - y)
        steps += 1
    assert found.status is Status.NOTHING_FOUND
    assert f_hat.f.ledger.gradients - before == steps < 500
