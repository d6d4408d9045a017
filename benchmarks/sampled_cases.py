"""Sampled objectives of which the right verdict is known, for `benchmarks.verdicts`: what a sample may get wrong.

Every case is a stream, or a long sum, of which `samples` are drawn: the truth is that of the expectation. The families:

- *noisy direction*: curvature that varies between samples by far more than its mean;
- *rare class*: logistic and softmax regression at its optimum, where a class makes up 0.3 % to 5 % of the rows;
- *rare part*: a share of 0.3 % to 5 % of the samples that turns the gradient, or the lowest curvature;
- *few rows*: 2 to 32 samples with skewed noise in gradient and Hessian;
- *skewed rows*: the same with 256 to 4096 samples;
- *Wishart minimum*, *clear saddle*: plain sums, where samples are plenty and have to decide.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.verdict_cases import DTYPES, Case, integer, normal, randomness, rounded, uniform
from unsaddle import FiniteSum, Stream

NOISE_DEVIATION = 20.0
"""Of the curvature along a noisy direction, whose mean is ±0.5: that of the report which led to these families."""

Draw = Callable[[int, torch.Generator], tuple[Tensor, Tensor, Tensor]]
"""Rows of (noise of the curvatures, factors of a Wishart matrix, noise of the gradient), all of mean zero or one."""


def quadratic_stream(
    g: torch.Generator, precision: str, spectrum: Tensor, draw: Draw, *, m: int, wishart: float = 0.0, seed: int
) -> Case:
    """f(x; ξ) = ½yᵀ(S + diag(z) + s(aaᵀ − I))y + bᵀy with y = Qᵀ(x − x₀): F has the spectrum S and is stationary at x₀.

    Noise is in the eigenvectors' coordinates, so that z has directions of its own. A third of the points are 0.
    """
    d, dtype, low = spectrum.numel(), DTYPES[precision], precision == "bf16"
    rotation, _ = torch.linalg.qr(normal(g, d, d))
    x0 = (torch.zeros(d, dtype=torch.float64) if seed % 3 == 0 else normal(g, d)).to(dtype)
    x0 = rounded(x0) if low else x0
    q, s = rotation.to(dtype), spectrum.to(dtype)

    def value_and_grad(x: Tensor, z: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        y = q.T @ ((rounded(x) if low else x) - x0)
        slope = b.mean(0)
        hy = (s + z.mean(0)) * y
        if wishart:
            hy = hy + wishart * (a.T @ (a @ y) / a.shape[0] - y)
        grad = q @ (hy + slope)
        return 0.5 * torch.dot(y, hy) + torch.dot(slope, y), rounded(grad) if low else grad

    def rows(size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        return tuple(t.to(dtype) for t in draw(size, generator))

    truth = rotation @ torch.diag(spectrum) @ rotation.T
    return Case(
        objective=Stream(value_and_grad, rows, gradient=True),
        x=x0,
        lowest=float(spectrum.min()),
        largest=float(spectrum.abs().max()),
        curvature=lambda v: float(v @ truth @ v),
        samples=m,
        seed=seed,
    )


def _spectrum(g: torch.Generator, d: int, lowest: float) -> Tensor:
    """λ_min as given, and the others from 0.1 to 1."""
    s = 0.1 + 0.9 * torch.rand(d, generator=g, dtype=torch.float64)
    s[0], s[-1] = lowest, 1.0
    return s


def noisy_direction(index: int, precision: str) -> Case:
    """d = 30, one curvature of −0.5 with a deviation of 20 between samples; m = 128, 512, 2048.

    Alone; with four more noisy coordinates of mean 0.5; with Wishart noise; and with heavy tails (t, 3 degrees).
    """
    g = randomness("noisy_direction", index)
    d, m, kind = 30, (128, 512, 2048)[index % 3], index // 3 % 4
    s = _spectrum(g, d, -0.5)
    noisy = 5 if kind == 1 else 1
    s[1:noisy] = 0.5

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.zeros(size, d, dtype=torch.float64)
        z[:, :noisy] = NOISE_DEVIATION * normal(generator, size, noisy)
        if kind == 3:
            z[:, 0] = NOISE_DEVIATION / math.sqrt(3.0) * _heavy(size, generator)
        return z, normal(generator, size, d), 1e-3 * normal(generator, size, d)

    return quadratic_stream(g, precision, s, draw, m=m, wishart=0.3 if kind == 2 else 0.0, seed=index)


def _heavy(size: int, generator: torch.Generator) -> Tensor:
    """Student's t with three degrees of freedom."""
    return normal(generator, size) / (normal(generator, size, 3).square().mean(1)).sqrt()


