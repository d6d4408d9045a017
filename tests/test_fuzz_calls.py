"""Hostile calls of the public functions: a short run of `python -m benchmarks.fuzz_calls`."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import fuzz_calls
from benchmarks.hostile.values import unchanged


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(min_value=0, max_value=10**9))
def test_nothing_but_our_own_errors_comes_out(seed):
    name, ended, wrong = fuzz_calls.outcome(seed)
    assert not wrong, f"{name}, --seed {seed} --count 1: {wrong}"
    assert ended in ("returned", "refused", "its own error")


def _division(r):
    return 1 // 0


def _from_torch(r):
    fuzz_calls.torch.zeros(2) @ fuzz_calls.torch.zeros(3)


def _grad_mode(r):
    fuzz_calls.torch.set_grad_enabled(False)


def _writes(r):
    def write(x):
        x += 1.0

    unchanged(write, fuzz_calls.torch.zeros(2))


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (_division, "ZeroDivisionError"),
        (_from_torch, "RuntimeError"),
        (_grad_mode, "left a changed state behind"),
        (_writes, "x was changed"),
    ],
)
def test_the_judge_sees_what_is_wrong(call, complaint, monkeypatch):
    """So that a run without complaints means something."""
    monkeypatch.setattr(fuzz_calls, "TARGETS", {"wrong": call})
    try:
        assert complaint in fuzz_calls.outcome(0)[2]
    finally:
        fuzz_calls.torch.set_grad_enabled(True)
