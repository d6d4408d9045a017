"""What may be handed in as a metric, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, rosen, rosen_der
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsaddle import Function, ModelObjective
from unsaddle.metric.given import as_map
from unsaddle.metric.maps import Dense, Diagonal, Map
from unsaddle.ranks import Ranks, together

X = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
F = Function(lambda x: x.square().sum())


def matrix(scaling: Map, like: Tensor = X) -> Tensor:
    return torch.stack([scaling.apply(row) for row in torch.eye(len(like)).to(like)])


@pytest.mark.parametrize(
    "sizes",
    [
        [1, 10, 100],
        (1.0, 10.0, 100.0),
        np.array([1.0, 10.0, 100.0]),
        torch.tensor([1, 10, 100]),
        torch.tensor([1e-60, 1e-59, 1e-58], dtype=torch.float64),
        nn.Parameter(torch.tensor([1.0, 10.0, 100.0])),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sizes_of_variables(sizes: Any, dtype: torch.dtype) -> None:
    scaling = as_map(sizes, F, X.to(dtype))
    assert isinstance(scaling, Diagonal)
    torch.testing.assert_close(scaling.apply(torch.ones(3, dtype=dtype)), torch.tensor([0.1, 1.0, 10.0], dtype=dtype))


def test_sizes_in_the_dtype_of_x_are_not_copied() -> None:
    sizes = torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    scaling = as_map(sizes, F, X)
    assert isinstance(scaling, Diagonal)
    assert scaling.scale.data_ptr() == sizes.data_ptr()
    assert sizes.tolist() == [1.0, 10.0, 100.0]


def same_up_to_a_factor(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a / a.norm(), b / b.norm())


def test_an_inverse_hessian_of_scipy_is_s_squared() -> None:
    x = torch.tensor([1.2, 1.1, 1.3, 1.0], dtype=torch.float64)
    by_bfgs = minimize(rosen, x.numpy(), jac=rosen_der, method="BFGS").hess_inv
    by_lbfgs = minimize(rosen, x.numpy(), jac=rosen_der, method="L-BFGS-B").hess_inv
    for given, dense in ((by_bfgs, by_bfgs), (by_lbfgs, by_lbfgs.todense())):
        scaling = as_map(given, F, x)
        assert isinstance(scaling, Dense)
        same_up_to_a_factor(matrix(scaling, x) @ matrix(scaling, x), torch.from_numpy(np.array(dense)))


class Maps:
    def __init__(self, s: Tensor, back: Tensor | None = None) -> None:
        self.s, self.back = s, s.T if back is None else back

    def apply(self, z: Tensor) -> Tensor:
        return self.s @ z

    def transpose(self, g: Tensor) -> Tensor:
        return self.back @ g


S = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.3, 0.0, 4.0]], dtype=torch.float64)


def test_two_maps_are_taken_for_what_they_make_of_a_sphere() -> None:
    scaling = as_map(Maps(S), F, X)
    same_up_to_a_factor(matrix(scaling) @ matrix(scaling), S @ S.T)


NAN = float("nan")
WRONG: list[tuple[Any, type[Exception], str]] = [
    ([1.0, 0.0, 2.0], ValueError, "finite sizes > 0, got 0.0 for variable 1"),
    ([1.0, -1.0, -2.0], ValueError, r"got -1.0 for variable 1 \(2 are wrong\); give the typical size"),
    ([1.0, NAN, 2.0], ValueError, "got nan for variable 1"),
    ([1.0, float("inf"), 2.0], ValueError, "got inf for variable 1"),
    ([1.0, 2.0], ValueError, r"shape \(3,\) or \(3, 3\), got \(2,\)"),
    (torch.ones(3, 2), ValueError, r"shape \(3,\) or \(3, 3\), got \(3, 2\)"),
    (torch.ones(1, 1, 3), TypeError, r"got float32 of shape \(1, 1, 3\); sizes have one dimension"),
    (2.0, TypeError, "one dimension"),
    (torch.ones(3, dtype=torch.bool), TypeError, "got bool"),
    ("adam", TypeError, "positive sizes of the variables, a torch optimizer, .* got str"),
    (["a", "b", "c"], TypeError, "got list"),
    (object(), TypeError, "got object"),
    (torch.diag(torch.tensor([1.0, -1.0, 1.0])), ValueError, "positive definite, got an inverse Hessian .* of -1; add"),
    (torch.zeros(3, 3), ValueError, "positive definite"),
    (S, ValueError, "symmetric, got an inverse Hessian that differs from its transpose by 1"),
    (torch.full((3, 3), NAN), ValueError, "finite"),
    (Maps(S, S), ValueError, "transpose of metric.apply"),
    (Maps(torch.diag(torch.tensor([1.0, 0.0, 2.0], dtype=torch.float64))), ValueError, "must be invertible"),
    (Maps(S * NAN), ValueError, "finite vectors of shape"),
    (Maps(S[:2], S[:2].T), ValueError, r"vectors of shape \(3,\)"),
]


@pytest.mark.parametrize(("metric", "error", "message"), WRONG)
def test_a_wrong_metric_is_refused(metric: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_map(metric, F, X)


def test_a_matrix_of_many_variables_is_refused() -> None:
    x = torch.ones(1001)
    for metric in (torch.eye(1001), Maps(torch.eye(1001))):
        with pytest.raises(ValueError, match=re.escape("for more than 1000 variables")):
            as_map(metric, F, x)


def test_an_operator_of_many_variables_is_refused_before_it_is_made_dense() -> None:
    class Large:
        shape = (1001, 1001)

        def todense(self) -> Tensor:
            raise AssertionError("made dense")

    with pytest.raises(ValueError, match=re.escape("for more than 1000 variables")):
        as_map(Large(), F, torch.ones(1001))


def test_sizes_may_be_sharded_and_a_matrix_may_not() -> None:
    with together(Ranks(group=None, dimension=3, pieces=((0, 3),), replicas=1)):
        scaling = as_map([1.0, 10.0, 100.0], F, X)
        assert (scaling.smallest, scaling.largest) == (pytest.approx(0.1), pytest.approx(10.0))
        with pytest.raises(ValueError, match="or for sharded ones, got a matrix or maps of 3"):
            as_map(torch.eye(3), F, X)


# --- Optimizers -----------------------------------------------------------------------------------------------------

BETA, STEPS = 0.9, 3
OPTIMIZERS: dict[str, Any] = {
    "Adam": lambda p: torch.optim.Adam(p, betas=(0.9, BETA)),
    "AdamW": lambda p: torch.optim.AdamW(p, betas=(0.9, BETA)),
    "RMSprop": lambda p: torch.optim.RMSprop(p, alpha=BETA),
    "Adagrad": torch.optim.Adagrad,
}


def model() -> tuple[nn.Module, ModelObjective]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    data = TensorDataset(torch.randn(20, 3, dtype=torch.float64))
    return net, ModelObjective(net, lambda m, batch: m(batch[0]).square().mean(), data)


def trained(optimizer: torch.optim.Optimizer, net: nn.Module) -> Tensor:
    """Takes steps on gradients of ones, twos, ... times a vector; returns the squares, in the model's order."""
    squares = []
    for step in range(1, STEPS + 1):
        g = [step * torch.arange(1.0, p.numel() + 1.0, dtype=p.dtype).view_as(p) for p in net.parameters()]
        for p, grad in zip(net.parameters(), g, strict=True):
            p.grad = grad
        optimizer.step()
        squares.append(torch.cat([grad.flatten() for grad in g]).square())
    return torch.stack(squares)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_second_moments_of_optimizers_in_the_order_of_the_model(name: str) -> None:
    """The mean of squares with weights that decay by β, or without for Adagrad, from what torch did with gradients."""
    net, objective = model()
    groups = [{"params": list(net[2].parameters())}, {"params": list(net[0].parameters())}]  # type: ignore[index]
    optimizer = OPTIMIZERS[name](groups)
    squares = trained(optimizer, net)
    weights = torch.tensor([1.0 if name == "Adagrad" else BETA ** (STEPS - k) for k in range(1, STEPS + 1)]).double()
    mean = (weights @ squares) / weights.sum()
    expected = 1.0 / (mean.sqrt() + 0.03 * mean.mean().sqrt())
    scaling = as_map(optimizer, objective, objective.point)
    assert isinstance(scaling, Diagonal)
    torch.testing.assert_close(scaling.apply(torch.ones_like(expected)), expected / expected.log().mean().exp())


