"""Flat parameters: they have neither gradient nor curvature, so x is neither a minimum nor a saddle in them.

Dead ReLUs and saturated sigmoids are the usual case. At a saddle the gradient vanishes at x only; in a flat parameter
it also vanishes at the probes beside x.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.result import ZERO_HESSIAN, Curvature, Status
from unsaddle.objective import Evaluation, SampledFunction
from unsaddle.objectives.model.parameters import FlatParameters

FLAT_TENSOR = 1e-5
"""A parameter is flat if its gradient, at x and at all probes, stays below this share of the largest one."""

FLAT_SHARE = 0.1
"""The share of flat parameters that makes a verdict. The bias of attention's keys is always flat, but has less."""

FLAT_LOSS = 1e-6
"""All is flat if a move of length ‖x‖ would change the loss by less than this share of it."""


ALL_ZERO = f"{ZERO_HESSIAN} Layers that are all zero do this: re-initialise them."
"""The sentence where the Hessian is zero. Three layers in a row have no curvature there, but they are not flat."""


SOFT_LOSS = 1e-2
"""The same share where the Hessian may be zero: a search that ended too far from x has seen some curvature."""

NEARER = 16.0
"""Products by differences are taken at three distances, each this much nearer to x. Where the Hessian is zero, they
fall as the distance, or faster. Half of that is asked for."""


def hessian_vanishes(f: SampledFunction, x: Tensor, radius: float, seed: int) -> bool:
    """Whether products of the Hessian with a random vector go to zero next to x. Costs four gradients."""
    u = vectors.random_direction(x, torch.Generator().manual_seed(seed))
    at_x, sizes = f.grad(x), list[float]()
    for distance in (radius, radius / NEARER, radius / NEARER**2):
        sizes.append(vectors.norm(f.grad_at_sum(x, u, distance) - at_x) / distance)
    return all(0.0 < near <= 2.0 * far / NEARER for far, near in itertools.pairwise(sizes))


class Flatness:
    """Keeps the largest gradient of each parameter that a search has seen, and says whether parameters are flat."""

    def __init__(self, flat: FlatParameters) -> None:
        self._flat = flat
        self._largest = torch.zeros(len(flat.tensors), dtype=flat.dtype, device=flat.device)
        self._value: Tensor | None = None

    def note(self, seen: Evaluation) -> None:
        """Takes in an evaluation, for `Observed`. The first one with a value is at x."""
        norms = torch.stack(torch._foreach_norm([piece for _, piece in self._flat.pieces(seen.grad)]))
        self._largest = torch.maximum(self._largest, norms)
        self._value = seen.value if self._value is None else self._value

    def used(self, direction: Tensor) -> Tensor:
        """The direction without parameters whose gradient was exactly zero at x and at all probes, as a unit vector.

        Of these a search knows its random start only. The base optimizer does not move what the loss does not use, and
        a jump has to leave it, too.
        """
        unused = [seen == 0.0 for seen in vectors.summed(self._largest.square()).tolist()]
        if not any(unused) or all(unused):
            return direction
        kept = direction.clone()
        for (_, piece), drop in zip(self._flat.pieces(kept), unused, strict=True):
            if drop:
                piece.zero_()
        norm = vectors.norm(kept)
        return kept.div_(norm) if norm > 0.0 else direction

    def all_flat(self, found: Curvature, x: Tensor, share: float = FLAT_LOSS) -> bool:
        """Whether no parameter changes the loss by more than this share, by the gradient and the curvature at x."""
        reach = max(1.0, vectors.norm(x))
        curvature = found.smoothness if found.smoothness > 0.0 else 0.0  # nan where there was no extraction.
        change = (found.gradient_norm + curvature * reach) * reach
        loss = 0.0 if self._value is None else abs(float(self._value))
        return found.status is Status.FLAT or change <= share * loss

    def flat_tensors(self) -> tuple[float, str]:
        """The share of all parameters that is flat, and a sentence that names them."""
        # A rank may have seen a part of every gradient only. The largest parts then stand for the largest whole.
        seen = vectors.summed(self._largest.square()).sqrt().tolist()
        sizes = [tensor.numel() for tensor in self._flat.tensors]
        flat = [i for i, norm in enumerate(seen) if norm <= FLAT_TENSOR * max(seen)]
        share = sum(sizes[i] for i in flat) / sum(sizes)
        names = ", ".join(self._flat.names[i] for i in flat[:4]) + (", ..." if len(flat) > 4 else "")
        return share, (
            f"{len(flat)} of {len(sizes)} tensors, {share:.0%} of all parameters, have neither gradient nor curvature "
            f"({names}): dead or saturated units, or parameters that the loss does not depend on; re-initialise them, "
            "or leave them out."
        )

    def sentence(self, found: Curvature, x: Tensor) -> str | None:
        """The sentence of the verdict "flat", or None. If a direction was found, all parameters have to be flat."""
        if found.hessian_vanishes:
            return None
        if self.all_flat(found, x):
            return "No parameter changes the loss: dead or saturated units; re-initialise them."
        if found.direction is not None:
            return None
        share, sentence = self.flat_tensors()
        return sentence if share >= FLAT_SHARE else None
