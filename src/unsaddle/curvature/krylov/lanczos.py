"""Lanczos with full reorthogonalisation and exact Hessian products: the best that products can do, at k·d memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.power import second_order
from unsaddle.curvature.result import Candidate, Status
from unsaddle.curvature.search import Observer, Search
from unsaddle.objective import SecondOrderFunction
from unsaddle.theory import extraction

BREAKDOWN = 32.0
"""β below this many roundings of what was seen so far means that the Krylov space is invariant. No more than that: an
eigenvector that the start hardly touches shows first as a small β, and a β that is only rounding does no harm."""


@dataclass(frozen=True, kw_only=True)
class LanczosSettings:
    """Constants of the Lanczos method."""

    num_steps: int
    target: float
    """A curvature of at most −target is wanted."""
    largest: float = math.inf
    """A curvature above it means that `num_steps` was too few to say that there is nothing."""


def settings_for(search: Search) -> LanczosSettings:
    """The products that Kuczyński and Woźniakowski prove enough for λ_min to accuracy γ/2 (E9)."""
    return LanczosSettings(
        num_steps=extraction.lanczos_num_steps(
            smoothness=search.smoothness, accuracy=search.gamma / 2.0, dimension=search.dimension, delta=search.delta
        ),
        target=search.gamma / 2.0,
        largest=2.0 * search.smoothness,  # The factor that the power method's steps bear, too.
    )


def lanczos(
    f: SecondOrderFunction,
    x: torch.Tensor,
    settings: LanczosSettings,
    generator: torch.Generator,
    *,
    keep_history: bool = False,
    observer: Observer | None = None,
    start: Tensor | None = None,
) -> Candidate:
    """Find v with vᵀHv ≤ −target in the Krylov space of a random unit vector.

    Spec 6.2. The basis Q is one block, so that orthogonalising against it, twice, is four products with a matrix. The
    smallest Ritz pair (θ, s) of the tridiagonal matrix is looked at after every product; θ is vᵀHv at v = Qs.

    Cost: one Hessian product a step. Memory: the basis, one vector a step.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2).sample(hessian=True)
    >>> found = lanczos(f, torch.zeros(2), LanczosSettings(num_steps=2, target=1.99), torch.Generator().manual_seed(0))
    >>> round(found.lowest, 4)
    -2.0
    """
    steps = min(settings.num_steps, vectors.dimension(x))
    basis = torch.empty(steps + 1, x.numel(), dtype=x.dtype, device=x.device)
    # A start of the caller's own is for comparisons only: what is proved of "nothing" needs a random one.
    basis[0] = vectors.random_direction(x, generator) if start is None else start
    tridiagonal = torch.zeros(steps + 1, steps + 1, dtype=torch.float64)
    history: list[tuple[int, float]] = []
    lowest, highest, largest = math.inf, -math.inf, 0.0
    breakdown = BREAKDOWN * torch.finfo(x.dtype).eps
    for j in range(steps):
        w = f.hvp(x, basis[j]).clone()
        known = basis[: j + 1]
        (alpha,) = vectors.dots((basis[j], w))
        for _ in range(2):
            w.sub_(known.T @ vectors.summed(known @ w))
        beta = vectors.norm(w)
        if not (math.isfinite(alpha) and math.isfinite(beta)):
            return Candidate(vector=None, status=Status.NOT_FINITE, lowest=lowest, history=tuple(history))
        tridiagonal[j, j] = alpha
        ritz_values, ritz_vectors = torch.linalg.eigh(tridiagonal[: j + 1, : j + 1])
        lowest, highest = float(ritz_values[0]), float(ritz_values[-1])
        if keep_history:
            history.append((f.ledger.hessian_products, lowest))
        found = lowest <= -settings.target
        if found or observer is not None:
            v = known.T @ ritz_vectors[:, 0].to(x)
            v.div_(vectors.norm(v))
            if observer is not None:
                observer(j, v)
            if found:
                return Candidate(vector=v, status=Status.FOUND, lowest=lowest, history=tuple(history))
        largest = max(largest, abs(alpha), beta)
        if beta <= breakdown * largest:  # The space is invariant: its Ritz values are eigenvalues.
            return Candidate(vector=None, status=Status.NOTHING_FOUND, lowest=lowest, history=tuple(history))
        tridiagonal[j, j + 1] = tridiagonal[j + 1, j] = beta
        torch.div(w, beta, out=basis[j + 1])
    known_too_little = highest > settings.largest and steps < vectors.dimension(x)
    return Candidate(
        vector=None,
        status=Status.SMOOTHNESS_EXCEEDED if known_too_little else Status.NOTHING_FOUND,
        lowest=lowest,
        exhausted=steps < vectors.dimension(x),
        history=tuple(history),
    )


def extract(search: Search) -> Candidate:
    """The Lanczos method as `negative_curvature` calls it."""
    f = second_order(search.f)
    return search.within_budget(
        settings_for(search),
        lambda settings: lanczos(f, search.x, settings, search.generator, keep_history=search.keep_history),
    )
