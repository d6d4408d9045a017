"""NEON and NEON⁺ with iterates kept near the radius of their noise (Zhang and Li, 2021)."""

import itertools
import math

import pytest
import torch

from tests.curvature.quadratics import quadratic, random_symmetric, rng
from unsaddle import Function, negative_curvature, vectors
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon import NeonSettings, neon
from unsaddle.curvature.neon_plus import NeonPlusSettings, neon_plus
from unsaddle.curvature.renormalisation import renormalised
from unsaddle.curvature.result import Status
from unsaddle.theory import renormalised as theory_renormalised

R = 1e-2


def settings_of(name, **changes):
    """η = 0.3 and ζ = 0.8; by default no test ever passes."""
    common = {"step_size": 0.3, "num_steps": 60, "noise_radius": R, "target": math.inf, "renormalise": True} | changes
    if name == "neon":
        return NeonSettings(**common)
    return NeonPlusSettings(**{"momentum": 0.8, "gamma": 1e9} | common)


RUN = {"neon": neon, "neon+": neon_plus}
BOTH = pytest.mark.parametrize("name", RUN)


def at_zero(hessian):
    return DisplacedFunction(quadratic(hessian).sample(), torch.zeros(hessian.shape[0], dtype=hessian.dtype))


def probes(name, f_hat, settings, seed=0):
    """Where the gradients were taken, relative to x, and what came out."""
    points, f = [], f_hat.f
    f_hat.f = f.observed_by(lambda seen: points.append(seen.point - f_hat.x))
    try:
        found = RUN[name](f_hat, settings, rng(seed), keep_history=True)
    finally:
        f_hat.f = f
    return points, found