def test_parameters_without_a_gradient_have_a_bounded_size() -> None:
    """One that never had a gradient is at most 33 times as large as if it had the mean one; without any, all are 1."""
    net, objective = model()
    optimizer = torch.optim.Adam(net.parameters())
    trained(optimizer, net)
    optimizer.state[net[0].weight]["exp_avg_sq"].zero_()  # type: ignore[index]
    scaling = as_map(optimizer, objective, objective.point)
    assert isinstance(scaling, Diagonal)
    assert scaling.largest / scaling.smallest < 1e3
    for state in optimizer.state.values():
        state["exp_avg_sq"].zero_()
    scaling = as_map(optimizer, objective, objective.point)
    assert scaling.smallest == scaling.largest == 1.0


def test_an_optimizer_without_moments_or_of_others_is_refused() -> None:
    net, objective = model()
    for optimizer in (torch.optim.Adam(net.parameters()), torch.optim.SGD(net.parameters(), lr=0.1)):
        with pytest.raises(ValueError, match=f"got {type(optimizer).__name__} without any; train first"):
            as_map(optimizer, objective, objective.point)
    half = torch.optim.Adam(net[0].parameters())  # type: ignore[index]
    trained(half, net)
    with pytest.raises(ValueError, match=re.escape("got one without '2.weight'; pass the one that trains it")):
        as_map(half, objective, objective.point)
    with pytest.raises(TypeError, match="objective over a model's parameters, got Adam with a Function"):
        as_map(half, F, X)
    for state in half.state.values():
        state["exp_avg_sq"].fill_(NAN)
    half.add_param_group({"params": list(net[2].parameters())})  # type: ignore[index]
    with pytest.raises(ValueError, match="finite second moments"):
        as_map(half, objective, objective.point)
