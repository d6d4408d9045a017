"""Finite sums, of which a part is drawn."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from benchmarks.verdict_cases.case import DTYPES, Case, integer, low_precision, normal, randomness, rounded, uniform
from benchmarks.verdict_cases.formulas import known
from unsaddle import FiniteSum
from unsaddle.objective import Objective, freeze
from unsaddle.problems import Problem, matrix_sensing, phase_retrieval


def _sampled_quadratics(family: str, index: int, precision: str, *, negative: bool) -> Case:
    """F = (1/n) Σ ½zᵀ(H + N_i)z + b_iᵀz with z = x − x₀, random N_i and b_i that sum to zero, and m of the n drawn.

    ‖(1/m)ΣN_i‖ is 0.03 to 2 times the distance of λ_min(H) from zero: from samples that tell the sign to samples that
    have the wrong one as often as not.
    """
    g = randomness(family, index)
    d, n, m = integer(g, 2, 12), 512, (32, 64, 128)[index % 3]
    size = uniform(g, 0.05, 0.3)
    s = torch.rand(d, generator=g, dtype=torch.float64)
    s[0], s[-1] = (-size if negative else size), 1.0
    if not negative:
        s.clamp_(min=size)
    rotation, _ = torch.linalg.qr(normal(g, d, d))
    hessian = rotation @ torch.diag(s) @ rotation.T
    noise = normal(g, n, d, d)
    noise = noise + noise.transpose(1, 2)
    noise -= noise.mean(0)
    of_sample = float(torch.linalg.eigvalsh(noise[:m].mean(0)).abs().max())
    noise *= size * 10.0 ** uniform(g, -1.5, 0.3) / of_sample
    slopes = normal(g, n, d)
    slopes = (slopes - slopes.mean(0)) * 10.0 ** uniform(g, -5.0, -2.0)
    dtype, low = DTYPES[precision], precision == "bf16"
    x0 = (torch.zeros(d).double() if index % 2 else normal(g, d)).to(dtype)
    if low:
        x0 = rounded(x0)

    def value_and_grad(x: Tensor, hessians: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
        z = (rounded(x) if low else x) - x0
        slope, hz = slopes.mean(0), hessians.mean(0) @ z
        grad = rounded(hz + slope) if low else hz + slope
        return 0.5 * torch.dot(z, hz) + torch.dot(slope, z), grad

    total = (hessian + noise).mean(0)
    eigenvalues = torch.linalg.eigvalsh(total)
    return Case(
        objective=FiniteSum(value_and_grad, (hessian + noise).to(dtype), slopes.to(dtype), gradient=True),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ total @ v),
        gamma=(0.8 * size if negative else size) if index % 4 else None,
        samples=m,
        seed=index,
    )


def sample_negative(index: int, precision: str) -> Case:
    """F is positive definite, and the m samples drawn often are not."""
    return _sampled_quadratics("sample_negative", index, precision, negative=False)


def sample_positive(index: int, precision: str) -> Case:
    """F has λ_min below −γ, and the m samples drawn often have not."""
    return _sampled_quadratics("sample_positive", index, precision, negative=True)


@functools.cache
def _sensing(kind: int, seed: int, dtype: torch.dtype) -> Problem:
    if kind:
        return phase_retrieval(dimension=6, measurements=400, seed=seed, dtype=dtype)
    return matrix_sensing(size=4, rank=2, measurements=400, seed=seed, dtype=dtype)


def sensing(index: int, precision: str) -> Case:
    """Phase retrieval and matrix sensing from a quarter of the measurements: components with heavy tails."""
    g = randomness("sensing", index)
    kind, seed = index % 2, integer(g, 0, 9)
    case = known(lambda dtype: _sensing(kind, seed, dtype), integer(g, 0, 5), "float64")
    dtype = DTYPES[precision]
    objective: Objective = _sensing(kind, seed, dtype).objective
    if precision == "bf16":
        objective = RoundedSum(objective)
    return Case(
        objective=objective,
        x=case.x.to(dtype),
        lowest=case.lowest,
        largest=case.largest,
        curvature=case.curvature,
        samples=100,
        seed=index,
    )


class RoundedSum:
    """A finite sum whose samples compute in bfloat16."""

    def __init__(self, inner: Objective) -> None:
        self._inner, self.num_samples = inner, inner.num_samples

    def sample(self, size=None, generator=None, *, replacement=False, hessian=False, ledger=None):  # type: ignore[no-untyped-def]
        f = self._inner.sample(size, generator, replacement=replacement)
        return freeze(low_precision(Frozen(f))._oracle, f.size, hessian, ledger)


class Frozen:
    """An objective whose every sample is one function."""

    num_samples = 1

    def __init__(self, f: object) -> None:
        self._f = f

    def sample(self, *_: object, **__: object):  # type: ignore[no-untyped-def]
        return self._f
