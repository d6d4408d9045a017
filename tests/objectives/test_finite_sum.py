"""A finite sum over rows of data."""

import itertools
import math

import numpy as np
import pytest
import torch

from unsaddle.cost import Cost, Ledger
from unsaddle.objectives import FiniteSum, finite_sum
from unsaddle.objectives.derivatives import Autograd
from unsaddle.objectives.sampling import csr_tensor

N, D = 12, 3


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


A, B, X, V = normal(N, D, seed=1), normal(N, seed=2), normal(D, seed=3), normal(D, seed=4)


def loss(x, a, b):
    return ((a @ x - b) ** 2).mean() / 2


def by_hand(x, a, b):
    residual = a @ x - b
    return (residual**2).mean() / 2, a.T @ residual / len(b)


def product(x, v, a, b):
    return a.T @ (a @ v) / len(b)


LEAST_SQUARES = [FiniteSum(loss, A, B), FiniteSum(by_hand, A, B, gradient=True, hvp=product)]
either = pytest.mark.parametrize("F", LEAST_SQUARES, ids=["autograd", "by hand"])


class Recorder:
    """A loss that keeps the rows of every call."""

    def __init__(self):
        self.calls = []

    def __call__(self, x, *rows):
        self.calls.append(rows)
        return (x**2).sum()


def rows_of(F, *args, **kwargs):
    """The labels of the rows in a sample, from a finite sum whose only data are labels."""
    seen = []
    FiniteSum(lambda x, i: seen.append(i) or x.sum(), torch.arange(F)).sample(*args, **kwargs).value(torch.ones(1))
    return seen[0].tolist()


@either
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_everything_gives_the_closed_forms_of_least_squares(F, dtype):
    a, b, x, v = (t.to(dtype) for t in (A, B, X, V))
    if dtype == torch.float32:
        F = FiniteSum(by_hand, a, b, gradient=True, hvp=product) if F is LEAST_SQUARES[1] else FiniteSum(loss, a, b)
    f = F.sample(hessian=True)
    value, grad = f.value_and_grad(x)
    residual, hessian = a @ x - b, a.T @ a / N
    assert value.dtype == grad.dtype == dtype
    torch.testing.assert_close(value, residual @ residual / (2 * N))
    torch.testing.assert_close(f.value(x), value)
    torch.testing.assert_close(grad, a.T @ residual / N)
    torch.testing.assert_close(f.hvp(x, v), hessian @ v)


def test_hessian_products_of_a_curved_loss_equal_the_dense_hessian():
    def curved(x, a, b):
        return ((a @ x).tanh() - b).square().mean()

    f = FiniteSum(curved, A, B).sample(hessian=True)
    dense = torch.autograd.functional.hessian(lambda x: curved(x, A, B), X)
    torch.testing.assert_close(f.hvp(X, V), dense @ V, rtol=1e-12, atol=1e-13)


@either
@pytest.mark.parametrize(("size", "counted"), [(None, N), (1, 1), (5, 5), (N, N)])
def test_calls_count_the_samples_they_touch_and_nothing_else(F, size, counted):
    f = F.sample(size, rng(), hessian=True)
    assert f.size == counted
    f.grad(X)
    f.value_and_grad(X)
    f.value(X)
    f.hvp(X, V)
    assert f.cost == Cost(
        gradients=2,
        samples=2 * counted,
        values=1,
        value_samples=counted,
        hessian_products=1,
        hessian_samples=counted,
    )


@either
def test_one_ledger_counts_everything_and_samples_together(F):
    ledger, g = Ledger(), rng()
    for size in (None, 3, 4):
        F.sample(size, g, ledger=ledger).grad(X)
    assert ledger.cost == Cost(gradients=3, samples=N + 7)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64])
