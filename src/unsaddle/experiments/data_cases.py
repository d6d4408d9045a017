"""Cases on data: the paper's function, and regression with the weights written as a product."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unsaddle.experiments.case import Case
from unsaddle.experiments.data import load
from unsaddle.objectives import FiniteSum
from unsaddle.problems import embedded_digits, sigmoid_least_squares

ROWS = 10_000
"""The most rows of a data set that are used. They are drawn once, with seed 0."""

LARGEST = 1000
"""The most features: a dense Hessian of u∘v has twice as many columns."""

TEXTS = (".svm", ".libsvm", ".gz", ".bz2")
"""Endings of LIBSVM text; .txt may be anything."""

DIGITS_FEATURES = 120
"""d of the embedded digits: small, so that a dense Hessian is quick."""


def digits() -> tuple[Tensor, Tensor]:
    """The embedded digits, odd against even: 1797 rows."""
    features, labels = embedded_digits(num_features=DIGITS_FEATURES)
    return features, labels.double()


def data_sets(folder: Path) -> list[str]:
    """Names of the data sets of a folder: .npz files with two labels, and LIBSVM text by its ending."""
    if not folder.is_dir():
        raise ValueError(f"the data must be a folder of .npz or LIBSVM files, got {str(folder)!r}, which is no folder")
    names = [name for name, path in _files(folder).items() if path.suffix != ".npz" or _has_two_labels(path)]
    if not names:
        endings = ", ".join(TEXTS)
        raise ValueError(
            f"{str(folder)!r} has no data set: expected .npz files with two labels, or texts with {endings}"
        )
    return names


def _files(folder: Path) -> dict[str, Path]:
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in (".npz", *TEXTS)]
    return {path.name.split(".")[0]: path for path in paths}


def _has_two_labels(path: Path) -> bool:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return "y" in arrays.files and len(np.unique(arrays["y"])) == 2
    except Exception:  # `load` says what is wrong, if this set is asked for.
        return True


def rows_of(name: str, folder: Path) -> tuple[Tensor, Tensor]:
    """Features, dense, and labels in {0, 1}; at most `ROWS` rows."""
    data = load(_files(folder)[name])
    n, d = data.features.shape
    if d > LARGEST:
        raise ValueError(
            f"{name} has d = {d}; runs are judged with dense Hessians, so d must be at most {LARGEST}: leave it out"
        )
    features, labels = data.features, data.labels.double()
    features = features.to_dense() if features.layout is torch.sparse_csr else features
    if n > ROWS:
        kept = np.random.default_rng(0).choice(n, ROWS, replace=False)
        features, labels = features[kept], labels[kept]
    return features, labels


def sigmoid(name: str, A: Tensor, b: Tensor) -> Case:
    """The paper's function, Σ_j x_j²/(1 + x_j²) + (3/n) Σ_i (b_i − σ(xᵀa_i))², from x0 ~ N(0, I)."""
    n, d = A.shape

    def slopes(x: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.sigmoid(A @ x)
        return p, p * (1.0 - p)

    def value(x: Tensor) -> float:
        return float((x**2 / (1 + x**2)).sum() + 3.0 * ((b - slopes(x)[0]) ** 2).mean())

    def gradient(x: Tensor) -> Tensor:
        p, dp = slopes(x)
        return 2 * x / (1 + x**2) ** 2 + 6.0 / n * (A.T @ ((p - b) * dp))

    def hessian(x: Tensor) -> Tensor:
        p, dp = slopes(x)
        weights = 6.0 / n * (dp**2 + (p - b) * dp * (1.0 - 2.0 * p))
        return torch.diag((2 - 6 * x**2) / (1 + x**2) ** 3) + (A.T * weights) @ A

    return Case(
        name=f"sigmoid, {name}",
        objective=sigmoid_least_squares(A, b).objective,
        dimension=d,
        start=lambda seed: torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64),
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def product(name: str, A: Tensor, labels: Tensor) -> Case:
    """Least squares with weights u∘v, (1/n) Σ_i (a_iᵀ(u∘v) ± 1)², from 0, where all components' gradients vanish."""
    b = 2.0 * labels - 1.0
    n, p = A.shape
    M, g, constant = 2.0 / n * (A.T @ A), 2.0 / n * (A.T @ b), float((b**2).mean())

    def value(x: Tensor) -> float:
        w = x[:p] * x[p:]
        return float(0.5 * w @ M @ w - g @ w) + constant

    def gradient(x: Tensor) -> Tensor:
        u, v = x[:p], x[p:]
        slope = M @ (u * v) - g
        return torch.cat([slope * v, slope * u])

    def hessian(x: Tensor) -> Tensor:
        u, v = x[:p], x[p:]
        slope = torch.diag(M @ (u * v) - g)
        cross = v[:, None] * M * u + slope
        blocks = ([v[:, None] * M * v, cross], [cross.T, u[:, None] * M * u])
        return torch.cat([torch.cat(block, dim=1) for block in blocks])

    return Case(
        name=f"u∘v, {name}",
        objective=FiniteSum(_product_gradient, A, b, gradient=True, hvp=_product_hvp),
        dimension=2 * p,
        start=lambda seed: torch.zeros(2 * p, dtype=torch.float64),
        value=value,
        gradient=gradient,
        hessian=hessian,
        gamma=0.05,
    )


def _product_gradient(x: Tensor, A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    u, v = x.chunk(2)
    residuals = torch.mv(A, u * v) - b
    slope = torch.mv(A.T, residuals) * (2.0 / len(b))
    return residuals.square().mean(), torch.cat([slope * v, slope * u])


def _product_hvp(x: Tensor, direction: Tensor, A: Tensor, b: Tensor) -> Tensor:
    (u, v), (p, q) = x.chunk(2), direction.chunk(2)
    slope = torch.mv(A.T, torch.mv(A, u * v) - b) * (2.0 / len(b))
    change = torch.mv(A.T, torch.mv(A, u * q + v * p)) * (2.0 / len(b))
    return torch.cat([change * v + slope * q, change * u + slope * p])