def unit(u):
    return u / u.norm()


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_on_a_quadratic_it_is_the_plain_sequence_up_to_a_scalar(name, seed):
    """Identity 9: the same directions, quotients, lowest and number of steps, wherever x is."""
    d = 20
    generator = rng(seed + 100)
    slope, x = (torch.randn(d, generator=generator, dtype=torch.float64) for _ in range(2))
    f_hat = DisplacedFunction(quadratic(random_symmetric(d, seed), slope).sample(), x)
    kept, a = probes(name, f_hat, settings_of(name), seed)
    free, b = probes(name, f_hat, settings_of(name, renormalise=False), seed)
    assert len(kept) == len(free) == 60
    assert float(free[-1].norm()) > 50 * R  # The plain one did grow.
    for u, w in zip(kept, free, strict=True):
        assert (unit(u) - unit(w)).norm() <= 1e-10
    assert [q for _, q in a.history] == pytest.approx([q for _, q in b.history], rel=1e-9, abs=1e-10)
    assert a.lowest == pytest.approx(b.lowest, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_neon_is_normalised_power_iteration(seed):
    hessian = random_symmetric(20, seed)
    power = torch.eye(20, dtype=torch.float64) - 0.3 * hessian
    points, _ = probes("neon", at_zero(hessian), settings_of("neon"), seed)
    expected = unit(points[0])
    for u in points:
        assert (unit(u) - expected).norm() <= 1e-12
        expected = unit(power @ expected)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize(("lowest", "largest"), [(-1.0, 2.0), (0.0, 3.0), (0.5, 3.0)])
def test_no_gradient_is_taken_outside_the_shell(name, lowest, largest):
    """Growing or shrinking, the first one included: ‖u‖ ∈ [r/2, 2r]. In one dimension the ball alone goes below r/2."""
    for seed in range(20):
        for hessian in (random_symmetric(10, seed, lowest, largest), torch.tensor([[lowest]], dtype=torch.float64)):
            points, _ = probes(name, at_zero(hessian), settings_of(name), seed)
            lengths = [float(u.norm()) for u in points]
            assert min(lengths) >= R / 2 * (1 - 1e-12)
            assert max(lengths) <= 2 * R * (1 + 1e-12)


@BOTH
def test_the_scale_of_the_noise_is_of_no_consequence_on_quadratics(name):
    hessian = random_symmetric(15, 2)
    results = [
        RUN[name](
            at_zero(hessian),
            settings_of(name, noise_radius=r, target=0.9, gamma=0.9)
            if name == "neon+"
            else settings_of(name, noise_radius=r, target=0.9),
            rng(4),
        )
        for r in (1e-6, 1e-2, 1e3)
    ]
    assert all(found.status is Status.FOUND for found in results)
    for a, b in itertools.pairwise(results):
        assert (unit(a.vector) - unit(b.vector)).norm() <= 1e-9
        assert a.lowest == pytest.approx(b.lowest, rel=1e-9)


@BOTH
def test_what_is_returned_is_the_first_iterate_that_passed(name):
    """The second in a row, for NEON⁺, which tests y_{τ+1} with the gradient at u_τ."""
    hessian = random_symmetric(12, 3)
    seen = []
    RUN[name](at_zero(hessian), settings_of(name), rng(1), observer=lambda _, u: seen.append(u.clone()))
    found = RUN[name](at_zero(hessian), settings_of(name, target=0.7), rng(1), keep_history=True)
    quotients = [quotient for _, quotient in found.history]
    times = 2 if name == "neon+" else 1
    assert min(quotients[:-times]) > -0.7 >= max(quotients[-times:])
    passed = seen[len(quotients) - 1 + (name == "neon+")]
    assert (unit(found.vector) - unit(passed)).norm() <= 1e-12
    assert float(unit(found.vector) @ hessian @ unit(found.vector)) <= -0.7


# γ = 1, sought among 400 directions at −0.45 and one at −1, under (L2/6)‖x‖³, which adds L2‖u‖/2 to every quotient.
CROWD = torch.cat([torch.full((400,), -0.45, dtype=torch.float64), torch.tensor([-1.0], dtype=torch.float64)])
L2 = 1.0


def hardening(x):
    return 0.5 * (CROWD * x) @ x + L2 / 6.0 * (x @ x) ** 1.5, CROWD * x + L2 / 2.0 * x.norm() * x


@pytest.mark.slow
@BOTH
def test_it_succeeds_where_the_plain_one_leaves_the_quadratic_region(name):
    """While the direction at −1 overtakes the others, all of them grow, until ‖u‖ = 2/L2 stops them, and rounding may
    forbid a smaller start. Of 100 seeds the plain one succeeds in none, the other in at least 88: were its rate 0.95,
    Binomial(100, 0.95) would fall below that with probability 0.0015."""
    plus = {} if name == "neon" else {"gamma": 1.0, "momentum": 1 - math.sqrt(0.3)}
    found = dict.fromkeys((True, False), 0)
    f_hat = DisplacedFunction(Function(hardening, gradient=True).sample(), torch.zeros(401, dtype=torch.float64))
    for seed, renormalise in itertools.product(range(100), found):
        result = RUN[name](
            f_hat,
            settings_of(
                name,
                noise_radius=0.04,
                target=0.5,
                hessian_lipschitz=L2,
                resolution=0.02,
                renormalise=renormalise,
                **plus,
            ),
            rng(seed),
        )
        if result.vector is not None:
            assert float(unit(result.vector).square() @ CROWD) <= -0.5
            found[renormalise] += 1
    assert found[True] >= 88
    assert found[False] == 0


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_success_over_many_seeds(name, dtype):
    """γ = 0.2 in 50 dimensions with the practical number of steps at δ = 0.05. Of 120 seeds, fewer than 107 would
    succeed with probability 0.003 if the rate were 0.95: Binomial(120, 0.95)."""
    hessian = random_symmetric(50, 7, lowest=-0.2, largest=1.0).to(dtype)
    eta, gamma = 0.5, 0.2
    f_hat = at_zero(hessian)
    log = math.log(50 / 0.05**2)
    if name == "neon":
        changes = {"num_steps": math.ceil(log / (eta * gamma))}
    else:
        root = math.sqrt(eta * gamma)
        changes = {"num_steps": math.ceil(2 * log / root), "gamma": gamma, "momentum": 1 - root}
    settings = settings_of(name, step_size=eta, target=gamma / 2, **changes)
    found = [RUN[name](f_hat, settings, rng(seed)).vector for seed in range(120)]
    curvatures = [float(unit(v) @ hessian @ unit(v)) for v in found if v is not None]
    assert len(curvatures) >= 107
    assert max(curvatures) <= -gamma / 2 * (1 - 1e-5)


@BOTH
def test_nothing_is_found_without_negative_curvature_and_every_step_is_one_gradient(name):
    for seed in range(30):
        f_hat = at_zero(random_symmetric(10, seed, lowest=0.0, largest=2.0))
        settings = settings_of(name, target=0.05, **({} if name == "neon" else {"gamma": 0.1}))
        found = RUN[name](f_hat, settings, rng(seed))
        assert (found.status, found.vector, found.exhausted) == (Status.NOTHING_FOUND, None, True)
        assert f_hat.f.cost.gradients == 1 + 60  # ∇f(x), then one a step
        assert f_hat.f.cost.values == 0
        assert found.lowest >= -1e-12


@BOTH
def test_blocks_change_nothing(name, monkeypatch):
    f_hat = at_zero(random_symmetric(50, 5))
    whole, _ = probes(name, f_hat, settings_of(name))
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 7 * 8)
    in_blocks, _ = probes(name, f_hat, settings_of(name))
    for a, b in zip(whole, in_blocks, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-12 * R)


