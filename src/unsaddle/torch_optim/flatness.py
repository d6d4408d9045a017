"""Parameters that the loss does not feel: no gradient and no curvature, so neither a minimum nor a saddle.

Dead ReLUs and saturated sigmoids are the usual case. What tells them from a saddle at which gradients vanish as well is
that the gradients at the probes, next to x, vanish too.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.result import Curvature, Status
from unsaddle.objective import Evaluation
from unsaddle.objectives.model.parameters import FlatParameters

FLAT_TENSOR = 1e-5
"""A parameter is flat if its gradient was never above this share of the largest, at x and at all probes."""

FLAT_SHARE = 0.1
"""Flat parameters with so large a share of all numbers make a verdict. The bias of attention's keys, which is flat by
construction, has less."""

FLAT_LOSS = 1e-6
"""All is flat if moving x by its own length would change the loss by less than this share of it."""


class Flatness:
    """The largest gradient of each parameter that a search has seen, and what that says. For `Observed`.

    Args:
        flat: the parameters.
    """

    def __init__(self, flat: FlatParameters) -> None:
        self._flat = flat
        self._largest = torch.zeros(len(flat.tensors), dtype=flat.dtype, device=flat.device)
        self._value: Tensor | None = None

    def note(self, seen: Evaluation) -> None:
        """Take an evaluation in. The first one with a value is at x."""
        norms = torch.stack(torch._foreach_norm([piece for _, piece in self._flat.pieces(seen.grad)]))
        self._largest = torch.maximum(self._largest, norms)
        self._value = seen.value if self._value is None else self._value

    def all_flat(self, found: Curvature, x: Tensor) -> bool:
        """Whether no parameter changes the loss, as far as gradient and curvature at x tell."""
        reach = max(1.0, vectors.norm(x))
        curvature = found.smoothness if found.smoothness > 0.0 else 0.0  # nan where there was no extraction.
        change = (found.gradient_norm + curvature * reach) * reach
        loss = 0.0 if self._value is None else abs(float(self._value))
        return found.status is Status.FLAT or change <= FLAT_LOSS * loss

    def flat_tensors(self) -> tuple[float, str]:
        """The share of all parameters that is flat, and a sentence on which they are."""
        # Where each rank has seen a part of every gradient, its largest parts stand for those of the largest whole.
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
        """What to say if enough of the parameters are flat for a verdict; else None."""
        if self.all_flat(found, x):
            return "No parameter changes the loss: dead or saturated units; re-initialise them."
        share, sentence = self.flat_tensors()
        return sentence if share >= FLAT_SHARE else None
