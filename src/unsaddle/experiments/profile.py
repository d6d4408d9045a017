"""Performance profiles (Dolan and Moré 2002): how often a method is within a factor of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ratios(costs: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The cost of each method on each instance, divided by the least of all methods; inf for a failure.

    Args:
        costs: for each method a cost an instance, in the same order of instances; inf for a failure.

    An instance that no method solved counts as a failure of all.

    >>> ratios({"a": [2.0, math.inf], "b": [4.0, 6.0]})
    {'a': [1.0, inf], 'b': [2.0, 1.0]}
    """
    lengths = {len(c) for c in costs.values()}
    if len(lengths) > 1:
        raise ValueError(f"every method must have a cost for every instance, got {sorted(lengths)} of them")
    best = [min(instance) for instance in zip(*costs.values(), strict=True)]
    return {
        method: [c / b if math.isfinite(c) else math.inf for c, b in zip(of_method, best, strict=True)]
        for method, of_method in costs.items()
    }


def profile(of_method: Sequence[float]) -> tuple[list[float], list[float]]:
    """ρ as a staircase: the factors τ at which it rises, and the share of instances within τ, from τ = 1.

    >>> profile([1.0, 4.0, math.inf, 1.0])
    ([1.0, 4.0], [0.5, 0.75])
    """
    finite = sorted(r for r in of_method if math.isfinite(r))
    factors = sorted({1.0, *finite})
    return factors, [sum(r <= t for r in finite) / len(of_method) for t in factors]
