"""Vectors that a probe of a model holds at its worst moment, counted by what torch allocates and has not freed."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import TensorDataset

from unsaddle import ModelObjective, negative_curvature, vectors
from unsaddle.curvature import Status

WIDTH, BRANCHES = 64, 4
VECTOR = 4 * BRANCHES * 2 * WIDTH**2
"""Bytes of one."""


class Alive(TorchDispatchMode):
    """Bytes of all storages that operations inside have made and that are still there, at most."""

    def __init__(self, *before: torch.Tensor) -> None:
        super().__init__()
        self.peak = 0
        self._known = {t.untyped_storage()._cdata for t in before}
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}
        self._most = 0  # At least the bytes of all that is still there.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, torch.Tensor):
                self._note(result.untyped_storage())
        if self._most > self.peak:  # Only then it matters what of it is gone.
            self._made = {key: made for key, made in self._made.items() if not made[0].expired()}
            self._most = sum(size for _, size in self._made.values())
            self.peak = max(self.peak, self._most)
        return results

    def _note(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._known or (key in self._made and not self._made[key][0].expired()):
            return
        self._most += storage.nbytes()
        self._made[key] = StorageWeakRef(storage), storage.nbytes()


class Sum(nn.Module):
    """Of networks of two layers: no layer's gradient is much of a vector."""

    def __init__(self) -> None:
        super().__init__()
        layers = [[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)] for _ in range(BRANCHES)]
        self.branches = nn.ModuleList(nn.Sequential(*pair) for pair in layers)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return sum(branch(rows) for branch in self.branches)


def loss(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


HELD = {
    "neon2-det": 4,  # x, two y, ∇f(x)
    "neon2-online": 3,  # x, ∇f(x) and v, where L1 is measured
    "oja-first-order": 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("method", HELD)
def test_gradients_add_up_in_what_an_extractor_holds_anyway(method, monkeypatch):
    """All the way to a direction that is found and confirmed on fresh samples, in several micro batches: beside the
    parameters and their own gradients so many vectors, and less than half of one for rows, activations and blocks."""
    monkeypatch.setattr(vectors, "BLOCK_BYTES", 1 << 14)  # Room of the size of a block is no vector.
    model = Sum()
    for p in model.parameters():
        nn.init.zeros_(p)  # A saddle: each layer hides the next.
    rows = torch.tensor([[1.0], [-1.0]]).repeat(10, WIDTH)
    loss(model, [rows, rows]).backward()
    F = ModelObjective(model, loss, TensorDataset(rows, rows), micro_batch=8)
    existing = [rows, *model.parameters(), *(p.grad for p in model.parameters())]
    with Alive(*existing) as alive:
        found = negative_curvature(F, F.point, extractor=method, samples=12, gamma=1.0, delta=0.5)
    assert found.status is Status.FOUND
    assert HELD[method] <= alive.peak / VECTOR < HELD[method] + 0.5


@pytest.mark.slow
def test_a_diagonal_metric_takes_one_vector_more():
    """x in its units. The sizes are the caller's, and the displacement and the gradient share one vector."""
    torch.manual_seed(0)
    model, sizes = Sum(), torch.rand(VECTOR // 4) + 0.5
    F = ModelObjective(model, loss, TensorDataset(torch.randn(64, WIDTH), torch.randn(64, WIDTH)))
    peaks = []
    for metric in (None, sizes):
        with Alive(*model.parameters(), sizes) as alive:
            found = negative_curvature(F, extractor="krylov", basis=8, metric=metric)
        assert found.status is Status.FOUND
        peaks.append(alive.peak / VECTOR)
    assert peaks[1] <= peaks[0] + 1.1
