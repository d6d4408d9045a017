from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unsaddle.objective import SecondOrderFunction
from unsaddle.problems import Problem, sigmoid_least_squares
from unsaddle.problems import sigmoid_least_squares as function
from unsaddle.problems.arguments import generator, normal
from unsaddle.problems.sigmoid_least_squares import LOSS_SECOND, LOSS_THIRD, REGULARISER_SECOND, REGULARISER_THIRD

N, D = 30, 12


def _data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    random = generator(0)
    features = normal(N, D, random=random)
    features[torch.rand(N, D, generator=random) < 0.6] = 0.0
    return features.to(dtype), torch.randint(2, (N,), generator=random)


def _csr(features: Tensor, index: torch.dtype = torch.int64) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        sparse = features.to_sparse_csr()
        crow, col = sparse.crow_indices().to(index), sparse.col_indices().to(index)
        return torch.sparse_csr_tensor(crow, col, sparse.values(), size=features.shape, check_invariants=False)


def _plain(x: Tensor, features: Tensor, labels: Tensor, penalty: float = 3.0) -> Tensor:
    return (x**2 / (1 + x**2)).sum() + penalty * ((labels - torch.sigmoid(features @ x)) ** 2).mean()


def _full(problem: Problem) -> SecondOrderFunction:
    f = problem.objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    return f