def test_a_size_from_numpy_is_counted_without_overflow(kind):
    f = FiniteSum(loss, normal(300, D), normal(300)).sample(kind(100), rng())
    for _ in range(3):
        f.grad(X)
    assert f.cost == Cost(gradients=3, samples=300)
    assert type(f.size) is type(f.cost.samples) is int


@either
def test_a_loss_that_fails_is_not_counted(F):
    f = F.sample(4, rng(), hessian=True)
    short = torch.ones(D - 1, dtype=torch.float64)
    for call in (f.value, f.value_and_grad, lambda x: f.hvp(x, x)):
        with pytest.raises(RuntimeError, match="size"):
            call(short)
    assert f.cost == Cost()


def test_rows_are_gathered_once_when_the_sample_is_drawn(monkeypatch):
    gathered = []

    def count(tensor, index):
        gathered.append(tensor)
        return take_rows(tensor, index)

    take_rows = finite_sum.take_rows
    monkeypatch.setattr(finite_sum, "take_rows", count)
    recorder = Recorder()
    f = FiniteSum(recorder, A, B).sample(4, rng(), hessian=True)
    assert len(gathered) == 2
    assert gathered[0] is A
    assert gathered[1] is B
    f.value(X)
    f.value_and_grad(X)
    f.hvp(X, V)
    assert len(gathered) == 2
    first = recorder.calls[0]
    assert all(rows[i] is first[i] for rows in recorder.calls for i in range(2))


def test_everything_is_the_data_themselves_and_is_not_copied():
    recorder = Recorder()
    f = FiniteSum(recorder, A, B).sample()
    f.grad(X)
    assert recorder.calls[0][0] is A
    assert recorder.calls[0][1] is B


def test_everything_needs_no_generator_and_leaves_one_alone():
    g = rng()
    state = g.get_state()
    LEAST_SQUARES[0].sample(None, g).grad(X)
    assert torch.equal(g.get_state(), state)


def test_a_sample_does_not_change_when_the_data_do():
    data = A.clone()
    f = FiniteSum(loss, data, B).sample(5, rng())
    before = f.grad(X)
    data.zero_()
    assert torch.equal(f.grad(X), before)


def test_tensors_are_gathered_with_the_same_rows():
    recorder = Recorder()
    labels = torch.arange(N)
    FiniteSum(recorder, A, labels, A.T.contiguous().T).sample(5, rng()).value(X)
    a, index, strided = recorder.calls[0]
    assert torch.equal(a, A[index])
    assert torch.equal(strided, A[index])


def test_rows_are_distinct_unless_replacement_is_asked_for():
    for seed in range(20):
        assert sorted(rows_of(20, 20, rng(seed))) == list(range(20))
    # Twenty independent draws of twenty are all distinct with probability 20!/20^20 = 2e-8.
    assert len(set(rows_of(20, 20, rng(), replacement=True))) < 20
    assert len(rows_of(20, 50, rng(), replacement=True)) == 50


def test_everything_is_every_row_once_even_with_replacement():
    assert rows_of(9, None, rng(), replacement=True) == list(range(9))


