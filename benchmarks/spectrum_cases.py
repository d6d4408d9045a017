"""Cases of `benchmarks.spectrum` whose truth is known: Morse indices, and densities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import TensorDataset

from benchmarks.networks import in_double
from benchmarks.trained_networks import BATCH, networks, perceptron, trained
from unsaddle import ModelObjective
from unsaddle.objective import Objective
from unsaddle.problems import linear_network, prescribed_spectrum
from unsaddle.spectrum import Density


class IndexCase(NamedTuple):
    """A point, γ, and how many eigenvalues are below −γ there."""

    family: str
    objective: Objective
    x: torch.Tensor
    gamma: float
    truth: int


def around_gamma(rng: np.random.Generator, dtype: torch.dtype) -> IndexCase:
    """Clusters at 2, 10 and 50 % around −γ, degenerate in every second case; γ from 1e-3 to 1e-1 of the largest."""
    gamma, d = 10.0 ** rng.uniform(-3.0 if dtype is torch.float64 else -2.0, -1.0), int(rng.integers(20, 400))
    below, above = int(rng.integers(0, 13)), int(rng.integers(0, 8))
    distances = [0.02, 0.1, 0.5] if dtype is torch.float64 else [0.1, 0.5]
    low = -gamma * (1.0 + rng.choice([*distances, 3.0], below) * rng.uniform(0.8, 1.2, below))
    if below and rng.random() < 0.5:
        low[:] = low[0]
    near = -gamma * (1.0 - rng.choice(distances, above))
    spectrum = np.r_[low, near, rng.uniform(0.0, 1.0, d - below - above)]
    problem = prescribed_spectrum(torch.from_numpy(spectrum), rotation_seed=int(rng.integers(1 << 30)), dtype=dtype)
    truth = int((spectrum < -gamma).sum())
    return IndexCase(
        f"clusters, {dtype}".replace("torch.", ""), problem.objective, torch.zeros(d, dtype=dtype), gamma, truth
    )


def autoencoder(rng: np.random.Generator) -> IndexCase:
    """A saddle of a deep linear network: some of the target's directions are learnt, the others are not.

    The truth is the dense Hessian's, by autograd.
    """
    layers, width = int(rng.integers(2, 5)), int(rng.integers(3, 6))
    sigma = np.sort(rng.uniform(0.5, 2.0, 3))[::-1].copy()
    problem = linear_network(
        torch.from_numpy(sigma), layers=layers, width=width, inputs=5, outputs=4, seed=int(rng.integers(1 << 30))
    )
    x = problem.stationary_points[1].point.clone()
    # The balanced factors with one direction or more taken out of every layer are a saddle.
    kept, start, sizes = int(rng.integers(0, 3)), 0, [5, *[width] * (layers - 1), 4]
    for before, after in pairwise(sizes):
        block = x[start : start + before * after].view(after, before)
        u, s, v = torch.linalg.svd(block, full_matrices=False)
        s[kept:] = 0.0
        block.copy_(u @ torch.diag(s) @ v)
        start += before * after
    f = problem.objective.sample(hessian=True)
    eye = torch.eye(x.numel(), dtype=torch.float64)
    dense = torch.stack([f.hvp(x, e) for e in eye])
    values = torch.linalg.eigvalsh((dense + dense.T) / 2.0).numpy()
    return IndexCase("linear networks", problem.objective, x, 1e-2, int((values < -1e-2).sum()))


def relu_network(seed: int, steps: int) -> Iterator[IndexCase]:
    """A float32 network with ReLU, trained on digits, one frozen batch; γ is a hundredth of the largest eigenvalue, and
    then within a tenth of that, in the largest gap of the spectrum.

    The truth is the dense Hessian's, by exact products in float64.
    """
    torch.manual_seed(seed)
    network = networks()["MLP, ReLU"]()
    network = replace(network, model=perceptron(64, 32, 10))
    trained(network, steps, seed)
    rows = tuple(part[:BATCH] for part in network.rows)
    f, x = in_double(network, rows)
    dense = torch.stack([f.hvp(x, e) for e in torch.eye(x.numel(), dtype=torch.float64)])
    values = torch.linalg.eigvalsh((dense + dense.T) / 2.0).numpy()
    F, gamma = ModelObjective(network.model, network.loss, TensorDataset(*rows)), 1e-2 * float(values[-1])
    near = -values[(-1.1 * gamma < values) & (values < -0.9 * gamma)]
    widest = int(np.argmax(near[:-1] - near[1:]))
    in_gap = float(near[widest : widest + 2].mean())
    for family, at in (("trained ReLU networks", gamma), ("trained ReLU networks, γ in a gap", in_gap)):
        yield IndexCase(family, F, F.point, at, int((values < -at).sum()))


def index_cases(count: int, seed: int) -> Iterator[IndexCase]:
    rng = np.random.default_rng(seed)
    for i in range(count):
        if i % 3 == 0:
            yield autoencoder(rng)
        else:
            yield around_gamma(rng, torch.float64 if i % 3 == 1 else torch.float32)


def spectra(seed: int) -> dict[str, np.ndarray]:
    """Spectra of dense cases: a bulk with outliers, as of networks; a gap; uniform."""
    rng = np.random.default_rng(seed)
    return {
        "bulk and outliers, d = 500": np.r_[rng.normal(0.0, 0.05, 490), np.linspace(1.0, 5.0, 10)],
        "two bulks, d = 1000": np.r_[rng.normal(-1.0, 0.1, 300), rng.normal(1.0, 0.2, 700)],
        "uniform, d = 1000": rng.uniform(-1.0, 1.0, 1000),
        "bulk and outliers, d = 3000": np.r_[rng.normal(0.0, 0.05, 2980), np.linspace(0.5, 5.0, 20)],
        "Wishart, d = 3000": np.linalg.eigvalsh(np.cov(rng.normal(size=(3000, 4500)))),
        "uniform, d = 10000": rng.uniform(-1.0, 1.0, 10_000),
    }


def distance(found: Density, spectrum: np.ndarray) -> float:
    """∫ |density − exact|, the exact one smoothed by the same Gaussian."""
    away = (found.grid[:, None] - spectrum[None]) / found.width
    exact = np.exp(-0.5 * away**2).mean(axis=1) / (found.width * np.sqrt(2.0 * np.pi))
    return float(np.trapezoid(np.abs(found.density - exact), found.grid))
