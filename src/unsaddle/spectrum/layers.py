"""`spectrum_by_layer`: the extremes and the density of each block of the Hessian, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.cost import Cost, Ledger
from unsaddle.curvature.result import IN_FLOAT64
from unsaddle.judgement.watch import watched
from unsaddle.objective import Objective, as_objective, point_of, with_its_ranks
from unsaddle.spectrum.density import WIDTH, density_of
from unsaddle.spectrum.ends import Goal
from unsaddle.spectrum.hessian import Hessian, hessian_at
from unsaddle.spectrum.pairs import pairs_of, worst
from unsaddle.spectrum.result import Density, Eigenpairs
from unsaddle.spectrum.second_look import looked_again
from unsaddle.spectrum.space import Space
from unsaddle.told import Pictured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One block of the Hessian: that of the parameters of a layer, all others held fixed."""

    name: str
    parameters: tuple[str, ...]
    pairs: Eigenpairs
    density: Density | None


@dataclass(frozen=True, kw_only=True)
class Layers(Pictured):
    """The answer of `spectrum_by_layer`, in the order of the model."""

    layers: tuple[Layer, ...]
    cost: Cost

    def __getitem__(self, name: str) -> Layer:
        return next(layer for layer in self.layers if layer.name == name)

    def __str__(self) -> str:
        wide = max(len(layer.name) for layer in self.layers)
        lines = [f"{'':<{wide}}  {'d':>9}  {'lowest':>11}  {'highest':>11}  {'trace':>11}"]
        for layer in self.layers:
            values, trace = layer.pairs.values, float("nan") if layer.density is None else layer.density.trace
            ends = (float(values[0]), float(values[-1])) if len(values) else (float("nan"),) * 2
            lines.append(
                f"{layer.name:<{wide}}  {layer.pairs.dimension:>9}  {ends[0]:>11.4g}  {ends[1]:>11.4g}  {trace:>11.4g}"
            )
        said = [f"{self.cost.gradients} gradients."]
        if any(part.in_float64 for layer in self.layers for part in (layer.pairs, layer.density) if part is not None):
            said.append(IN_FLOAT64)
        return "\n".join([*lines, " ".join(said)])

    def plot(self) -> Figure:
        """Draw the extremes and the density of each layer in one figure. Needs matplotlib, of the extra `plot`."""
        from unsaddle.spectrum.plots import plot_layers

        return plot_layers(self)


