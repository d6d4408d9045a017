"""Verdicts on samples, against the families of `benchmarks.sampled_cases`: wrong no more often than δ, and given."""

from __future__ import annotations

from collections import Counter

import pytest
from scipy import stats

from benchmarks.sampled_cases import SAMPLED_FAMILIES
from benchmarks.verdicts import judge
from unsaddle import is_minimum

DELTA = 0.05


def outcomes(family: str, indices: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for index in indices:
        case = SAMPLED_FAMILIES[family](index, "float64")
        verdict = is_minimum(case.objective, case.x, delta=DELTA, samples=case.samples, seed=case.seed)
        counts[judge(verdict, case, "float64")] += 1
    return counts


@pytest.mark.parametrize("family", sorted(SAMPLED_FAMILIES.keys() - {"rare class"}))
def test_no_verdict_of_a_few_is_wrong(family: str) -> None:
    """Of twelve, wrong with probability δ each, three are wrong with probability 0.02."""
    counts = outcomes(family, range(12))
    assert counts["false saddle"] == 0
    assert sum(count for outcome, count in counts.items() if outcome.startswith("false")) <= 2


@pytest.mark.study
@pytest.mark.parametrize("family", sorted(SAMPLED_FAMILIES))
def test_the_confidence_holds(family: str) -> None:
    """300 verdicts: more than 28 wrong ones of a kind come with probability 1e-3 at the rate δ. No saddle is wrong."""
    assert stats.binom.sf(28, 300, DELTA) < 1e-3
    counts = outcomes(family, range(300))
    assert counts["false saddle"] == 0
    assert counts["false minimum"] <= 28
    assert counts["false not stationary"] <= 28
    if family in ("Wishart minimum", "clear saddle"):
        assert counts["right"] >= 285