@BOTH
def test_a_step_too_long_is_named(name):
    hessian = torch.diag(torch.tensor([1.0, 100.0], dtype=torch.float64))
    assert RUN[name](at_zero(hessian), settings_of(name), rng()).status is Status.SMOOTHNESS_EXCEEDED


@BOTH
def test_what_is_not_finite_is_named(name):
    hole = Function(lambda x: torch.where(x.norm() > 0, x.sum() * math.nan, x.sum()))
    f_hat = DisplacedFunction(hole.sample(), torch.zeros(3, dtype=torch.float64))
    assert RUN[name](f_hat, settings_of(name), rng()).status is Status.NOT_FINITE


@BOTH
def test_a_decrease_cannot_be_waited_for(name):
    with pytest.raises(ValueError, match=r"decrease must be None with renormalise=True, got 0\.1"):
        settings_of(name, decrease=0.1)


def test_within_the_shell_no_vector_is_touched():
    x, u = torch.zeros(3), torch.tensor([0.0, 1.5, 0.0])
    point = torch.full((3,), 7.0)
    assert renormalised(2.25, 1.0, x, point, u) == 2.25
    assert u.tolist() == [0.0, 1.5, 0.0]
    assert point.tolist() == [7.0] * 3


@pytest.mark.parametrize("squared_norm", [0.0, math.inf, math.nan])
def test_what_cannot_be_rescaled_is_left_alone(squared_norm):
    x, u = torch.zeros(2), torch.ones(2)
    result = renormalised(squared_norm, 1.0, x, x.clone(), u)
    assert result == squared_norm or math.isnan(result)
    assert u.tolist() == [1.0, 1.0]


def test_constants_by_hand():
    """L1 = 4, L2 = 2, γ = 1/2, δ = 1/10, d = 100: ε = 1/8, κ = 8."""
    scales = {"gamma": 0.5, "delta": 0.1, "dimension": 100}
    # 64·log(4·10/(0.1·0.5·√π)) = 64·log(451.35)
    assert theory_renormalised.num_steps(**scales, smoothness=4.0) == 392
    # (1/8)/32 · √π/10 · 0.1
    radius = theory_renormalised.noise_radius(**scales, smoothness=4.0, hessian_lipschitz=2.0)
    assert radius == pytest.approx(6.9236478551e-05, rel=1e-9)
    # 32·√8·log(800)
    assert theory_renormalised.accelerated_num_steps(**scales, smoothness=4.0) == 606
    # (0.1/8)/32·√(π/200)
    radius = theory_renormalised.accelerated_noise_radius(**scales, hessian_lipschitz=2.0)
    assert radius == pytest.approx(4.8957583488e-05, rel=1e-9)
    # 1 − √(1/8)/4
    assert theory_renormalised.accelerated_momentum(gamma=0.5, smoothness=4.0) == pytest.approx(0.9116116523516816)


@BOTH
@pytest.mark.parametrize("settings", ["practical", "theory"])
def test_as_negative_curvature_calls_it(name, settings):
    problem = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4 + 0.5 * x[2] ** 2)
    x = torch.zeros(3, dtype=torch.float64)
    constants = {"gamma": 1.5, "smoothness": 2.0, "hessian_lipschitz": 1.0}
    result = negative_curvature(problem, x, extractor=f"{name}-renormalised", settings=settings, **constants)
    assert result.status is Status.FOUND
    assert result.curvature <= -1.5 / 4
    short = negative_curvature(
        problem, x, extractor=f"{name}-renormalised", settings=settings, max_gradients=6, **constants
    )
    assert short.cost.gradients <= 6
