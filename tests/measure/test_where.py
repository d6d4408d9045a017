"""Which tensors a direction lives in."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsaddle import Function, ModelObjective, is_minimum, negative_curvature, where


def hidden_saddle() -> ModelObjective:
    """Both layers are zero: the way down is in the weights of both, and not in the third, which does nothing."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False), nn.LayerNorm(1))
    for p in model[:2].parameters():
        nn.init.zeros_(p)

    def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
        return (model[1](model[0](batch[0])) - batch[1]).square().mean() + 0.5 * sum(
            p.square().sum() for p in model[2].parameters()
        )

    for p in model[2].parameters():
        nn.init.zeros_(p)
    return ModelObjective(model.double(), loss, TensorDataset(torch.eye(2).double(), torch.ones(2, 1).double()))


def test_shares_are_squares_by_tensor_largest_first() -> None:
    F = hidden_saddle()
    v = torch.tensor([1.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    seen = where(F, 5.0 * v)
    assert seen.names[:2] == ("1.weight", "0.weight")
    assert seen.shares == pytest.approx((4.0 / 6.0, 2.0 / 6.0, 0.0, 0.0))
    assert seen.sizes[:2] == (2.0 / 8.0, 4.0 / 8.0)
    assert str(seen) == "67% in 1.weight, 33% in 0.weight."


def test_verdicts_and_curvatures_have_it() -> None:
    F = hidden_saddle()
    for seen in (is_minimum(F).where(), negative_curvature(F).where()):
        assert sorted(seen.names[:2]) == ["0.weight", "1.weight"]
        assert seen.shares[:2] == pytest.approx((0.5, 0.5), abs=0.02)  # The direction is known to a few per cent.


def test_in_a_metric_it_is_where_the_direction_is_in_your_own_variables() -> None:
    f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[2] ** 2)
    found = negative_curvature(f, torch.zeros(3).double(), metric=torch.tensor([1.0, 2.0, 3.0]).double())
    seen = found.where()
    assert seen.names[0] == "x[1]"


def test_without_a_direction_there_is_nothing_to_tell() -> None:
    bowl = Function(lambda x: x.square().sum())
    for seen in (is_minimum(bowl, torch.zeros(2).double()).where(), negative_curvature(bowl, [0.0, 0.0]).where()):
        assert not seen
        assert str(seen) == "There is no direction of negative curvature."
        with pytest.raises(ValueError, match="there is no direction of negative curvature to draw"):
            seen.plot()


@pytest.mark.parametrize("entry", [0.0, float("nan"), float("inf")])
def test_a_direction_without_a_length_is_refused(entry: float) -> None:
    with pytest.raises(ValueError, match="direction must have a finite length above 0"):
        where(Function(lambda x: x.sum()), torch.tensor([entry, 0.0]))


def test_of_many_variables_the_rest_is_told_together() -> None:
    v = torch.zeros(100)
    v[7], v[8] = 3.0, 1.0
    seen = where(Function(lambda x: x.sum()), v)
    assert str(seen) == "90% in x[7], 10% in x[8]."
    assert sum(seen.shares) == pytest.approx(1.0)
    assert len(seen.plot().axes) == 1


def test_one_other_is_one_other() -> None:
    v = torch.tensor([1.0, 0.1, 0.0])
    assert str(where(Function(lambda x: x.sum()), v)) == "99% in x[0]; 1% in 2 others."
    assert str(where(Function(lambda x: x.sum()), v[:2])) == "99% in x[0]; 1% in 1 other."


def test_a_direction_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="one entry a parameter"):
        where(hidden_saddle(), torch.ones(3).double())


def roots(layers: int, bad: set[int], nan_loss: bool = False, nan_in: str = "") -> ModelObjective:
    """A square root of each tensor, whose gradient is infinite at zero: in the tensors `bad`."""
    model = nn.ParameterDict({f"w{i}": torch.full((2,), 0.0 if i in bad else 1.0) for i in range(layers)})
    if nan_in:
        model[nan_in].data[1] = math.nan

    def loss(model: nn.ParameterDict, batch: torch.Tensor) -> torch.Tensor:
        total = sum(w.sqrt().sum() for w in model.values())
        return total + (math.nan if nan_loss else 0.0)

    return ModelObjective(model, loss, [torch.zeros(1)])


@pytest.mark.parametrize(
    ("F", "told"),
    [
        (roots(3, {1}), "the gradient of w1"),
        (roots(3, {0, 2}), "the gradients of w0, w2"),
        (roots(7, {0, 1, 2, 3, 4, 6}), "the gradients of w0, w1, w2, w3 and 2 more"),
        (roots(2, {0, 1}), "all gradients"),
        (roots(1, {0}), "the gradient of w0"),
        (roots(3, set(), nan_loss=True), "the loss"),
        (roots(3, {2}, nan_loss=True), "the loss and the gradient of w2"),
        (roots(3, {2}, nan_in="w1"), "the parameter w1"),
    ],
)
def test_what_is_not_finite_in_a_model_is_named(F: ModelObjective, told: str) -> None:
    found, verdict = negative_curvature(F), is_minimum(F)
    assert (found.status.name, found.not_finite) == ("NOT_FINITE", told)
    assert f"{told}." in str(found)
    assert verdict.kind == "undecided"
    assert verdict.reason.startswith(f"A value or gradient was NaN or infinite: {told}. Look for NaN and Inf")


def test_what_is_not_finite_in_a_plain_function_or_only_in_the_norm_has_no_name() -> None:
    found = negative_curvature(Function(lambda x: x.sqrt().sum()), torch.zeros(2).double())
    assert (found.status.name, found.not_finite) == ("NOT_FINITE", "")
    verdict = is_minimum(Function(lambda x: x.sqrt().sum()), torch.zeros(2).double())
    assert verdict.reason.startswith("A value or gradient was NaN or infinite. Look")
    model = nn.Linear(2, 1, bias=False).double()
    F = ModelObjective(model, lambda model, batch: 1e308 * model(batch).sum(), [torch.full((1, 2), 1.5).double()])
    found = negative_curvature(F)
    assert (found.status.name, found.not_finite) == ("NOT_FINITE", "")
