"""Any metric: a clear error if it is no metric, and the verdict of no metric if it is. The truth is a dense Hessian."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.metric.given import as_map

D = 8
ORDERS = 12.0
"""Of magnitude: two more than a map keeps."""

EXPONENTS = st.lists(st.floats(-ORDERS / 2.0, ORDERS / 2.0), min_size=D, max_size=D)
WRONG = st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf])


def case(seed: int, lowest: float) -> tuple[Function, Tensor]:
    """A quartic at a stationary point; and its Hessian, with eigenvalues from 0.1 to 1, but the lowest."""
    generator = torch.Generator().manual_seed(seed)
    axes, _ = torch.linalg.qr(torch.randn(D, D, generator=generator, dtype=torch.float64))
    values = torch.linspace(0.1, 1.0, D, dtype=torch.float64)
    values[0] = lowest
    h = axes @ torch.diag(values) @ axes.T
    return Function(lambda x: x @ (h @ x) / 2.0 + (x**4).sum() / 24.0), h


@settings(max_examples=60, deadline=None, derandomize=True)
@given(EXPONENTS, st.integers(0, 5), st.sampled_from([-0.6, -0.1, 0.05, 0.2]), st.booleans())
def test_a_metric_changes_no_verdict(exponents: list[float], seed: int, lowest: float, as_matrix: bool) -> None:
    (f, h), sizes = case(seed, lowest), 10.0 ** torch.tensor(exponents, dtype=torch.float64)
    x = torch.zeros(D, dtype=torch.float64)
    verdict = is_minimum(f, x, metric=torch.diag(sizes) if as_matrix else sizes, seed=seed)
    assert verdict.kind in (is_minimum(f, x, seed=seed).kind, "undecided")
    assert verdict.kind in ("saddle" if lowest < 0.0 else "minimum", "undecided")
    assert lowest >= -verdict.bound - 1e-9
    if verdict.kind == "saddle":
        assert verdict.direction is not None
        assert float(verdict.direction @ h @ verdict.direction) < 0.0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(EXPONENTS)
def test_sizes_of_any_range_are_bounded(exponents: list[float]) -> None:
    f, _ = case(0, 0.1)
    scaling = as_map(10.0 ** np.array(exponents), f, torch.zeros(D, dtype=torch.float64))
    assert 1.0 <= scaling.largest / scaling.smallest <= 1.001e10


@settings(max_examples=40, deadline=None, derandomize=True)
@given(EXPONENTS, st.integers(0, D - 1), WRONG)
def test_an_entry_that_is_no_size_is_named(exponents: list[float], index: int, wrong: float) -> None:
    f, _ = case(0, 0.1)
    sizes = 10.0 ** torch.tensor(exponents, dtype=torch.float64)
    sizes[index] = wrong
    with pytest.raises(ValueError, match=f"finite sizes > 0, got .* for variable {index}"):
        is_minimum(f, torch.zeros(D, dtype=torch.float64), metric=sizes)


@settings(deadline=None, derandomize=True)
@given(st.integers(1, 20).filter(lambda n: n != D))
def test_a_wrong_length_is_told(length: int) -> None:
    f, _ = case(0, 0.1)
    with pytest.raises(ValueError, match="an entry for each variable"):
        is_minimum(f, torch.zeros(D, dtype=torch.float64), metric=torch.ones(length))
