"""SM: the recurrences that it unites, against each of them written by itself; its counts, its velocity, its guard."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.first_order.sums import DOUBLE, Witness, bowls, diagonal, random
from unsaddle.cost import Cost
from unsaddle.first_order.anchor import anchor_at
from unsaddle.first_order.method import Local
from unsaddle.first_order.momentum import HeavyBall, MomentumSettings, Nesterov, Sgd, sm
from unsaddle.first_order.premises import Premises, ProblemConstants
from unsaddle.options import Options

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
ETA, BETA, STEPS = 0.05, 0.75, 30  # 1 − β = 1/4


def steps(s: float, num_steps: int = STEPS, batch_size: int = 4) -> MomentumSettings:
    return MomentumSettings(step_size=ETA, momentum=BETA, s=s, num_steps=num_steps, batch_size=batch_size)


def heavy_ball(x0: Tensor, gradients: list[Tensor]) -> list[Tensor]:
    """x_{τ+1} = x_τ − ηg + β(x_τ − x_{τ−1})."""
    xs = [x0, x0]
    for g in gradients:
        xs.append(xs[-1] - ETA * g + BETA * (xs[-1] - xs[-2]))
    return xs[1:]


def nesterov(x0: Tensor, gradients: list[Tensor]) -> list[Tensor]:
    """w_{τ+1} = x_τ − ηg, x_{τ+1} = w_{τ+1} + β(w_{τ+1} − w_τ)."""
    xs, before = [x0], x0
    for g in gradients:
        w = xs[-1] - ETA * g
        xs.append(w + BETA * (w - before))
        before = w
    return xs


def descent(x0: Tensor, gradients: list[Tensor]) -> list[Tensor]:
    """x_{τ+1} = x_τ − η/(1 − β)·g."""
    xs = [x0]
    for g in gradients:
        xs.append(xs[-1] - 4.0 * ETA * g)
    return xs


@pytest.mark.parametrize(("s", "recurrence"), [(0.0, heavy_ball), (1.0, nesterov), (4.0, descent)])
def test_each_s_is_the_method_that_it_stands_for(s: float, recurrence: object) -> None:
    sums = Witness(bowls())
    done = sm(sums, X0, steps(s), random())
    xs = recurrence(X0, [answer.gradient for answer in sums.answers])  # type: ignore[operator]
    for answer, x in zip(sums.answers, xs, strict=False):
        torch.testing.assert_close(answer.x, x, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(done.last, xs[-1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("s", [0.0, 0.5, 1.0, 4.0])
def test_plain_descent_is_hidden_in_x_plus_for_every_s(s: float) -> None:
    """z = x⁺ after the last step, and y = x⁺ at one of the steps 0 … t (E10: with a minus, only at s = 0)."""
    chosen = set()
    for seed in range(40):
        sums = Witness(bowls())
        done = sm(sums, X0, steps(s, num_steps=5), random(seed))
        plus = descent(X0, [answer.gradient for answer in sums.answers])
        torch.testing.assert_close(done.z, plus[-1], rtol=1e-13, atol=1e-13)
        distances = [float((done.y - x).norm()) for x in plus[:-1]]
        assert min(distances) < 1e-13
        chosen.add(distances.index(min(distances)))
    assert chosen == set(range(5))  # P(one of five missing in 40) < 5·0.8⁴⁰ = 7e-4, and the seeds are fixed.


def test_the_cost_is_a_batch_a_step() -> None:
    for num_steps, batch_size in ((1, 1), (7, 3), (30, 16)):
        sums = Witness(bowls())
        sm(sums, X0, steps(1.0, num_steps, batch_size), random())
        assert sums.cost == Cost(gradients=num_steps, samples=num_steps * batch_size)


@pytest.mark.parametrize("s", [0.0, 1.0])
def test_two_rounds_with_the_companion_handed_on_are_one_of_twice_the_length(s: float) -> None:
    bowl = diagonal(1.0, 0.5, 0.25)
    settings = {"step_size": ETA, "momentum": BETA, "s": s}
    whole = sm(bowl, X0, MomentumSettings(num_steps=20, **settings), random())
    first = sm(bowl, X0, MomentumSettings(num_steps=10, **settings), random())
    second = sm(bowl, first.last, MomentumSettings(num_steps=10, **settings), random(), first.last_s)
    torch.testing.assert_close(second.last, whole.last, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(second.last_s, whole.last_s, rtol=1e-13, atol=1e-13)


def test_the_start_is_not_changed() -> None:
    x = X0.clone()
    sm(bowls(), x, steps(1.0), random())
    assert torch.equal(x, X0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1\.0"),
        ({"momentum": -0.1}, r"momentum must be in \[0, 1\)"),
        ({"step_size": 0.0}, "step_size must be a finite number > 0, got 0.0; leave it out"),
        ({"s": 5.0}, r"s must be in \[0, 1/\(1 − β\)\], got 5\.0 with momentum 0\.75"),
        ({"s": -1.0}, r"s must be in \[0, 1/\(1 − β\)\]"),
    ],
)
def test_impossible_constants_are_refused(change: dict[str, float], message: str) -> None:
    good = {"step_size": ETA, "momentum": BETA, "s": 1.0, "num_steps": 1}
    with pytest.raises(ValueError, match=message):
        MomentumSettings(**(good | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [1, 5])
def test_in_theory_sgd_without_noise_takes_one_plain_step_of_half_an_l1(batch_size: int) -> None:
    """β = 0, and η = 1/(2·L1) = 1/8."""
    options = Options(eps=0.1, gamma=0.5, delta=0.1, extractor="auto", theory=True, method_settings={})
    known = ProblemConstants(smoothness=4.0, hessian_lipschitz=2.0, variance=0.0)
    sums = Witness(bowls())
    run = Sgd.theory(Premises(options=options, constants=known, num_samples=None), batch_size=batch_size)
    y, z = run(sums, X0, random())
    assert sums.cost == Cost(gradients=1, samples=batch_size)
    assert torch.equal(y, X0)
    torch.testing.assert_close(z, X0 - sums.answers[0].gradient / 8.0)


# --- With measured constants ----------------------------------------------------------------------------------------


def known(smoothness: float, n: int | None = None) -> Local:
    return Local(eps=0.1, num_samples=n, smoothness=smoothness, variance=0.0, gradient_norm=1.0)


@pytest.mark.parametrize(("momentum", "effective"), [(0.0, 0.5), (0.9, 1.25)])
def test_the_first_step_of_a_round_follows_l1(momentum: float, effective: float) -> None:
    """η/(1 − β) = 0.5k/L1, k = 1 or 2.5; and x⁺ moves by that times the gradient."""
    bowl = Witness(diagonal(1.0, 1.0, 1.0))
    method = Nesterov(momentum=momentum, num_steps=2) if momentum else Sgd(num_steps=2)
    method.advance(bowl, X0, None, known(8.0, 1), random())
    step = bowl.answers[0].x - bowl.answers[1].x
    # Nesterov's first step is η(1 + β)∇f, and η = (1 − β)·effective/L1.
    torch.testing.assert_close(step, effective / 8.0 * (1.0 - momentum**2) * X0)


def test_a_round_costs_twenty_batches_and_the_values_of_the_test() -> None:
    sums = Witness(bowls())
    method = Nesterov(batch_size=5)
    seen = anchor_at(sums, X0, 40, random())
    before = sums.cost
    method.advance(sums, X0, seen, known(2.0, 200), random())
    assert sums.cost - before == Cost(gradients=20, samples=100, values=8, value_samples=40)
    before = sums.cost
    Nesterov(batch_size=5, step_size=0.01).advance(sums, X0, seen, known(2.0, 200), random())
    assert sums.cost - before == Cost(gradients=20, samples=100)  # A given step is not judged.


def test_the_velocity_is_kept_from_round_to_round_until_it_is_forgotten() -> None:
    bowl, method = diagonal(1.0, 0.5, 0.25), HeavyBall(step_size=0.5)
    fresh = HeavyBall(step_size=0.5)
    first, _ = method.advance(bowl, X0, None, known(1.0, 1), random())
    kept, _ = method.advance(bowl, first, None, known(1.0, 1), random())
    whole = sm(bowl, X0, MomentumSettings(step_size=0.05, momentum=0.9, s=0.0, num_steps=40), random())
    torch.testing.assert_close(kept, whole.last)
    method.forget()
    forgotten, _ = method.advance(bowl, first, None, known(1.0, 1), random())
    without, _ = fresh.advance(bowl, first, None, known(1.0, 1), random())
    assert torch.equal(forgotten, without)
    assert not torch.allclose(forgotten, kept)


def test_l1_falls_slowly_while_the_value_does_and_rises_when_it_rises() -> None:
    bowl = diagonal(1.0, 1.0, 1.0)
    local = known(2.0, 1)
    Sgd().advance(bowl, X0, anchor_at(bowl, X0, None, random()), local, random())
    assert local.smoothness == pytest.approx(0.95 * 2.0)
    # Steps of 2.01 overshoot a little each: (1.01)^20 = 1.2 times as far after a round, which is kept.
    local = known(0.5 / 2.01, 1)
    y, _ = Sgd().advance(bowl, X0, anchor_at(bowl, X0, None, random()), local, random())
    assert local.smoothness == pytest.approx(1.5 * 0.5 / 2.01)
    torch.testing.assert_close(y, 1.01**20 * X0)


@pytest.mark.parametrize(("share", "undone"), [(0.9, False), (1.1, True)])
def test_a_rise_is_kept_up_to_what_the_steps_of_a_round_could_gain(share: float, undone: bool) -> None:
    """‖∇f‖²/L1 a step, with L1 = 1.5 after it was raised. From ½‖x‖² at ‖x‖² = 4 that is 2 + 20·4/1.5."""
    bowl, start = diagonal(1.0, 1.0, 1.0), torch.tensor([2.0, 0.0, 0.0], dtype=DOUBLE)
    height = 2.0 + share * 20.0 * 4.0 / 1.5
    method, seen = Sgd(num_steps=20), anchor_at(bowl, start, None, random())
    one = known(1.0, 1)
    far = torch.tensor([math.sqrt(2.0 * height), 0.0, 0.0], dtype=DOUBLE)
    assert method._kept(far, seen, one) is not undone
    assert one.smoothness == 1.5


@pytest.mark.parametrize("smoothness", [1e-3, 1e-300])
def test_a_round_that_rises_out_of_all_bounds_is_undone_with_its_velocity(smoothness: float) -> None:
    bowl, local = diagonal(1.0, 1.0, 1.0), known(smoothness, 1)
    method = Nesterov()
    y, z = method.advance(bowl, X0, anchor_at(bowl, X0, None, random()), local, random())
    assert y is z is X0
    assert local.smoothness == pytest.approx(1.5 * smoothness, rel=1e-9, abs=0.0)
    local.smoothness = 4.0
    again, _ = method.advance(bowl, X0, None, local, random())
    fresh, _ = Nesterov().advance(bowl, X0, None, known(4.0, 1), random())
    assert torch.equal(again, fresh)
    assert math.isfinite(float(again.norm()))


def test_its_batch_grows_with_the_noise_and_with_momentum() -> None:
    noisy = Local(eps=0.1, num_samples=None, smoothness=1.0, variance=3.0, gradient_norm=0.0)
    assert Sgd().test_size(noisy) == 600  # 2V/ε²
    assert Nesterov().test_size(noisy) == 1500  # 2·2.5·V/ε²
    assert Nesterov(batch_size=7).test_size(noisy) == 7
    few = Local(eps=0.1, num_samples=100, smoothness=1.0, variance=3.0, gradient_norm=0.0)
    assert Sgd().test_size(few) is None


def test_a_momentum_of_one_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match=r"momentum must be in \[0, 1\), got 1\.5; 0\.9 is usual"):
        Nesterov(momentum=1.5)


def test_what_is_kept_from_round_to_round_is_no_setting() -> None:
    assert "_companion" not in repr(Sgd())
    with pytest.raises(TypeError, match="_companion"):
        Sgd(_companion=X0)  # type: ignore[call-arg]
