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
from unsaddle.theory import extraction

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
OPTIONS = Options(eps=0.1, gamma=0.5, delta=0.1, extractor="auto", theory=True, method_settings={})


def stream() -> Stream:
    return Stream(
        lambda x, t: (0.5 * (x - t).square().sum(dim=1).mean(), x - t.mean(dim=0)),
        lambda size, generator: (torch.randn(size, 3, generator=generator, dtype=DOUBLE),),
        gradient=True,
    )


def run(name: str, variance: float, n: int | None, **settings: Any) -> tuple[Witness, Tensor, Tensor]:
    witness = Witness(stream() if n is None else bowls(n))
    y, z = method(name, variance, n, **settings).advance(witness, X0, None, Local(0.1, n), random())
    return witness, y, z


def method(name: str, variance: float, n: int | None, **settings: Any) -> PlainMethod:
    known = ProblemConstants(smoothness=4.0, hessian_lipschitz=2.0, variance=variance)
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
    """σ = γ = ½ (above εL1/√V = 0.115); B = 3/0.05² = 1200; p = (¼·3/(16·0.0025))^{1/3} = 18.75^{1/3} = 2.66, so 3;
    m = 400; α = 1/(½·400) = 1/200."""
    witness, _, _ = run("natasha", 3.0, None)
    assert witness.cost == Cost(gradients=1 + 2 * 1200, samples=1200 + 2 * 1200)
    mu = witness.answers[0].gradient
    torch.testing.assert_close(witness.answers[4].x, X0 - mu / 200.0)


@pytest.mark.parametrize(("name", "beta"), [("sgd", 0.0), ("shb", 0.75), ("snag", 0.75)])
def test_momentum_without_noise_steps_by_one_over_2_l1(name: str, beta: float) -> None:
    """η = (1 − β)/(2·L1), and x⁺ moves by η/(1 − β) = 1/8 times each gradient."""
    settings = {} if name == "sgd" else {"momentum": beta}
    witness, _, z = run(name, 0.0, 64, num_steps=4, batch_size=5, **settings)
    assert witness.cost == Cost(gradients=4, samples=20)
    torch.testing.assert_close(z, X0 - sum(answer.gradient for answer in witness.answers) / 8.0)


@pytest.mark.parametrize(
    ("name", "beta", "noise"),
    [
        ("sgd", 0.0, 12.0),  # D = L1·V
        ("shb", 0.5, 48.0),  # 12(β²·1/(1−β)³ + 1/(1−β)) = 12(2 + 2)
        ("snag", 0.5, 30.0),  # 12(¼(½ − 1)²·8 + 2) = 12(½ + 2)
    ],
)
def test_momentum_with_noise_takes_the_step_that_its_length_admits(name: str, beta: float, noise: float) -> None:
    """η = √(2(1−β)Cγ³/(3D(t+1))) with C = c³/(12·L2²), far below ε²/(6D)."""
    settings = {} if name == "sgd" else {"momentum": beta}
    witness, _, z = run(name, 3.0, None, num_steps=4, **settings)
    ell = math.log(3 * 3 * 4.0 / (2 * 0.5 * 0.1))  # log(3dL1/(2γδ)) of Lemma 2
    c = extraction.sampling_accuracy(log_factor=ell)
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
