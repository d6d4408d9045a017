"""The methods with the constants of the corollaries: sizes and steps worked out by hand, read off what they asked for.

The setting: L1 = 4, L2 = 2, γ = 1/2, ε = 1/10, so that a method is called with the target 1/20 (E18).
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.first_order.sums import DOUBLE, Witness, bowls, random
from unsaddle import Stream
from unsaddle.cost import Cost
from unsaddle.first_order.method import Local, PlainMethod
from unsaddle.first_order.premises import Premises, ProblemConstants
from unsaddle.methods import FIRST_ORDER, minimize
from unsaddle.options import Options
from unsaddle.theory import extraction, framework

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
OPTIONS = Options(eps=0.1, gamma=0.5, delta=0.1, extractor="auto", theory=True, method_settings={})


def stream() -> Stream:
    return Stream(
        lambda x, t: (0.5 * (x - t).square().sum(dim=1).mean(), x - t.mean(dim=0)),
        lambda size, generator: (torch.randn(size, 3, generator=generator, dtype=DOUBLE),),
        gradient=True,
    )


def run(name: str, variance: float, n: int | None, seed: int = 0, **settings: Any) -> tuple[Witness, Tensor, Tensor]:
    witness = Witness(stream() if n is None else bowls(n))
    y, z = method(name, variance, n, **settings).advance(witness, X0, None, Local(0.1, n), random(seed))
    return witness, y, z


def method(
    name: str, variance: float, n: int | None, second_moment: float | None = None, **settings: Any
) -> PlainMethod:
    known = ProblemConstants(smoothness=4.0, hessian_lipschitz=2.0, variance=variance, second_moment=second_moment)
    theory = FIRST_ORDER[name].theory
    assert theory is not None
    return PlainMethod(theory(Premises(options=OPTIONS, constants=known, num_samples=n), **settings))


def test_msgd_takes_2v_over_eps_squared_samples_and_a_step_of_one_over_l1() -> None:
    witness, y, z = run("msgd", 3.0, None)
    assert witness.cost == Cost(gradients=1, samples=2400)  # 2·3/0.05²
    assert torch.equal(y, X0)
    torch.testing.assert_close(z, X0 - 0.25 * witness.answers[0].gradient)


def test_msgd_takes_everything_where_that_is_less() -> None:
    witness, _, z = run("msgd", 3.0, 64)
    assert witness.cost == Cost(gradients=1, samples=64)
    torch.testing.assert_close(z, X0 - 0.25 * bowls(64).sample().grad(X0))


@pytest.mark.parametrize(("batch", "step"), [(1, 1 / 384), (8, 1 / 96)])
def test_scsg_anchors_on_everything_of_a_small_sum(batch: int, step: float) -> None:
    """η = (1/6)/4·(64/b)^{−2/3}: (1/24)/16 for b = 1, (1/24)/4 for b = 8. N follows from the counts."""
    for seed in range(3):
        witness = Witness(bowls(64))
        scsg = method("scsg", 3.0, 64, batch_size=batch)
        y, z = scsg.advance(witness, X0, None, Local(0.1, 64), random(seed))
        assert y is z
        inner = witness.answers[1:]
        assert {answer.size for answer in inner} <= {batch}
        assert witness.cost == Cost(gradients=1 + len(inner), samples=64 + batch * len(inner))
        assert len(inner) % 2 == 0
        if len(inner) >= 4:
            torch.testing.assert_close(inner[3].x, X0 - step * witness.answers[0].gradient)


def test_scsg_without_noise_anchors_on_eight_batches() -> None:
    witness, _, _ = run("scsg", 0.0, None, batch_size=3)
    assert sum(answer.size for answer in witness.answers[:8]) == 24  # 8b (E13)


def test_scsg_refuses_a_batch_of_more_than_an_eighth() -> None:
    with pytest.raises(ValueError, match="batch_size must be at most population/8 = 8, got 9"):
        run("scsg", 0.0, 64, batch_size=9)


@pytest.mark.parametrize(("batch", "step", "steps"), [(1, 1 / 256, 85), (2, 1 / 128, 42)])
def test_svrg_has_its_step_and_length_from_reddi(batch: int, step: float, steps: int) -> None:
    """η = b/4/(4·64^{2/3}) = b/256; m = ⌊64/(3b/4)⌋ = ⌊85.3/b⌋."""
    witness, y, z = run("svrg", 3.0, 64, batch_size=batch)
    assert witness.cost == Cost(gradients=1 + 2 * steps, samples=64 + 2 * batch * steps)
    full, inner = witness.answers[0].gradient, witness.answers[1:]
    xs = [X0]
    for at_anchor, at_x in zip(inner[::2], inner[1::2], strict=True):
        torch.testing.assert_close(at_x.x, xs[-1])
        xs.append(xs[-1] - step * (at_x.gradient - at_anchor.gradient + full))
    torch.testing.assert_close(z, xs[-1])
    assert min(float((y - x).norm()) for x in xs[:-1]) < 1e-12  # One of x_0 … x_{m−1}.


def test_natasha_has_its_sub_epochs_from_allen_zhu() -> None:
    """σ = ½ (above εL1/√V = 0.115); B = 3/0.05² = 1200; p = (¼·3/(16·0.0025))^{1/3} = 18.75^{1/3} = 2.66, so 3;
    m = 400; α = 1/(½·400) = 1/200."""
    witness, _, _ = run("natasha", 3.0, None, sigma=0.5)
    assert witness.cost == Cost(gradients=1 + 2 * 1200, samples=1200 + 2 * 1200)
    mu = witness.answers[0].gradient
    torch.testing.assert_close(witness.answers[4].x, X0 - mu / 200.0)


def test_natasha_takes_l1_for_sigma_as_nothing_keeps_the_curvature_above_minus_gamma() -> None:
    """σ = L1 = 4: p = (3/0.0025)^{1/3} = 10.6, so 11; m = ⌈1200/11⌉ = 110; α = 1/(4·110). γ = ½ plays no part."""
    witness, _, _ = run("natasha", 3.0, None)
    assert witness.cost == Cost(gradients=1 + 2 * 1210, samples=1200 + 2 * 1210)
    torch.testing.assert_close(witness.answers[4].x, X0 - witness.answers[0].gradient / 440.0)
    with pytest.raises(ValueError, match=r"sigma must be a finite number > 0, got 0\.0; leave it out to take L1"):
        run("natasha", 3.0, None, sigma=0.0)


@pytest.mark.parametrize("name", ["sgd", "shb", "snag"])
def test_sgd_without_noise_steps_by_one_over_2_l1(name: str) -> None:
    """Heavy ball and Nesterov are SGD at β = 0, so V is all that they need, too."""
    settings = {} if name == "sgd" else {"momentum": 0.0}
    witness, _, z = run(name, 0.0, 64, num_steps=4, batch_size=5, **settings)
    assert witness.cost == Cost(gradients=4, samples=20)
    torch.testing.assert_close(z, X0 - sum(answer.gradient for answer in witness.answers) / 8.0)


@pytest.mark.parametrize("name", ["shb", "snag"])
def test_momentum_asks_for_the_second_moment_of_the_gradient(name: str) -> None:
    """V says nothing about ‖∇F‖, which momentum carries along; without noise V is 0 and E‖∇f‖² is not."""
    for variance in (0.0, 3.0):
        with pytest.raises(ValueError, match=r"needs second_moment for heavy ball and Nesterov: a bound on .* give it"):
            method(name, variance, None)
    with pytest.raises(ValueError, match=r"second_moment must be at least variance = 3\.0, got 2\.0"):
        method(name, 3.0, None, second_moment=2.0)
    with pytest.raises(ValueError, match="second_moment must be a finite number > 0"):
        method(name, 0.0, None, second_moment=0.0)
    with pytest.raises(ValueError, match="settings='theory' needs second_moment"):
        minimize(
            bowls(64), X0, method=f"neon-{name}", settings="theory", gamma=0.5, smoothness=4.0, hessian_lipschitz=2.0
        )


@pytest.mark.parametrize("name", ["sgd", "shb", "snag"])
def test_with_one_step_y_is_where_it_started_and_with_more_it_is_any_of_the_steps(name: str) -> None:
    """A random one of the steps 0 … t: with t = 0, the default, x₀ itself. z is always the last."""
    settings = {"second_moment": None if name == "sgd" else 9.0}
    for seed in range(3):
        _, y, z = run(name, 3.0, None, seed, **settings)
        assert torch.equal(y, X0)
        assert not torch.equal(z, X0)
    ends = [run(name, 3.0, None, seed, num_steps=3, **settings) for seed in range(20)]
    assert all(witness.cost.gradients == 3 for witness, _, _ in ends)
    assert {torch.equal(y, X0) for _, y, _ in ends} == {True, False}
    assert not any(torch.equal(y, z) for _, y, z in ends)
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        run(name, 3.0, None, num_steps=0, **settings)


@pytest.mark.parametrize("num_steps", [1, 7, 1000])
def test_property_1_holds_at_any_number_of_steps(num_steps: int) -> None:
    """E[F(y) − F(x)] ≤ Cγ³/2 and ε_𝒜 > 0, by the corollary's own inequalities, at the η that is taken."""
    witness, _, z = run("shb", 3.0, None, num_steps=num_steps, momentum=0.5, second_moment=3.0)
    eta = float(((X0 - z) * 0.5 / sum(answer.gradient for answer in witness.answers)).mean())
    taken = {"step_size": eta, "num_steps": num_steps, "momentum": 0.5, "noise_scale": 48.0}
    known = ProblemConstants(smoothness=4.0, hessian_lipschitz=2.0)
    limit = Premises(options=OPTIONS, constants=known, num_samples=None).escape_constant(3) * 0.5**3 / 2.0
    assert framework.momentum_increase(**taken) == pytest.approx(limit, rel=1e-2, abs=0.0)
    assert framework.momentum_decrease(eps=0.05, **taken) > 0.0


