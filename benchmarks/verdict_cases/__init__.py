"""Objectives and points of which the right verdict is known, for `benchmarks.verdicts`.

Every case carries its truth in float64: λ_min of the Hessian at x, the curvature along any direction, and ‖∇F(x)‖. A
family makes the case of an index and a precision; the same index gives the same problem in every precision.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.verdict_cases.case import (
    DTYPES,
    Case,
    dimension,
    integer,
    low_precision,
    normal,
    randomness,
    rounded,
    uniform,
)
from benchmarks.verdict_cases.dense import badly_scaled, random_spectra, steep, threshold, ties
from benchmarks.verdict_cases.equal_units import equal_units
from benchmarks.verdict_cases.finite_sums import sample_negative, sample_positive, sensing
from benchmarks.verdict_cases.flat import flat
from benchmarks.verdict_cases.formulas import ZOO_SEEDS, blocks, needle, symmetric, whole_zoo, zoo_points
from benchmarks.verdict_cases.inner_precision import lower_precision_inside
from benchmarks.verdict_cases.kinks import kinks_at_x, kinks_beside
from benchmarks.verdict_cases.landscape import (
    barriers,
    drowned_values,
    norm_of_x,
    odd_truncation,
    soft_beside_stiff,
    underflow,
    width_at_zero,
)
from benchmarks.verdict_cases.memory import memory, rough
from benchmarks.verdict_cases.published import published
from benchmarks.verdict_cases.trained_conv import trained_conv
from benchmarks.verdict_cases.trained_relu import trained_relu
from benchmarks.verdict_cases.trained_smooth import trained_smooth
from benchmarks.verdict_cases.valleys import valleys

FAMILIES: dict[str, Callable[[int, str], Case]] = {
    "random spectra": random_spectra,
    "near-ties": ties,
    "around -gamma": threshold,
    "needle, d=1e4": needle,
    "symmetric": symmetric,
    "equal units": equal_units,
    "equal blocks": blocks,
    "sample negative": sample_negative,
    "sample positive": sample_positive,
    "sensing, sampled": sensing,
    "badly scaled": badly_scaled,
    "large gradient": steep,
    "zoo": whole_zoo,
    "lower precision inside": lower_precision_inside,
    "underflow": underflow,
    "odd truncation": odd_truncation,
    "kinks beside x": kinks_beside,
    "kinks at x": kinks_at_x,
    "trained ReLU": trained_relu,
    "trained smooth": trained_smooth,
    "trained conv": trained_conv,
    "memory": memory,
    "rough gradients": rough,
    "soft beside stiff": soft_beside_stiff,
    "norm of x": norm_of_x,
    "width at zero": width_at_zero,
    "log barriers": barriers,
    "drowned values": drowned_values,
    "published": published,
    "flat to second order": flat,
    "soft valleys": valleys,
}


__all__ = [
    "DTYPES",
    "FAMILIES",
    "ZOO_SEEDS",
    "Case",
    "dimension",
    "integer",
    "low_precision",
    "normal",
    "randomness",
    "rounded",
    "uniform",
    "zoo_points",
]