@with_its_ranks
def spectrum_by_layer(
    objective: Objective,
    x: Tensor | None = None,
    *,
    groups: Any = None,
    lowest: int = 1,
    highest: int = 1,
    density: bool = True,
    tolerance: float = 1e-2,
    width: float = WIDTH,
    probes: int | None = None,
    steps: int | None = None,
    samples: int | None = None,
    basis: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Layers:
    """The extreme eigenvalues and the density of each diagonal block of the Hessian of a model.

    Args:
        objective: a `ModelObjective`.
        x: the point; by default the model's own.
        groups: which parameters make a block. None for one block a module; patterns of names, such as
            ["encoder.*", "head.*"]; a mapping of your own names to patterns; or a torch optimizer, for its groups.
        lowest: eigenvalues of the lower end of each block.
        highest: of the upper end.
        density: whether densities are wanted, which take most of the gradients.
        tolerance, basis: as for `eigenpairs`.
        width, probes, steps: as for `spectral_density`.
        samples: |S|, drawn once for all blocks; None for everything, or for 1024 samples of a stream.
        seed: of the samples and the random starts.
        progress: show on a terminal how many gradients were taken. Needs rich, of the extra `progress`.

    Each product takes a whole gradient, of which a block uses its part.

    >>> from torch import nn
    >>> from torch.utils.data import TensorDataset
    >>> from unsaddle import ModelObjective
    >>> _ = torch.manual_seed(0)
    >>> model, rows = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double(), torch.randn(20, 3).double()
    >>> F = ModelObjective(model, lambda model, batch: model(batch[0]).square().mean(), TensorDataset(rows))
    >>> [(layer.name, layer.pairs.dimension) for layer in spectrum_by_layer(F).layers]
    [('0', 16), ('2', 5)]
    """
    F, with_density = as_objective(objective), checks.flag(density, "density")
    point = point_of(F, x)
    if F.parameters is None:
        raise TypeError(f"layers need a model: expected a ModelObjective, got a {F.name}; use eigenpairs for it")
    goal = Goal(
        lowest=checks.count(lowest, "lowest", at_least=0),
        highest=checks.count(highest, "highest", at_least=0),
        tolerance=checks.positive(tolerance, "tolerance"),
    )
    if basis is not None:
        checks.count(basis, "basis", at_least=3)
    chosen = grouped(F.parameters, groups)
    generator = torch.Generator().manual_seed(checks.seed(seed))
    found = []
    with watched(F, None, progress) as seen:
        hessian = hessian_at(as_objective(seen), point, samples, generator, Ledger())
        for name, names in chosen.items():
            mask = _mask(F.parameters, point, names)
            d = Space(point, mask).dimension
            low = min(goal.lowest, d)
            wanted = Goal(lowest=low, highest=min(goal.highest, d - low), tolerance=goal.tolerance)
            search, spread = partial(_pairs, wanted, mask, basis, generator), None
            pairs, hessian = looked_again(hessian, search, worst, generator)
            if with_density:
                spread, hessian = density_of(hessian, mask, width, probes, steps, generator)
            found.append(Layer(name=name, parameters=tuple(names), pairs=pairs, density=spread))
    return Layers(layers=tuple(found), cost=hessian.ledger.cost)


def _pairs(goal: Goal, mask: Tensor, basis: int | None, generator: torch.Generator, hessian: Hessian) -> Eigenpairs:
    return pairs_of(hessian, goal, Space(hessian.x, mask), basis, None, generator)


def grouped(parameters: Any, groups: Any) -> dict[str, list[str]]:
    """Names of parameters by block.

    >>> from unsaddle.objectives.model.parameters import FlatParameters
    >>> layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    >>> grouped(FlatParameters(layers.named_parameters()), None)
    {'0': ['0.weight', '0.bias'], '1': ['1.weight', '1.bias']}
    """
    names = list(parameters.names)
    if groups is None:
        blocks: dict[str, list[str]] = {}
        for name in names:
            blocks.setdefault(name.rpartition(".")[0] or name, []).append(name)
        return blocks
    if hasattr(groups, "param_groups"):
        owner = {id(p): i for i, group in enumerate(groups.param_groups) for p in group["params"]}
        blocks = {}
        for name, tensor in zip(names, parameters.tensors, strict=True):
            if id(tensor) in owner:
                blocks.setdefault(f"group {owner[id(tensor)]}", []).append(name)
        if not blocks:
            raise ValueError("the optimizer holds none of the model's parameters; pass the one that trains this model")
        return blocks
    named = groups if isinstance(groups, Mapping) else {pattern: pattern for pattern in _listed(groups)}
    return {title: _matching(names, _listed(patterns)) for title, patterns in named.items()}


def _listed(patterns: Any) -> list[str]:
    """One name, or several, as a list."""
    try:
        wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    except TypeError:  # Not iterable; a tensor without a dimension only says so when asked.
        wanted = [patterns]
    if not all(isinstance(pattern, str) for pattern in wanted):
        raise TypeError(f"groups must be names of parameters, or a dictionary of lists of them, got {patterns!r}")
    return wanted


def _matching(names: list[str], wanted: list[str]) -> list[str]:
    own = {name: name.removeprefix("module.") for name in names}  # DDP puts this before every name.
    found = [n for n in names if any(fnmatchcase(n, pattern) or fnmatchcase(own[n], pattern) for pattern in wanted)]
    if not found:
        known = ", ".join(names[:5])
        raise ValueError(f"no parameter is called {', '.join(wanted)}; there are {known}{', ...' if names[5:] else ''}")
    return found


def _mask(parameters: Any, x: Tensor, names: list[str]) -> Tensor:
    """Ones in the entries of these parameters, zeros elsewhere."""
    mask = torch.zeros_like(x)
    for name, (_, part) in zip(parameters.names, parameters.pieces(mask), strict=True):
        if name in names:
            part.fill_(1.0)
    return mask
