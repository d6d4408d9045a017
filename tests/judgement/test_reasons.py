"""Reasons: two plain sentences, and advice that `is_minimum` can follow."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from unsaddle import Function, is_minimum
from unsaddle.judgement import reasons
from unsaddle.judgement.reasons import SENTENCES

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
        (bent, "minimum", "x lies on 1 kink, as of ReLU, across which F bends up"),
        (lambda x: (x**4).sum(), "undecided", "the Hessian seems to be zero"),
        (lambda x: x.sum() * 0.0, "undecided", "nothing can be said"),
        (lambda x: (x - 1.0).sqrt().sum(), "undecided", "NaN or infinite"),
    ],
)
def test_the_cause_is_named(fun: Callable[[Tensor], Tensor], kind: str, words: str) -> None:
    verdict = is_minimum(Function(fun), torch.zeros(2, dtype=DOUBLE))
    assert verdict.kind == kind
    assert words in verdict.reason