# --- A class that is rare --------------------------------------------------------------------------------------------

ROWS, PENALTY, CLASS_PROBLEMS = 20_000, 1e-3, 24


@functools.cache
def _regression(which: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs, labels, the optimum by Newton's method, and the Hessian there; two classes or three, one of them rare."""
    g = torch.Generator().manual_seed(7919 * (which + 1))
    classes, inputs = 2 + which % 2, 3
    share = math.exp(uniform(g, math.log(3e-3), math.log(5e-2)))
    a = torch.cat([torch.ones(ROWS, 1, dtype=torch.float64), normal(g, ROWS, inputs)], 1)
    labels = torch.randint(classes - 1, (ROWS,), generator=g)
    rare = torch.randperm(ROWS, generator=g)[: round(share * ROWS)]
    labels[rare] = classes - 1
    a[rare, 1] += 1.0
    x = torch.zeros((classes - 1) * (inputs + 1), dtype=torch.float64)

    def loss(x: Tensor) -> Tensor:
        return _cross_entropy(x, a, labels, classes)

    while float((slope := torch.func.grad(loss)(x)).norm()) > 1e-13:
        x = x - torch.linalg.solve(torch.func.jacrev(torch.func.grad(loss))(x), slope)
    return a, labels, x, torch.func.jacrev(torch.func.grad(loss))(x)


def _cross_entropy(x: Tensor, a: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The last class is the one that the logits of the others are relative to; a small penalty."""
    logits = torch.cat([a @ x.view(classes - 1, a.shape[1]).T, a.new_zeros(a.shape[0], 1)], 1)
    return torch.nn.functional.cross_entropy(logits, labels) + 0.5 * PENALTY * x.square().sum()


def rare_class(index: int, precision: str) -> Case:
    """Logistic and softmax regression at the optimum of 20 000 rows; m from 64 to 4096. It is a minimum."""
    which, m = index % CLASS_PROBLEMS, (64, 256, 1024, 4096)[index // CLASS_PROBLEMS % 4]
    a, labels, optimum, hessian = _regression(which)
    dtype, low = DTYPES[precision], precision == "bf16"
    x = rounded(optimum.float()) if low else optimum.to(dtype)
    eigenvalues = torch.linalg.eigvalsh(hessian)

    def loss(x: Tensor, a: Tensor, labels: Tensor) -> Tensor:
        return _cross_entropy(rounded(x) if low else x, a, labels, 2 + which % 2)

    off = hessian @ (x.double() - optimum)
    return Case(
        objective=FiniteSum(loss, a.to(dtype), labels),
        x=x,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ hessian @ v),
        gradient_norm=float(off.norm()),
        samples=m,
        seed=index,
    )


def rare_part(index: int, precision: str) -> Case:
    """A share p of the samples, 0.3 % to 5 %, has another gradient, and another curvature along the lowest direction.

    In turn: F is positive definite, and most samples are not; F has λ_min = −0.3, and most samples are positive
    definite; F is stationary, and most samples are not; F has a slope of 0.05, and most samples have none. m from 64
    to 4096.
    """
    g = randomness("rare_part", index)
    p = math.exp(uniform(g, math.log(3e-3), math.log(5e-2)))
    d, m, kind = integer(g, 2, 30), (64, 128, 256, 512, 1024, 2048, 4096)[index % 7], index // 7 % 4
    s = _spectrum(g, d, (0.3, -0.3, 0.3, 0.3)[kind])
    common = (-0.6, 0.6, 0.0, 0.0)[kind]  # What the others have in excess of the mean.
    slope = (0.0, 0.0, 0.3, 0.05)[kind]

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        odd = (torch.rand(size, generator=generator, dtype=torch.float64) < p).double()
        turn = 1.0 - odd / p  # Of mean zero: 1 for the others.
        z, b = 0.05 * normal(generator, size, d), 1e-4 * normal(generator, size, d)
        z[:, 0] += common * turn
        b[:, 0] += slope * turn if kind == 2 else slope * odd / p
        return z, torch.zeros(size, 1, dtype=torch.float64), b

    return replace(quadratic_stream(g, precision, s, draw, m=m, seed=index), gradient_norm=slope if kind == 3 else 0.0)


# --- Skewed noise ----------------------------------------------------------------------------------------------------


def _skewed(kind: int, p: float, size: int, d: int, generator: torch.Generator) -> Tensor:
    """Noise of mean zero with a long tail above: exponential, lognormal, or ones with probability p."""
    if kind == 0:
        uniform = torch.rand(size, d, generator=generator, dtype=torch.float64)
        return -torch.log1p(-uniform) - 1.0
    if kind == 1:
        return torch.exp(normal(generator, size, d)) - math.exp(0.5)
    ones = (torch.rand(size, d, generator=generator, dtype=torch.float64) < p).double()
    return (ones - p) / math.sqrt(p * (1.0 - p))


def _skewed_stream(family: str, index: int, precision: str, m: int) -> Case:
    """Half of the cases are minima, half saddles; the tail of the curvature is above or below, in turn."""
    g = randomness(family, index)
    d, kind, p = integer(g, 2, 20), index % 3, uniform(g, 0.05, 0.5)
    size, side = uniform(g, 0.1, 0.5), 1.0 if index // 3 % 2 else -1.0
    s = _spectrum(g, d, size if index // 6 % 2 else -size)
    spread, slope = 10.0 ** uniform(g, -1.0, 1.0), 10.0 ** uniform(g, -4.0, -1.0)

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        z = side * spread * _skewed(kind, p, size, d, generator)
        z[:, 1:] *= 0.1
        return z, torch.zeros(size, 1, dtype=torch.float64), slope * _skewed(kind, p, size, d, generator)

    return quadratic_stream(g, precision, s, draw, m=m, seed=index)


def few_rows(index: int, precision: str) -> Case:
    """2 to 32 samples, with exponential, lognormal or Bernoulli noise in the gradient and in the Hessian."""
    return _skewed_stream("few_rows", index, precision, (2, 3, 5, 8, 12, 20, 32)[index % 7])


def skewed_rows(index: int, precision: str) -> Case:
    """256 to 4096 samples, with exponential, lognormal or Bernoulli noise in the gradient and in the Hessian."""
    return _skewed_stream("skewed_rows", index, precision, (256, 512, 1024, 2048, 4096)[index % 5])


# --- Where samples are plenty ----------------------------------------------------------------------------------------


def wishart_minimum(index: int, precision: str) -> Case:
    """A minimum with Wishart noise in the Hessian, 2048 samples, d from 5 to 40."""
    g = randomness("wishart_minimum", index)
    d = integer(g, 5, 40)
    s = _spectrum(g, d, uniform(g, 0.1, 0.3))

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.zeros(size, d, dtype=torch.float64)
        return z, normal(generator, size, d), 1e-3 * normal(generator, size, d)

    return quadratic_stream(g, precision, s, draw, m=2048, wishart=0.2, seed=index)


def clear_saddle(index: int, precision: str) -> Case:
    """λ_min from −0.5 to −0.2, with Wishart noise and a deviation of 1 along the lowest direction; m = 512, 2048."""
    g = randomness("clear_saddle", index)
    d = integer(g, 5, 40)
    s = _spectrum(g, d, -uniform(g, 0.2, 0.5))

    def draw(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.zeros(size, d, dtype=torch.float64)
        z[:, 0] = normal(generator, size)
        return z, normal(generator, size, d), 1e-3 * normal(generator, size, d)

    return quadratic_stream(g, precision, s, draw, m=(512, 2048)[index % 2], wishart=0.1, seed=index)


SAMPLED_FAMILIES: dict[str, Callable[[int, str], Case]] = {
    "noisy direction": noisy_direction,
    "rare class": rare_class,
    "rare part": rare_part,
    "few rows": few_rows,
    "skewed rows": skewed_rows,
    "Wishart minimum": wishart_minimum,
    "clear saddle": clear_saddle,
}
