"""Drawing rows and gathering them."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from unsaddle.objectives import sampling
from unsaddle.objectives.sampling import csr_tensor, draw_indices, take_rows


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def forbid(monkeypatch, name: str) -> None:
    def refuse(*args, **kwargs):
        raise AssertionError(f"torch.{name} was called")

    monkeypatch.setattr(torch, name, refuse)


def five_sigma(degrees_of_freedom: int) -> float:
    """A bound for a chi-square number: its mean and five standard deviations. Exceeded with probability < 1e-4."""
    return degrees_of_freedom + 5 * math.sqrt(2 * degrees_of_freedom)


@pytest.mark.parametrize(
    ("n", "size"), [(1, 1), (2, 1), (2, 2), (7, 1), (8, 1), (80, 10), (80, 11), (80, 80), (10**6, 500)]
)
def test_indices_without_replacement_are_distinct_and_in_range(n, size):
    for seed in range(20):
        index = draw_indices(n, size, rng(seed), replacement=False)
        assert index.dtype == torch.long
        assert index.shape == (size,)
        assert 0 <= int(index.min()) <= int(index.max()) < n
        assert len(set(index.tolist())) == size


def test_few_out_of_many_are_drawn_without_a_permutation(monkeypatch):
    forbid(monkeypatch, "randperm")
    assert draw_indices(10**12, 1000, rng(), replacement=False).unique().numel() == 1000


def test_many_are_the_start_of_a_permutation():
    assert torch.equal(draw_indices(20, 9, rng(5), replacement=False), torch.randperm(20, generator=rng(5))[:9])


def test_few_are_the_first_distinct_of_independent_draws(monkeypatch):
    # Two rounds: the first holds four distinct numbers only, and their order of appearance is kept.
    rounds = iter([[7, 3, 7, 7, 9, 3, 9, 3, 1], [7, 4, 9, 5, 5, 2, 2, 2, 2]])
    monkeypatch.setattr(sampling, "_uniform", lambda n, size, generator: torch.tensor(next(rounds)))
    assert draw_indices(40, 5, rng(), replacement=False).tolist() == [7, 3, 9, 1, 4]


@pytest.mark.parametrize("size", [4, 12])  # 4 of 40 takes the path of few out of many, 12 the permutation.
def test_every_index_is_equally_likely_without_replacement(size):
    n, repeats, g = 40, 3000, rng(size)
    counts = torch.zeros(n, dtype=torch.float64)
    for _ in range(repeats):
        counts[draw_indices(n, size, g, replacement=False)] += 1
    # Inclusions of one draw have covariance p(1−p)·n/(n−1)·(I − 11ᵀ/n), p = size/n, so this is chi-square with n−1.
    p = size / n
    statistic = float(((counts - repeats * p) ** 2).sum()) / (repeats * p * (1 - p) * n / (n - 1))
    assert statistic <= five_sigma(n - 1)


def test_every_index_is_equally_likely_with_replacement():
    n, size = 40, 20_000
    counts = draw_indices(n, size, rng(), replacement=True).bincount(minlength=n)
    assert float(((counts - size / n) ** 2).sum()) / (size / n) <= five_sigma(n - 1)


@pytest.mark.parametrize("n", [16, 6])  # 2 of 16 takes the path of few out of many, 2 of 6 the permutation.
def test_every_ordered_pair_is_equally_likely_without_replacement(n):
    pairs = dict.fromkeys(itertools.permutations(range(n), 2), 0)
    repeats, g = 20 * len(pairs), rng(n)
    for _ in range(repeats):
        pairs[tuple(draw_indices(n, 2, g, replacement=False).tolist())] += 1
    statistic = sum((count - 20) ** 2 for count in pairs.values()) / 20
    assert statistic <= five_sigma(len(pairs) - 1)


def test_with_replacement_there_may_be_more_than_n_and_repeats():
    index = draw_indices(3, 100, rng(), replacement=True)
    assert index.shape == (100,)
    assert sorted(set(index.tolist())) == [0, 1, 2]


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("size", [3, 30])
def test_same_seed_same_indices_and_other_seeds_differ(size, replacement):
    first, again, other = (draw_indices(100, size, rng(seed), replacement) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_more_than_n_distinct_indices_are_refused():
    with pytest.raises(ValueError, match=r"size must be at most n=5 when samples are distinct, got 6; leave it out to"):
        draw_indices(5, 6, rng(), replacement=False)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, ValueError, "size must be at least 1, got 0"),
        (-1, ValueError, "size must be at least 1, got -1"),
        (2.0, TypeError, "size must be an integer, got 2.0"),
        (True, TypeError, "size must be an integer, got True"),
    ],
)
def test_a_bad_size_is_refused(size, error, message, replacement):
    with pytest.raises(error, match=message):
        draw_indices(5, size, rng(), replacement)


@pytest.mark.parametrize("replacement", [False, True])
def test_randomness_must_be_a_torch_generator(replacement):
    with pytest.raises(ValueError, match=r"drawing samples needs a generator, got None; pass torch.Generator"):
        draw_indices(5, 2, None, replacement)
    for wrong in (0, np.random.default_rng(0)):
        with pytest.raises(TypeError, match="drawing samples needs a generator, got"):
            draw_indices(5, 2, wrong, replacement)


@pytest.mark.parametrize("shape", [(6,), (6, 3), (6, 2, 2), (6, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_rows_of_a_dense_tensor_are_copied_in_the_order_of_the_indices(shape, dtype):
    data = torch.randn(shape, generator=rng()).to(dtype)
    index = torch.tensor([4, 0, 4])
    rows = take_rows(data, index)
    assert torch.equal(rows, torch.stack([data[4], data[0], data[4]]))
    assert rows.is_contiguous()
    rows.zero_()
    assert torch.equal(data, torch.randn(shape, generator=rng()).to(dtype))


# Rows 0, 3 and 5 are empty, row 2 is full.
DENSE = torch.tensor(
    [[0, 0, 0, 0], [0, 1, 0, 2], [3, 4, 5, 6], [0, 0, 0, 0], [0, 0, 7, 0], [0, 0, 0, 0]], dtype=torch.float64
)


def csr(dense: torch.Tensor, index_dtype: torch.dtype = torch.int64) -> torch.Tensor:
    row, col = dense.nonzero(as_tuple=True)
    crow = torch.cat([torch.zeros(1, dtype=torch.long), row.bincount(minlength=len(dense)).cumsum(0)])
    return csr_tensor(crow.to(index_dtype), col.to(index_dtype), dense[row, col], tuple(dense.shape))


@pytest.mark.parametrize("index_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "index",
    [[2], [0], [0, 3, 5], [5, 4, 3, 2, 1, 0], [2, 2, 2], [1, 0, 1, 5, 1], [0, 1, 2, 3, 4, 5]],
    ids=["full", "empty", "all empty", "reversed", "repeated", "repeated and empty", "everything"],
)
def test_rows_of_a_csr_tensor_are_the_rows_of_the_dense_one(index, dtype, index_dtype):
    dense, index = DENSE.to(dtype), torch.tensor(index)
    matrix = csr(dense, index_dtype)
    rows = take_rows(matrix, index)
    assert rows.layout is torch.sparse_csr
    assert rows.dtype == dtype
    # What was gathered is again a CSR tensor by torch's own rules, among them one type for both kinds of indices.
    torch._validate_sparse_csr_tensor_args(rows.crow_indices(), rows.col_indices(), rows.values(), rows.shape)
    assert rows.crow_indices().dtype == rows.col_indices().dtype == index_dtype
    assert torch.equal(rows.to_dense(), dense[index])
    x = torch.arange(4, dtype=dtype)
    assert torch.equal(rows @ x, dense[index] @ x)
    rows.values().zero_()
    assert torch.equal(matrix.to_dense(), dense)


def test_random_rows_of_a_random_csr_tensor_are_the_rows_of_the_dense_one():
    for seed in range(20):
        g = rng(seed)
        dense = torch.randn(30, 8, generator=g) * (torch.rand(30, 8, generator=g) < 0.2)
        index = draw_indices(30, 25, g, replacement=bool(seed % 2))
        assert torch.equal(take_rows(csr(dense), index).to_dense(), dense[index])


def test_a_csr_tensor_without_entries_has_rows():
    assert torch.equal(take_rows(csr(torch.zeros(4, 3)), torch.tensor([1, 1])).to_dense(), torch.zeros(2, 3))


def test_zeros_stored_in_a_csr_tensor_stay_stored():
    matrix = csr_tensor(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), torch.tensor([0.0, 5.0]), (2, 2))
    rows = take_rows(matrix, torch.tensor([1, 0]))
    assert rows.values().tolist() == [0.0, 5.0]
    assert rows.to_dense().tolist() == [[0.0, 0.0], [0.0, 5.0]]


@pytest.mark.slow
def test_making_a_csr_tensor_is_silent_in_a_fresh_process():
    # torch warns once a process, of a layout in beta and of checks switched off, so only the first tensor shows it.
    code = (
        "import torch; from unsaddle.objectives.sampling import csr_tensor;"
        "csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))"
    )
    run = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""


@pytest.mark.parametrize(("n", "size"), [(9, 1), (80, 10), (1024, 128), (10**6, 100)])
def test_few_indices_are_the_same_whether_told_apart_in_a_dictionary_or_by_sorting(n, size, monkeypatch):
    quick = [draw_indices(n, size, rng(seed), False) for seed in range(20)]
    monkeypatch.setattr(sampling, "FEW", 0)
    slow = [draw_indices(n, size, rng(seed), False) for seed in range(20)]
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(quick, slow, strict=True))
