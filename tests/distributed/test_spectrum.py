"""The spectrum of a model on several ranks, started by torchrun with gloo, against that of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.distributed import probing
from tests.distributed.launch import on_ranks

pytestmark = pytest.mark.slow

STUDY = pytest.mark.study
KINDS = ["fsdp", *(pytest.param(kind, marks=STUDY) for kind in ("fsdp in both precisions", "ddp-views", "hsdp"))]
"""Four ranks on two cores take more than a minute."""


@pytest.fixture(scope="session")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return probing.spectrum_in_both_precisions("alone", tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="session", params=KINDS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """By rank."""
    kind, scenario = request.param.split()[0], "spectrum" if request.param == "fsdp" else "spectrum_in_both_precisions"
    answers = on_ranks(4 if kind == "hsdp" else 2, {kind: scenario}, tmp_path_factory.mktemp("spectrum"))
    return [answer[kind][scenario] for answer in answers]


def test_all_ranks_have_the_same_bits(seen: list[dict[str, Any]]) -> None:
    assert all(other == seen[0] for other in seen[1:])


TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-2}


def test_the_spectrum_is_that_of_one_process(seen: list[dict[str, Any]], one_process: dict[str, Any]) -> None:
    assert str(torch.float64) in seen[0]
    for dtype, tolerance in TOLERANCES.items():
        if str(dtype) in seen[0]:
            _compare(seen, one_process, dtype, tolerance)


def _compare(seen: list[dict[str, Any]], one_process: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    ours, reference = (answers[str(dtype)] for answers in (seen[0], one_process))
    size = max(map(abs, reference["values"]))
    for key in ("values", "blocks"):
        mine, theirs = (torch.tensor(one[key]).flatten().tolist() for one in (ours, reference))
        assert mine == pytest.approx(theirs, abs=tolerance * size)
    lower, upper = ours["index"]
    assert lower == upper
    assert (lower, upper) == tuple(reference["index"])
    assert ours["dimensions"] == reference["dimensions"] == [42, 70]
    assert ours["where"] == pytest.approx(reference["where"], abs=10.0 * tolerance)
    assert ours["sizes"] == pytest.approx(reference["sizes"])
    up_to_sign = sum(a * b for a, b in zip(ours["vector"], reference["vector"], strict=True))
    assert abs(up_to_sign) == pytest.approx(1.0, abs=tolerance)
    assert all(answer[f"untouched, {dtype}"] for answer in seen)


def test_the_density_is_that_of_one_process_to_one_per_cent(
    seen: list[dict[str, Any]], one_process: dict[str, Any]
) -> None:
    for dtype in (key for key in one_process if key in seen[0] and not key.startswith("untouched")):
        ours, reference = (answers[dtype] for answers in (seen[0], one_process))
        there = np.interp(reference["grid"], ours["grid"], ours["density"])
        off = np.trapezoid(np.abs(there - np.array(reference["density"])), reference["grid"])
        assert off <= 0.01
        assert ours["trace"] == pytest.approx(reference["trace"], rel=0.01)
