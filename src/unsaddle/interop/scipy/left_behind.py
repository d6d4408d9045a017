"""The look in the metric of what BFGS leaves behind: an approximate inverse Hessian, for nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.extract import answer
from unsaddle.curvature.krylov.runs import FEW_DIMENSIONS
from unsaddle.curvature.posed import posed
from unsaddle.curvature.question import RELATIVE_GAMMA, Question
from unsaddle.curvature.result import Curvature, Status
from unsaddle.interop.scipy.free_function import FreeFunction
from unsaddle.metric.given import DENSE_MOST
from unsaddle.metric.maps import dense


def look_in_metric(f: FreeFunction, question: Question, ledger: Ledger) -> Curvature | None:
    """The search in the metric S of SSᵀ = B, B the inverse Hessian of BFGS. None if it promises less than one in x.

    After more gradients than there are variables, S∇²f(x)S is often near to the identity, and a few steps exclude all
    negative curvature. Elsewhere B may be worse than none. So the first product of the search in x, Hq, is compared: if
    B·Hq is nearer to a multiple of q than Hq is, the search goes on in the metric. If not, nothing was spent: the
    search in x begins with the same gradient, which is in memory.

    γ stays a hundredth of the largest curvature seen in x, along q or along the axis that B takes for the stiffest. B
    is not to claim that a direction is stiffer than that, as `bound` in x would suffer. Steps beyond γ that a share of
    SciPy's gradients pays for are half as many as in x: where the metric is good, a few exclude all that is sought.

    Cost: three gradients beside the steps, of which one is at x and in memory.
    """
    x, inverse, d = f.point, f.at.inverse, len(f.point)
    known = inverse is not None and f.at.product is None and not f.by_differences and bool(f.free.all())
    if inverse is None or not known or not FEW_DIMENSIONS < d < min(f.at.spent, DENSE_MOST) or not question.seen_counts:
        return None
    values, axes = _eigenpairs(inverse)
    if not float(values[0]) > 0.0:
        return None
    sampled, radius = f.sample(), f.first_radius
    grad = sampled.grad(x).clone()
    q = vectors.random_direction(x, torch.Generator().manual_seed(question.seed))  # As the search in x draws it.
    along_q = (sampled.grad_at_sum(x, q, radius) - grad) / radius
    if not _spread(axes @ (values * (axes.T @ along_q)), q) < _spread(along_q, q):
        return None
    stiffest = axes[:, 0].contiguous()
    largest = max(vectors.norm(along_q), vectors.norm(sampled.grad_at_sum(x, stiffest, radius) - grad) / radius)
    if not 0.0 < largest < math.inf:
        return None
    for _ in range(2):
        ledger.add_gradient(sampled.size)
    scaling = dense(axes, values.clamp(min=1.0 / largest).sqrt(), x)
    radius *= math.sqrt(d) / vectors.norm(scaling.sizes)  # Along a random direction, as long as in x.
    farther = question.farther if question.farther >= d else question.farther // 2
    question = replace(question, gamma=RELATIVE_GAMMA * largest, probe_radius=radius, farther=farther)
    asked = posed(f, x, question, None).through(scaling)
    found = answer(asked.objective, asked.x, asked.question, ledger)
    if found.status not in (Status.FOUND, Status.NOTHING_FOUND):
        return None
    own = asked.own(found)
    along = float(q @ along_q)
    return replace(
        own,
        smoothness=largest,
        gradient_norm=vectors.norm(grad),
        noise=found.noise / scaling.smallest,
        start=q,
        history=((1, along), *own.history),
    )


def _eigenpairs(inverse: np.ndarray) -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, and axes in columns; values of nan if the matrix is not finite."""
    matrix = torch.from_numpy(np.array(inverse, dtype=np.float64))
    if not bool(matrix.isfinite().all()):
        return matrix.new_full((len(matrix),), math.nan), matrix
    pairs = torch.linalg.eigh((matrix + matrix.T) / 2.0)
    return pairs.eigenvalues, pairs.eigenvectors


def _spread(w: Tensor, q: Tensor) -> float:
    """How far w = Hq is from a multiple of a random unit q: the deviation of the eigenvalues of H over their mean."""
    mean = float(q @ w)
    return vectors.norm(w - mean * q) / mean if mean > 0.0 else math.inf