@pytest.mark.parametrize(
    ("name", "beta", "noise"),
    [
        ("sgd", 0.0, 12.0),  # D = L1·V
        ("shb", 0.5, 144.0),  # 4·9(β²·1/(1−β)³ + 1/(1−β)) = 36(2 + 2)
        ("snag", 0.5, 90.0),  # 36(¼(½ − 1)²·8 + 2) = 36(½ + 2)
    ],
)
def test_momentum_with_noise_takes_the_step_that_its_length_admits(name: str, beta: float, noise: float) -> None:
    """η = √(2(1−β)Cγ³/(3D(t+1))) with C = c³/(12·L2²), far below ε²/(6D); c at the δ of Theorem 3."""
    settings = {} if name == "sgd" else {"momentum": beta, "second_moment": 9.0}
    witness, _, z = run(name, 3.0, None, num_steps=4, **settings)
    question = {"dimension": 3, "smoothness": 4.0, "gamma": 0.5}
    delta = framework.extraction_failure_probability(delta=0.1, **question)
    c = extraction.sampled_fraction(delta=delta, **question)
    eta = math.sqrt(2.0 * (1.0 - beta) * c**3 / 48.0 * 0.125 / (3.0 * noise * 4))
    assert eta < 0.05**2 / (6.0 * noise)
    moved = (X0 - z) * (1.0 - beta) / sum(answer.gradient for answer in witness.answers)
    torch.testing.assert_close(moved, torch.full((3,), eta, dtype=DOUBLE), rtol=1e-2, atol=0.0)


def test_what_a_corollary_leaves_free_is_listed_for_unknown_settings() -> None:
    with pytest.raises(
        TypeError, match="unknown setting 'step_size'; with settings='theory' a method takes batch_size"
    ):
        minimize(
            bowls(64),
            X0,
            method="scsg",
            settings="theory",
            gamma=0.5,
            step_size=0.1,
            smoothness=4.0,
            hessian_lipschitz=2.0,
        )
