"""`hessian_operator`: the Hessian as a callable v ↦ ∇²F(x)v, for whatever else people do."""

from __future__ import annotations

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.cost import Cost, Ledger
from unsaddle.objective import BaseObjective, Objective, as_objective, point_of, with_its_ranks
from unsaddle.ranks import Ranks, together
from unsaddle.spectrum.hessian import Hessian, hessian_at


class HessianOperator:
    """v ↦ ∇²F(x)v by gradient differences, as a callable on flat torch vectors.

    Made by `hessian_operator`. One gradient a product; two where the gradients around x are noisy, so that products
    have to be taken farther out. At kinks it holds a copy of F in float64, if there can be one.
    """

    def __init__(self, hessian: Hessian, x: Tensor, ranks: Ranks | None) -> None:
        self._hessian, self._x, self._ranks = hessian, x, ranks

    @property
    def dimension(self) -> int:
        """d of the whole vector, also where this rank holds a part of it."""
        with together(self._ranks):
            return vectors.dimension(self._x)

    @property
    def x(self) -> Tensor:
        return self._x

    @property
    def cost(self) -> Cost:
        """All evaluations so far."""
        return self._hessian.ledger.cost

    def __call__(self, v: Tensor) -> Tensor:
        """∇²F(x)v, in a new vector."""
        v = checks.vector_like(v, self._x, "v")
        with together(self._ranks):
            length = vectors.norm(v)
            if length == 0.0:
                return torch.zeros_like(v)
            out = torch.empty_like(self._hessian.x)
            self._hessian.multiply((v / length).to(out.dtype), out, 0.0)
            return out.mul_(length).to(v.dtype)


def hessian_operator(
    objective: Objective, x: Tensor | None = None, *, samples: int | None = None, seed: int = 0
) -> HessianOperator:
    """The Hessian of F at x as a callable v ↦ ∇²F(x)v on torch vectors, with gradients only.

    Args:
        objective: F.
        x: the point. It may be left out for an objective that has a `point` of its own.
        samples: |S|, drawn once; None for everything, or for 1024 samples of a stream.
        seed: of the samples, and of the survey of the gradients around x.

    `unsaddle.interop.scipy.hessian_operator` is the same for SciPy's sparse linear algebra.

    >>> from unsaddle import Function
    >>> H = hessian_operator(Function(lambda x: x[0] ** 2 - x[1] ** 2), torch.zeros(2, dtype=torch.float64))
    >>> [round(float(entry), 6) for entry in H(torch.tensor([3.0, 1.0], dtype=torch.float64))]
    [6.0, -2.0]
    """
    whole = as_objective(objective)
    point = point_of(whole, x)
    return HessianOperator(_prepared(whole, x=point, samples=samples, seed=seed), point, whole.ranks)


@with_its_ranks
def _prepared(objective: BaseObjective, *, x: Tensor, samples: int | None, seed: int) -> Hessian:
    generator = torch.Generator().manual_seed(checks.seed(seed))
    return hessian_at(objective, x, samples, generator, Ledger())
