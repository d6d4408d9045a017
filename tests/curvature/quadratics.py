"""Quadratics with a dense Hessian, for claims that are exact on them."""

import torch

from unsaddle import Function


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def rotated(spectrum, seed):
    """A dense symmetric matrix with the given eigenvalues."""
    d = spectrum.numel()
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=rng(seed), dtype=torch.float64))
    return q @ torch.diag(spectrum.double()) @ q.T


def random_symmetric(d, seed, lowest=-1.0, largest=2.0):
    """A dense symmetric matrix with the given extreme eigenvalues."""
    generator = rng(seed)
    q, _ = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))
    eigenvalues = lowest + (largest - lowest) * torch.rand(d, generator=generator, dtype=torch.float64)
    eigenvalues[0], eigenvalues[-1] = lowest, largest
    return q @ torch.diag(eigenvalues) @ q.T


def quadratic(hessian, slope=None):
    """½xᵀHx + bᵀx, with everything by hand."""
    b = torch.zeros(hessian.shape[0], dtype=hessian.dtype) if slope is None else slope
    return Function(
        lambda x: (0.5 * x @ hessian @ x + b @ x, hessian @ x + b), gradient=True, hvp=lambda _, v: hessian @ v
    )
