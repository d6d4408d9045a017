"""A finite sum over rows of data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Ledger
from unsaddle.objective import BaseObjective, Oracle
from unsaddle.objectives import derivatives
from unsaddle.objectives.double import InDouble, check_keeps_nothing
from unsaddle.objectives.rank_rows import SharedOracle, split_by_rank
from unsaddle.objectives.sampling import draw_indices, take_rows
from unsaddle.ranks import replicated

LAYOUTS = (torch.strided, torch.sparse_csr, torch.sparse_coo)
"""Layouts whose rows can be gathered. CSR is faster than COO."""


class FiniteSum(BaseObjective):
    """F(x) = (1/n) Σ f(x; ξ_i), eq. (2) of the paper: a loss that averages over rows, and the rows.

    Args:
        loss: `loss(x, *rows) -> scalar`, the *mean* over the rows it is given; with `gradient=True`,
            `loss(x, *rows) -> (value, gradient)`.
        tensors: data that share their first dimension n: dense, or sparse in CSR layout.
        gradient: whether `loss` returns its own gradient.
        hvp: `hvp(x, v, *rows)`, if Hessian products are known by hand.
        process_group: ranks that each hold all of x and a part of the rows. F is the mean over all rows. The rows are
            numbered rank by rank, so that the same seed draws the same rows for any number of ranks.

    The rows of a sample are gathered once, when it is drawn.

    >>> mean = FiniteSum(lambda x, t: ((x - t) ** 2).mean(), torch.tensor([[0.0], [1.0], [5.0]]))
    >>> f = mean.sample(2, torch.Generator().manual_seed(0))
    >>> _ = f.value_and_grad(torch.zeros(1))
    >>> f.cost.gradients, f.cost.samples
    (1, 2)
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        *tensors: Tensor,
        gradient: bool = False,
        hvp: Callable[..., Tensor] | None = None,
        process_group: Any = None,
    ) -> None:
        self._set_up(partial(derivatives.of_rows, loss, checks.flag(gradient, "gradient"), hvp), tensors, process_group)
        derivatives.check_callable(loss, "loss", ["x", *(f"rows {i}" for i in range(len(tensors)))])

    @classmethod
    def from_oracle(cls, oracle: Callable[..., Oracle], *tensors: Tensor, process_group: Any = None) -> FiniteSum:
        """A finite sum evaluated by `oracle(*rows)`, which is called once for each sample.

        Use it for a loss that prepares something from its rows, such as the transpose of a sparse matrix.
        """
        self = cls.__new__(cls)
        self._set_up(oracle, tensors, process_group)
        return self

    def _set_up(self, oracle: Callable[..., Oracle], tensors: tuple[Tensor, ...], process_group: Any) -> None:
        for i, tensor in enumerate(tensors):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"data tensor {i} must be a torch.Tensor, got {type(tensor).__name__}")
            if tensor.ndim == 0:
                raise ValueError(f"data tensor {i} must have rows, got a scalar")
            if tensor.layout not in LAYOUTS or (tensor.layout is torch.sparse_csr and tensor.ndim != 2):
                raise TypeError(
                    f"data tensor {i} must be dense or a sparse CSR matrix, got layout {tensor.layout} with "
                    f"{tensor.ndim} dimensions; use .to_sparse_csr() or .to_dense()"
                )
        if not tensors:
            raise ValueError("a FiniteSum needs at least one data tensor; use Function for a function without data")
        sizes = sorted({t.shape[0] for t in tensors})
        if len(sizes) > 1:
            raise ValueError(f"data tensors must share their first dimension, got lengths {sizes}")
        self.ranks = replicated(process_group)
        self._counts = [sizes[0]] if self.ranks is None else self.ranks.gather(sizes[0])
        if sum(self._counts) == 0:
            raise ValueError("the data set is empty; a FiniteSum needs at least one row")
        self._make_oracle, self._tensors = oracle, tensors
        self._everything: Oracle | None = None

    @property
    def num_samples(self) -> int:
        return sum(self._counts)

    @property
    def doubles(self) -> bool:
        return self.ranks is None

    @property
    def double_size(self) -> int:
        return sum(rows.numel() for rows in self._tensors)

    def in_double(self, x: Tensor, ledger: Ledger) -> FiniteSum:
        check_keeps_nothing(self._make_oracle, lambda: self.sample(ledger=ledger).grad(x))
        rows = (t.double() if t.dtype is torch.float32 else t for t in self._tensors)
        return FiniteSum.from_oracle(lambda *rows: InDouble(self._make_oracle(*rows)), *rows)

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        if size is None:
            if self._everything is None:
                self._everything = self._oracle_of(self._tensors, self.num_samples)
            return self._everything, self.num_samples
        index = draw_indices(self.num_samples, size, generator, replacement)
        size = index.numel()
        if self.ranks is not None:
            index = split_by_rank(index, self._counts)[self.ranks.rank]
        return self._oracle_of(tuple(take_rows(t, index) for t in self._tensors), size), size

    def _oracle_of(self, rows: tuple[Tensor, ...], size: int) -> Oracle:
        """The mean over `size` rows on all ranks; `rows` are those of this rank."""
        here = int(rows[0].shape[0])
        own = derivatives.SameDtype(self._make_oracle(*rows), rows) if here else None
        if self.ranks is not None:
            return SharedOracle(own, here / size, self.ranks)
        assert own is not None
        return own