@pytest.mark.parametrize("layout", ["dense", "csr", "csr with int32 indices"])
@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_value_gradient_and_hessian_product_are_the_papers(layout: str, size: float) -> None:
    features, labels = _data()
    given = features if layout == "dense" else _csr(features, torch.int32 if "int32" in layout else torch.int64)
    f = _full(sigmoid_least_squares(given, labels, penalty=2.0))
    random = generator(1)
    x, v = size * normal(D, random=random), normal(D, random=random)
    before = x.clone()

    def plain(x: Tensor) -> Tensor:
        return _plain(x, features, labels, 2.0)

    value, grad = f.value_and_grad(x)
    torch.testing.assert_close(value, plain(x))
    torch.testing.assert_close(f.value(x), value)
    torch.testing.assert_close(grad, torch.func.grad(plain)(x), rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(f.hvp(x, v), torch.autograd.functional.hessian(plain, x) @ v, rtol=1e-11, atol=1e-12)
    assert torch.equal(x, before)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_a_sample_keeps_the_regulariser_whole(layout: str) -> None:
    features, labels = _data()
    given = features if layout == "dense" else _csr(features)
    f = sigmoid_least_squares(given, labels).objective.sample(7, generator(5))
    # The same generator shows which rows were drawn.
    rows = sigmoid_least_squares(torch.eye(N, dtype=torch.float64), labels).objective.sample(7, generator(5))
    drawn = rows.grad(torch.zeros(N, dtype=torch.float64)).nonzero().flatten()
    assert len(drawn) == 7
    x = normal(D, random=generator(6))
    expected = torch.func.grad(_plain)(x, features[drawn], labels[drawn])
    torch.testing.assert_close(f.grad(x), expected)


def test_the_residual_keeps_its_digits_on_saturated_rows() -> None:
    features = torch.tensor([[1.0]], dtype=torch.float64)
    f = sigmoid_least_squares(features, torch.tensor([1]), penalty=1.0).objective.sample()
    x = torch.tensor([30.0], dtype=torch.float64)
    s = 1.0 / (1.0 + math.exp(30.0))
    expected = 2 * 30.0 / (1 + 30.0**2) ** 2 - 2 * s**2 * (1 - s)
    assert float(f.grad(x)) == pytest.approx(expected, rel=1e-14)


class _Operations(TorchDispatchMode):
    """Which operations ran, and the largest tensor that one of them made."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.names.append(str(func.overloadpacket))
        if isinstance(result, Tensor) and result.layout is torch.strided and not func.is_view:
            self.largest = max(self.largest, result.numel())
        return result


def test_a_gradient_is_two_matrix_products_and_makes_nothing_larger_than_a_vector() -> None:
    features, labels = _data()
    f = _full(sigmoid_least_squares(features, labels))
    x = normal(D, random=generator(2))
    for ask, products in ((lambda: f.value_and_grad(x), 2), (lambda: f.value(x), 1), (lambda: f.hvp(x, x), 3)):
        with _Operations() as seen:
            ask()
        assert seen.names.count("aten.mv") == products
        assert seen.largest <= max(N, D)


def test_derivatives_of_the_scalar_functions_stay_below_their_bounds_and_reach_them() -> None:
    t = torch.linspace(-6.0, 6.0, 12_001, dtype=torch.float64)

    def bounds(fun: Any) -> tuple[float, float]:
        second = torch.func.vmap(torch.func.grad(torch.func.grad(fun)))
        third = torch.func.vmap(torch.func.grad(torch.func.grad(torch.func.grad(fun))))
        return float(second(t).abs().max()), float(third(t).abs().max())

    for fun, stated in (
        (lambda t: t**2 / (1 + t**2), (REGULARISER_SECOND, REGULARISER_THIRD)),
        (lambda z: torch.sigmoid(z) ** 2, (LOSS_SECOND, LOSS_THIRD)),
        (lambda z: (1 - torch.sigmoid(z)) ** 2, (LOSS_SECOND, LOSS_THIRD)),
    ):
        for reached, bound in zip(bounds(fun), stated, strict=True):
            assert 0.9999 * bound <= reached <= bound * (1 + 1e-12)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_constants_hold_for_the_sum_and_for_single_samples(layout: str) -> None:
    features, labels = _data()
    problem = sigmoid_least_squares(features if layout == "dense" else _csr(features), labels, penalty=20.0)
    assert problem.smoothness is not None
    assert problem.hessian_lipschitz is not None
    random = generator(3)
    for size in (None, 1, 1, 1):
        f = problem.objective.sample(size, None if size is None else random, hessian=True)
        assert isinstance(f, SecondOrderFunction)

        def hessian(x: Tensor, f: SecondOrderFunction = f) -> Tensor:
            return torch.stack([f.hvp(x, e) for e in torch.eye(D, dtype=torch.float64)])

        for _ in range(6):
            x, step = 0.5 * normal(D, random=random), 0.01 * normal(D, random=random)
            assert float(torch.linalg.matrix_norm(hessian(x), ord=2)) <= problem.smoothness
            change = float(torch.linalg.matrix_norm(hessian(x + step) - hessian(x), ord=2))
            assert change <= problem.hessian_lipschitz * float(step.norm())


def test_a_single_long_row_attains_the_smoothness_bound() -> None:
    features = torch.tensor([[100.0]], dtype=torch.float64)
    problem = sigmoid_least_squares(features, torch.tensor([0]))
    f = _full(problem)
    one = torch.ones(1, dtype=torch.float64)
    peak = max(float(f.hvp(one * z / 100.0, one)) for z in torch.linspace(-3, 3, 601).tolist())
    assert problem.smoothness is not None
    assert 0.999 * problem.smoothness <= peak <= problem.smoothness


def test_float32_data_give_a_float32_problem() -> None:
    features, labels = _data(torch.float32)
    problem = sigmoid_least_squares(features, labels)
    assert problem.dtype == torch.float32
    assert problem.dimension == D
    value, grad = problem.objective.sample().value_and_grad(torch.zeros(D))
    assert value.dtype == grad.dtype == torch.float32


def test_labels_may_be_booleans_integers_or_floats() -> None:
    features, labels = _data()
    x = normal(D, random=generator(4))
    values = {float(function(features, y).objective.sample().value(x)) for y in (labels, labels.bool(), labels.float())}
    assert len(values) == 1


def test_a_point_of_another_length_is_refused() -> None:
    features, labels = _data()
    for given in (features, _csr(features)):
        with pytest.raises(ValueError, match="x must have 12 coordinates, the dimension of the problem, got 3"):
            sigmoid_least_squares(given, labels).objective.sample().grad(torch.zeros(3, dtype=torch.float64))


def test_wrong_arguments_are_refused_with_what_to_do() -> None:
    features, labels = _data()
    with pytest.raises(ValueError, match=r"labels must be 0 or 1, got -1; map −1 and \+1 with \(labels \+ 1\) / 2"):
        sigmoid_least_squares(features, 2 * labels - 1)
    with pytest.raises(ValueError, match="labels must have one entry a row"):
        sigmoid_least_squares(features, labels[:-1])
    with pytest.raises(ValueError, match="penalty must be a finite number > 0, got -1"):
        sigmoid_least_squares(features, labels, penalty=-1.0)
    with pytest.raises(ValueError, match="features must be a matrix"):
        sigmoid_least_squares(features[0], labels)
    with pytest.raises(ValueError, match=r"features must be float32 or float64, got torch.int64"):
        sigmoid_least_squares(features.long(), labels)
    with pytest.raises(ValueError, match=r"features must be dense or CSR, got layout torch.sparse_coo"):
        sigmoid_least_squares(features.to_sparse_coo(), labels)
    with pytest.raises(ValueError, match="features must be finite"):
        sigmoid_least_squares(torch.full_like(features, math.nan), labels)
    with pytest.raises(TypeError, match="features must be a dense or CSR tensor, got list"):
        sigmoid_least_squares([[1.0]], torch.tensor([1]))  # type: ignore[arg-type]
