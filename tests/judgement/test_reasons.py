"""Reasons: two plain sentences, and advice that `is_minimum` can follow."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.cost import Cost
from unsaddle.curvature.result import Curvature, Status
from unsaddle.judgement import reasons
from unsaddle.judgement.reasons import SENTENCES
from unsaddle.measure.survey import Survey

SOME = Curvature(
    status=Status.NOT_CONFIRMED,
    direction=None,
    curvature=-1.0,
    lowest=-1.0,
    gamma=0.01,
    sought=0.01,
    delta=0.05,
    gradient_norm=1e-3,
    smoothness=1.0,
    radius=1e-3,
    noise=1e-3,
    relative_noise=1e-3,
    hessian_lipschitz=1.0,
    extractor="krylov",
    cost=Cost(),
)

DOUBLE = torch.float64

ARGUMENTS = set(inspect.signature(is_minimum).parameters)
TEXTS = [*SENTENCES.values(), *(getattr(reasons, name) for name in dir(reasons) if name.isupper())]


@pytest.mark.parametrize("text", [text for text in TEXTS if isinstance(text, str)])
def test_it_is_two_sentences_and_names_only_arguments_of_the_call(text: str) -> None:
    plain = re.sub(r"\{.*?\}", "1", text)
    assert len(re.findall(r"\.(?: |$)", plain)) == 2
    assert set(re.findall(r"\b(\w+)=", plain)) <= ARGUMENTS


def bent(x: Tensor) -> Tensor:
    return x[0] ** 2 + (x[1] - 0.3 * x[0]).abs()


@pytest.mark.parametrize(
    ("fun", "kind", "words"),
    [
        (bent, "minimum", "x lies on 1 kink, as of ReLU. Across it F rises; along it this holds"),
        (lambda x: (x**4).sum(), "undecided", "the Hessian seems to be zero"),
        (lambda x: x.sum() * 0.0, "undecided", "has no curvature to measure"),
        (lambda x: (x - 1.0).sqrt().sum(), "undecided", "NaN or infinite"),
    ],
)
def test_the_cause_is_named(fun: Callable[[Tensor], Tensor], kind: str, words: str) -> None:
    verdict = is_minimum(Function(fun), torch.zeros(2, dtype=DOUBLE))
    assert verdict.kind == kind
    assert words in verdict.reason


@pytest.mark.parametrize("status", [Status.NOT_CONFIRMED, Status.PRECISION_TOO_LOW])
def test_in_float32_kinks_are_named_and_not_rounding_where_gradients_were_seen_to_jump(status: Status) -> None:
    """As with ReLU and batch norm: the survey saw jumps, the last search did not."""
    around = Survey(noise=1e-3, curvature=1.0, drowned=False, jumps=True)
    found = replace(SOME, status=status, survey=around, deciding=(torch.ones(2),))
    assert "kinks such as those of ReLU" in reasons.reason_for(found, "")
    assert "kinks" not in reasons.reason_for(replace(found, survey=replace(around, jumps=False)), "")
