"""The count of gradients on a terminal."""

from __future__ import annotations

import sys

import pytest
import torch

from unsaddle import Function, is_minimum

SADDLE = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
ORIGIN = torch.zeros(2, dtype=torch.float64)


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    shown, plain = is_minimum(SADDLE, ORIGIN, progress=True), is_minimum(SADDLE, ORIGIN)
    assert (shown.kind, shown.curvature, shown.cost) == (plain.kind, plain.curvature, plain.cost)
    assert capfd.readouterr().err == ""


def test_on_a_terminal_gradients_are_counted(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    verdict = is_minimum(SADDLE, ORIGIN, progress=True, max_gradients=100)
    assert verdict.kind == "saddle"
    assert f"{verdict.cost.gradients} gradients" in capfd.readouterr().err
