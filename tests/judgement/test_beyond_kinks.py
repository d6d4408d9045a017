"""Lower points beyond kinks that hide the curvature."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from benchmarks.verdict_cases.kinks import kinks_beside
from tests.objectives.in_float32 import InFloat32
from unsaddle import Function, is_minimum
from unsaddle.judgement.beyond_kinks import lower_beyond


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("index", [1_000_008, 1_000_022])
def test_the_point_that_an_undecided_verdict_names_is_lower(index: int, precision: str) -> None:
    case = kinks_beside(index, precision)
    verdict = is_minimum(case.objective, case.x)
    assert verdict.kind == "undecided"
    said = re.search(r"lower by (\S+) at a distance of (\S+)\. So x is no minimum", verdict.reason)
    assert said is not None
    f, v = case.objective.sample(), verdict.evidence.deciding[0]
    fall = float(f.value(case.x)) - float(f.value(case.x + float(said[2]) * v))
    assert fall == pytest.approx(float(said[1]), rel=0.05)
    assert fall > verdict.eps * float(said[2])


def test_a_minimum_has_none() -> None:
    def bowl(x: Tensor) -> Tensor:
        return (x**2).sum() + 1e-3 * (x - 1e-9).abs().sum()

    x = torch.zeros(3, dtype=torch.float64)
    verdict = is_minimum(InFloat32(Function(bowl)), x)
    assert lower_beyond(Function(bowl), verdict).reason == verdict.reason
