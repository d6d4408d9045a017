"""In which mode a model is, train or eval, if it has layers that compute something else in each."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

DROPOUT = {True: "dropout is on", False: "dropout is off", None: "dropout is on in some layers"}
BATCH_NORM = {
    True: "batch norm takes the statistics of each batch; all data come in their order, not shuffled",
    False: "batch norm takes its running statistics",
    None: "batch norm takes the statistics of each batch in some layers, its running ones in others",
}


def mode(modules: Iterable[nn.Module]) -> str:
    """The mode of layers with dropout or batch norm, and what that means; empty if there are none.

    >>> mode(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1)).modules())
    'train: dropout is on'
    >>> mode(nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.1)).eval().modules())
    'eval: dropout is off, batch norm takes its running statistics'
    >>> mode(nn.Linear(2, 2).modules())
    ''
    """
    dropout, norms = list[bool](), list[bool]()
    for module in modules:
        if _drops(module):
            dropout.append(module.training)
        elif isinstance(module, _BatchNorm) and module.track_running_stats:
            norms.append(module.training)
    if not dropout and not norms:
        return ""
    meant = [words[_shared(flags)] for words, flags in ((DROPOUT, dropout), (BATCH_NORM, norms)) if flags]
    name = {True: "train", False: "eval", None: "mixed"}[_shared(dropout + norms)]
    return f"{name}: {', '.join(meant)}"


def _drops(module: nn.Module) -> bool:
    """Whether it has dropout of its own. Recurrent layers and attention keep the rate as a number."""
    if isinstance(module, _DropoutNd):
        return module.p > 0.0
    return isinstance(module, nn.RNNBase | nn.MultiheadAttention) and module.dropout > 0.0


def _shared(flags: list[bool]) -> bool | None:
    """The value that all have; None if they differ."""
    return flags[0] if all(flag == flags[0] for flag in flags) else None
