"""The space that a run of the Krylov process works in: everything or a block, without vectors that are known."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.krylov.process import Operator


class Space:
    """Vectors that are zero outside a block, and orthogonal to the vectors that were locked.

    Args:
        like: a vector of the whole space.
        mask: ones in the block, zeros outside; None for everything.
    """

    def __init__(self, like: Tensor, mask: Tensor | None = None) -> None:
        self._like, self.mask = like, None if mask is None else mask.to(like.dtype)
        self.locked = like.new_empty(0, *like.shape)
        self._block = vectors.dimension(like) if mask is None else round(vectors.dots((mask, mask))[0])

    @property
    def dimension(self) -> int:
        """d of the block, less the locked vectors."""
        return self._block - len(self.locked)

    def lock(self, found: Sequence[Tensor]) -> None:
        """Takes further orthonormal vectors out of the space."""
        if found:
            self.locked = torch.cat([self.locked, torch.stack(list(found))])

    def replace(self, found: Sequence[Tensor]) -> None:
        """Makes these, instead of what was locked so far, the vectors that are out of the space."""
        self.locked = self.locked[:0]
        self.lock(found)

    def project(self, v: Tensor) -> Tensor:
        """Brings v into the space, in place."""
        if self.mask is not None:
            v.mul_(self.mask)
        if len(self.locked):
            taken = vectors.summed(self.locked @ v)
            torch.addmv(v, self.locked.T, taken, alpha=-1.0, out=v)
        return v

    def random(self, generator: torch.Generator) -> Tensor:
        """A vector uniform on the unit sphere of the space."""
        v = self.project(vectors.normal(self._like, generator))
        v.div_(vectors.norm(v))
        self.project(v)  # Rounding has left a part along the locked ones, if there are nearly as many as dimensions.
        return v.div_(vectors.norm(v))

    def restricted(self, multiply: Operator) -> Operator:
        """The map within the block. A process whose `project` is that of this space takes out what is locked."""
        mask = self.mask
        if mask is None:
            return multiply

        def product(q: Tensor, out: Tensor) -> None:
            multiply(q, out)
            out.mul_(mask)

        return product
