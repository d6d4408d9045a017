"""The judge, from evidence that is made up: every combination has one answer, and the reason names what decided."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from unsaddle.cost import Cost
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement import Kind
from unsaddle.judgement.enough_samples import RAREST
from unsaddle.judgement.judge import judge
from unsaddle.measure.direction import Measurement


def evidence(status: Status, *, lowest: float = 0.5, curvature: float = -2.0, sought: float = 0.1) -> Curvature:
    at = Measurement(curvature=curvature, error=0.25, radius=1e-4, samples=1, fresh=False)
    found = status is Status.FOUND
    return Curvature(
        direction=torch.tensor([1.0]) if found else None,
        curvature=curvature,
        status=status,
        gradient_norm=0.0,
        cost=Cost(),
        gamma=0.1,
        sought=sought,
        delta=0.05,
        extractor="script",
        smoothness=10.0,
        radius=1e-4,
        noise=1e-9,
        relative_noise=0.0,
        hessian_lipschitz=math.nan,
        lowest=lowest,
        measurements=(at,) if found else (),
    )


STATIONARY = {"gradient_norm": 1e-6, "eps": 1e-3}
STEEP = {"gradient_norm": 1.0, "gradient_error": 0.1, "eps": 1e-3}
UNCLEAR = {"gradient_norm": 1e-4, "gradient_error": 1e-2, "eps": 1e-3}


@pytest.mark.parametrize(
    ("status", "known", "kind", "word"),
    [
        (Status.NOTHING_FOUND, STATIONARY, "minimum", "Nothing below -gamma"),
        (Status.FOUND, STATIONARY, "saddle", "-2 ± 0.25"),
        (Status.FOUND, UNCLEAR, "saddle", "-2 ± 0.25"),
        (Status.NOTHING_FOUND, STEEP, "not stationary", "follow it"),
        (Status.FOUND, STEEP, "not stationary", "negative curvature too, -2 ± 0.25"),
        (Status.BUDGET_SPENT, STEEP, "not stationary", "follow it"),
        (Status.NOTHING_FOUND, UNCLEAR, "undecided", "known to 0.01 only"),
        (Status.NOTHING_FOUND, STATIONARY | {"gradient_norm": math.nan}, "undecided", "NaN or infinite"),
        (Status.NOTHING_FOUND, UNCLEAR | {"more_samples": "pass samples=99"}, "undecided", "Pass samples=99, use"),
        (
            Status.SAMPLE_ONLY,
            STATIONARY | {"more_samples": "pass samples=99"},
            "undecided",
            "Pass samples=99.",
        ),
        (Status.NOT_FINITE, STEEP, "undecided", "NaN or infinite"),
        (Status.NOT_DETERMINISTIC, STEEP, "undecided", "not deterministic"),
        (Status.NOT_CONFIRMED, STATIONARY, "undecided", "the Hessian seems to be zero"),
        (Status.NOT_QUADRATIC, STATIONARY, "undecided", "the Hessian seems to be zero"),
        (Status.PRECISION_TOO_LOW, STATIONARY, "undecided", "Compute in float64, or pass gamma="),
        (Status.BUDGET_SPENT, STATIONARY, "undecided", "Raise max_gradients"),
        (Status.SAMPLE_ONLY, STATIONARY, "undecided", "Draw more samples"),
    ],
)
def test_evidence_and_its_verdict(status: Status, known: dict[str, Any], kind: str, word: str) -> None:
    judgement = judge(evidence(status), **known)
    assert judgement.kind == kind
    assert word in judgement.reason


def test_any_gradient_is_small_where_the_caller_has_tested_it() -> None:
    assert judge(evidence(Status.NOTHING_FOUND), gradient_norm=1e300).kind is Kind.MINIMUM


@pytest.mark.parametrize(
    ("status", "known"),
    [(Status.NOTHING_FOUND, STATIONARY), (Status.FOUND, STATIONARY), (Status.NOTHING_FOUND, STEEP)],
    ids=["minimum", "saddle", "not stationary"],
)
def test_nothing_is_decided_where_samples_may_miss_too_much(status: Status, known: dict[str, Any]) -> None:
    found, advice = evidence(status), "pass samples=512"
    assert judge(found, **known, missed=0.99 * RAREST).kind is not Kind.UNDECIDED
    judgement = judge(found, **known, missed=1.01 * RAREST, more_samples=advice)
    assert judgement.kind is Kind.UNDECIDED
    assert judgement.reason.endswith(f"{advice}.")


def test_soft_curvature_that_an_uncertain_gradient_may_explain_is_undecided() -> None:
    at = Measurement(curvature=-0.05, error=0.01, radius=1e-4, samples=1, fresh=True)
    found = replace(evidence(Status.SAMPLE_ONLY), measurements=(at, at))
    judgement = judge(found, **STATIONARY, more_samples="pass samples=512")
    assert judgement.kind is Kind.UNDECIDED
    assert "-0.05 ± 0.01" in judgement.reason
    assert "pass samples=512" in judgement.reason


def test_a_strong_saddle_is_called_one() -> None:
    assert "All of that interval is below -gamma." in judge(evidence(Status.FOUND)).reason
    assert "All of that interval" not in judge(evidence(Status.FOUND, curvature=-0.3)).reason


def test_a_kind_is_its_word() -> None:
    assert [f"{kind}" for kind in Kind] == ["minimum", "saddle", "not stationary", "undecided"]
    assert repr(Kind.SADDLE) == "'saddle'"
    assert {Kind.SADDLE: 1}["saddle"] == 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("fall", "told"),
    [
        (math.nan, "along the direction."),
        (0.0, "along the direction, but no lower point was found along it."),
        (0.5, "along the direction, where F falls by 0.5: more than that step, though the gradient may lead farther."),
        (0.01, "along the direction, where F falls by 0.01: the lesser way down."),
    ],
)
def test_two_ways_down_are_compared_if_the_fall_is_known(fall: float, told: str) -> None:
    """The gradient promises 1²/(2·10) = 0.05."""
    assert judge(evidence(Status.FOUND), **STEEP, fall=fall).reason.endswith(told)
