"""Natasha 1.5: the loop against the one of the paper, written out on the gradients that were given."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.first_order.sums import DOUBLE, Witness, bowls, random
from unsaddle.cost import Cost
from unsaddle.first_order.natasha15 import Natasha15Settings, natasha15_epoch
from unsaddle.first_order.variance_reduced import InnerLoop, descend

X0 = torch.tensor([1.0, -2.0, 0.5], dtype=DOUBLE)
MU = torch.tensor([0.3, 0.1, -0.2], dtype=DOUBLE)


def epoch(**changes: object) -> Natasha15Settings:
    return Natasha15Settings(
        **({"step_size": 0.1, "sigma": 0.4, "sub_epochs": 3, "steps": 5, "batch_size": 2} | changes)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("centre", ["last", "average", "random"])
def test_it_is_the_loop_of_the_paper(centre: str) -> None:
    sums = Witness(bowls())
    last, centres = natasha15_epoch(sums, X0, MU, epoch(centre=centre), random(1))
    pairs = list(zip(sums.answers[::2], sums.answers[1::2], strict=True))
    hat = X0
    for p in range(3):
        torch.testing.assert_close(centres[p], hat)
        xs = [hat]
        for at_anchor, at_x in pairs[5 * p : 5 * p + 5]:
            assert torch.equal(at_anchor.x, X0)
            torch.testing.assert_close(at_x.x, xs[-1])
            xs.append(xs[-1] - 0.1 * (at_x.gradient - at_anchor.gradient + MU + 0.8 * (xs[-1] - hat)))
        after = centres[p + 1] if p < 2 else last
        if centre == "last":
            hat = xs[-1]
        elif centre == "average":
            hat = torch.stack(xs[:-1]).mean(dim=0)
        else:
            hat = min(xs[:-1], key=lambda x: float((x - after).norm()))
    torch.testing.assert_close(last, hat)


@pytest.mark.parametrize(("sub_epochs", "steps", "batch"), [(1, 1, 1), (3, 5, 2), (2, 7, 10)])
def test_it_costs_two_batches_a_step(sub_epochs: int, steps: int, batch: int) -> None:
    sums = Witness(bowls())
    natasha15_epoch(sums, X0, MU, epoch(sub_epochs=sub_epochs, steps=steps, batch_size=batch), random())
    taken = steps * sub_epochs
    assert sums.cost == Cost(gradients=2 * taken, samples=2 * batch * taken)


def test_without_sigma_one_sub_epoch_is_svrg() -> None:
    last, _ = natasha15_epoch(bowls(), X0, MU, epoch(sigma=0.0, sub_epochs=1, steps=9), random(4))
    svrg = descend(bowls(), X0, MU, InnerLoop(batch_size=2, step_size=0.1, num_steps=9), random(4)).last
    torch.testing.assert_close(last, svrg)


def test_sigma_ties_a_sub_epoch_to_its_centre() -> None:
    free, _ = natasha15_epoch(bowls(), X0, MU, epoch(sigma=0.0), random(4))
    tied, _ = natasha15_epoch(bowls(), X0, MU, epoch(sigma=4.0), random(4))
    assert float((tied - X0).norm()) < 0.5 * float((free - X0).norm())


def test_a_penalty_is_added_to_the_gradient_and_none_is_nothing() -> None:
    def pull(x: Tensor) -> Tensor | None:
        return 2.0 * torch.ones_like(x)

    plain, _ = natasha15_epoch(bowls(), X0, MU, epoch(), random(4))
    zero, _ = natasha15_epoch(bowls(), X0, MU, epoch(), random(4), penalty=lambda x: None)
    pulled, _ = natasha15_epoch(bowls(), X0, MU, epoch(), random(4), penalty=pull)
    shifted, _ = natasha15_epoch(bowls(), X0, MU + 2.0, epoch(), random(4))
    assert torch.equal(plain, zero)
    torch.testing.assert_close(pulled, shifted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_size": 0.0}, "step_size must be a finite number > 0"),
        ({"sigma": -1.0}, "sigma must be a finite number >= 0, got -1.0; 0 gives SVRG"),
        ({"sub_epochs": 0}, "sub_epochs must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"centre": "first"}, "centre must be one of random, average, last; got 'first'"),
    ],
)
def test_impossible_constants_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        epoch(**change)
