"""What a search asks of an extractor: γ and δ, whole on everything, and split as Lemma 2 has it on samples."""

from __future__ import annotations

import math
from contextlib import ExitStack

import pytest
import torch

from unsaddle import FiniteSum
from unsaddle.cost import Ledger
from unsaddle.curvature import neon_plus, power
from unsaddle.curvature.extract import prepare
from unsaddle.curvature.question import Question
from unsaddle.curvature.search import Search
from unsaddle.theory import extraction

L1, L2, GAMMA, DELTA, D = 4.0, 2.0, 0.5, 0.1, 6
SUM = FiniteSum(
    lambda x, w: (0.5 * (x @ x) * w.mean(), x * w.mean()), torch.ones(50, dtype=torch.float64), gradient=True
)


def search(samples: int | None, *, theory: bool) -> Search:
    question = Question(
        gamma=GAMMA,
        delta=DELTA,
        samples=samples,
        smoothness=L1,
        hessian_lipschitz=L2,
        extractor="neon+",
        theory=theory,
    )
    return prepare(SUM, torch.ones(D, dtype=torch.float64), question, Ledger(), ExitStack())[0]


@pytest.mark.parametrize(("samples", "theory"), [(None, True), (None, False), (20, False)])
def test_delta_is_whole_on_everything_and_in_practice(samples: int | None, theory: bool) -> None:
    asked = search(samples, theory=theory)
    assert asked.delta == asked.constants["delta"] == DELTA
    assert asked.gamma == GAMMA


def test_on_samples_the_theory_runs_neon_at_a_third_of_delta_and_less_than_gamma() -> None:
    """Lemma 2: s = 1/((12·43)²·ℓ′) with ℓ′ = log(3dL1/(γδ)); t = ĉ√(ℓ/(η(1−s)γ)) with ℓ = log(3dL1/((1−s)γδ))."""
    asked = search(20, theory=True)
    s = 1.0 / (516.0**2 * math.log(3 * D * L1 / (GAMMA * DELTA)))
    assert asked.delta == asked.constants["delta"] == pytest.approx(DELTA / 3.0)
    assert asked.gamma == pytest.approx((1.0 - s) * GAMMA, rel=1e-14)
    settings = asked.settings(neon_plus.theory_settings)
    ell = math.log(3 * D * L1 / ((1.0 - s) * GAMMA * DELTA))
    eta = extraction.neon_plus_max_step(smoothness=L1)
    assert settings.num_steps == pytest.approx(43.0 * math.sqrt(ell / (eta * (1.0 - s) * GAMMA)), rel=1e-9)
    assert settings.target == pytest.approx((1.0 - s) * GAMMA / (72 * 43**2 * ell), rel=1e-9)


def test_other_extractors_get_the_same_third() -> None:
    """The power method: L1·log(d/δ²)/γ products, at δ/3 on samples. 8·ln(6·900) = 68.8; 8·ln(6·100) = 51.2."""
    assert power.settings_for(search(20, theory=True)).num_steps == 69
    assert power.settings_for(search(None, theory=True)).num_steps == 52
