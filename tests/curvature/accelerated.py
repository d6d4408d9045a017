"""NEON⁺ as its tests run it."""

import torch

from tests.curvature.quadratics import quadratic, rng
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.neon_plus import NeonPlusSettings, neon_plus


def plus(**changes):
    """η = 0.3 and ζ = 0.8; by default no test ever passes."""
    common = {"step_size": 0.3, "num_steps": 40, "noise_radius": 1.0, "target": float("inf"), "momentum": 0.8}
    return NeonPlusSettings(**common | {"gamma": 1e9} | changes)


def run(f_hat, settings, seed=0):
    """The y_τ, and what came out."""
    seen = []
    found = neon_plus(f_hat, settings, rng(seed), observer=lambda _, y: seen.append(y.clone()))
    return seen, found


def at_zero(hessian):
    return DisplacedFunction(quadratic(hessian).sample(), torch.zeros(hessian.shape[0], dtype=torch.float64))