@either
def test_a_sample_of_all_n_rows_is_the_whole_sum(F):
    everything, shuffled = F.sample(), F.sample(N, rng())
    torch.testing.assert_close(shuffled.grad(X), everything.grad(X), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_average_over_all_samples_is_the_whole_sum(monkeypatch, size):
    F, subsets = LEAST_SQUARES[0], list(itertools.combinations(range(N), size))
    remaining = iter(subsets)
    monkeypatch.setattr(finite_sum, "draw_indices", lambda *args: torch.tensor(next(remaining)))
    answers = [F.sample(size, rng()).value_and_grad(X) for _ in subsets]
    value, grad = F.sample().value_and_grad(X)
    torch.testing.assert_close(torch.stack([a[0] for a in answers]).mean(), value, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(torch.stack([a[1] for a in answers]).mean(dim=0), grad, rtol=1e-12, atol=1e-13)


@either
@pytest.mark.parametrize("replacement", [False, True])
def test_gradients_of_random_samples_average_to_the_gradient_of_the_sum(F, replacement):
    size, repeats, g = 4, 500, rng(7)
    mean = torch.stack([F.sample(size, g, replacement=replacement).grad(X) for _ in range(repeats)]).mean(dim=0)
    components = A * (A @ X - B)[:, None]
    # Variance of a mean of `size` of N, corrected for distinct ones; then five standard errors of the average.
    variance = components.var(dim=0, correction=0) / size * (1 if replacement else (N - size) / (N - 1))
    assert bool(((mean - components.mean(dim=0)).abs() <= 5 * (variance / repeats).sqrt()).all())


def test_a_single_row_is_a_finite_sum():
    F = FiniteSum(loss, A[:1], B[:1])
    assert F.num_samples == 1
    expected = A[0] * (A[0] @ X - B[0])
    for f in (F.sample(), F.sample(1, rng()), F.sample(3, rng(), replacement=True)):
        torch.testing.assert_close(f.grad(X), expected)
    with pytest.raises(ValueError, match=r"size must be at most n=1 when samples are distinct, got 2"):
        F.sample(2, rng())


def sparse(dense: torch.Tensor) -> torch.Tensor:
    row, col = dense.nonzero(as_tuple=True)
    crow = torch.cat([torch.zeros(1, dtype=torch.long), row.bincount(minlength=len(dense)).cumsum(0)])
    return csr_tensor(crow, col, dense[row, col], tuple(dense.shape))


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("size", [None, 1, 2, 9, 40])
def test_sparse_data_give_the_answers_of_dense_data(size, replacement):
    dense = normal(40, D) * (torch.rand(40, D, generator=rng(), dtype=torch.float64) < 0.3)
    labels = normal(40, seed=5)
    assert int((dense == 0).all(dim=1).sum()) > 0  # Empty rows are among them.

    def answers(data):
        # By hand, without a.T @ r, which torch does not know for CSR.
        def formula(x, a, b):
            residual = a @ x - b
            return (residual**2).mean() / 2, a.to_dense().T @ residual / len(b)

        return (
            FiniteSum(formula, data, labels, gradient=True)
            .sample(size, rng(3), replacement=replacement)
            .value_and_grad(X)
        )

    (value, grad), (expected_value, expected_grad) = answers(sparse(dense)), answers(dense)
    torch.testing.assert_close(value, expected_value)
    torch.testing.assert_close(grad, expected_grad)


def test_sparse_coo_data_can_be_sampled_too():
    data = torch.eye(N, D, dtype=torch.float64)
    dense, coo = (FiniteSum(loss, t, B).sample(5, rng()).grad(X) for t in (data, data.to_sparse()))
    torch.testing.assert_close(coo, dense)


def test_data_that_require_grad_get_none():
    data = A.clone().requires_grad_()
    f = FiniteSum(loss, data, B).sample(5, rng(), hessian=True)
    for _ in range(2):  # Twice: the graph of the gathered rows must survive the first gradient.
        grad, hessian_product = f.grad(X), f.hvp(X, V)
    assert not grad.requires_grad
    assert not hessian_product.requires_grad
    assert data.grad is None


def test_an_oracle_is_made_once_for_each_sample_and_once_for_everything():
    made = []

    def make(a, b):
        made.append(len(b))
        return Autograd(lambda x: loss(x, a, b))

    F = FiniteSum.from_oracle(make, A, B)
    assert made == []
    torch.testing.assert_close(F.sample().grad(X), LEAST_SQUARES[0].sample().grad(X))
    F.sample(hessian=True).hvp(X, V)
    f = F.sample(4, rng())
    f.grad(X)
    f.value(X)
    assert made == [N, 4]
    assert torch.equal(f.grad(X), LEAST_SQUARES[0].sample(4, rng()).grad(X))
    assert f.cost == Cost(gradients=2, samples=8, values=1, value_samples=4)


@either
@pytest.mark.parametrize("size", [None, 4])
def test_x_in_another_precision_than_the_data_is_refused_and_not_counted(F, size):
    f = F.sample(size, rng(), hessian=True)
    for call in (f.value, f.value_and_grad, lambda x: f.hvp(x, x)):
        with pytest.raises(TypeError, match=r"x is torch.float32 on cpu, but data tensor 0 is torch.float64 on cpu"):
            call(X.float())
    assert f.cost == Cost()


def test_data_on_another_device_are_refused():
    f = FiniteSum(loss, A.to("meta"), B).sample()
    with pytest.raises(TypeError, match=r"data tensor 0 is torch.float64 on meta"):
        f.grad(X)


@pytest.mark.parametrize(
    ("tensors", "error", "message"),
    [
        ((), ValueError, "a FiniteSum needs at least one data tensor; use Function"),
        ((torch.empty(0, 3),), ValueError, "the data set is empty; a FiniteSum needs at least one row"),
        ((torch.ones(5, 3), torch.ones(4)), ValueError, r"must share their first dimension, got lengths \[4, 5\]"),
        ((torch.ones(5), torch.empty(0)), ValueError, r"must share their first dimension, got lengths \[0, 5\]"),
        ((torch.tensor(1.0),), ValueError, "data tensor 0 must have rows, got a scalar"),
        ((torch.ones(3), np.ones(3)), TypeError, "data tensor 1 must be a torch.Tensor, got ndarray"),
        (([1.0, 2.0],), TypeError, "data tensor 0 must be a torch.Tensor, got list"),
    ],
)
def test_bad_data_are_refused(tensors, error, message):
    with pytest.raises(error, match=message):
        FiniteSum(loss, *tensors)
    with pytest.raises(error, match=message):
        FiniteSum.from_oracle(lambda *rows: None, *tensors)


def test_sparse_layouts_whose_rows_cannot_be_gathered_are_refused():
    matrix = sparse(torch.eye(4))
    csc = torch.sparse_csc_tensor(
        matrix.crow_indices(), matrix.col_indices(), matrix.values(), size=(4, 4), check_invariants=True
    )
    with pytest.raises(
        TypeError, match=r"must be dense or a sparse CSR matrix, got layout torch.sparse_csc .*\.to_sparse_csr"
    ):
        FiniteSum(loss, csc)


@pytest.mark.parametrize(
    ("size", "generator", "error", "message"),
    [
        (N + 1, rng(), ValueError, f"size must be at most n={N} when samples are distinct, got {N + 1}"),
        (0, rng(), ValueError, "size must be at least 1, got 0"),
        (2.0, rng(), TypeError, "size must be an integer, got 2.0"),
        (math.nan, rng(), TypeError, "size must be an integer, got nan"),
        (3, None, ValueError, "drawing samples needs a generator, got None"),
        (3, 42, TypeError, "drawing samples needs a generator, got 42"),
    ],
)
def test_a_bad_sample_is_refused(size, generator, error, message):
    with pytest.raises(error, match=message):
        LEAST_SQUARES[0].sample(size, generator)


def test_a_loss_that_does_not_average_its_rows_is_refused():
    f = FiniteSum(lambda x, a, b: (a @ x - b) ** 2, A, B).sample(5, rng())
    with pytest.raises(
        ValueError, match=r"must return a scalar, got a tensor of shape \(5,\); reduce it with .mean\(\)"
    ):
        f.grad(X)
    assert f.cost == Cost()


def test_a_loss_that_does_not_depend_on_x_warns_and_has_zero_gradient():
    f = FiniteSum(lambda x, a, b: b.mean(), A, B).sample(5, rng())
    with pytest.warns(RuntimeWarning, match="does not depend on x through autograd"):
        assert torch.equal(f.grad(X), torch.zeros_like(X))


def test_a_loss_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="loss must be callable, got Tensor"):
        FiniteSum(A, B)
