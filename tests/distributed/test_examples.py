"""The examples run, in the environment of torchrun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.distributed.launch import forked

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.slow


def test_ddp_is_stuck_without_neon_and_leaves_with_it(tmp_path: Path) -> None:
    assert "saddle" in forked(2, tmp_path, EXAMPLES / "train_ddp.py", "--plain", "--epochs", "10").splitlines()[0]
    told = forked(2, tmp_path, EXAMPLES / "train_ddp.py", "--epochs", "40")
    assert ": saddle. Curvature -" in told
    assert told.count("Taken.") == 1  # One rank speaks, for all.
    assert any(line.startswith("A minimum") for line in told.splitlines())


def test_fsdp_goes_on_from_its_checkpoint_on_another_number_of_ranks(tmp_path: Path) -> None:
    first = forked(2, tmp_path, EXAMPLES / "train_fsdp.py", "--checkpoint", tmp_path / "saved", "--steps", "200")
    assert ": saddle. Curvature -" in first
    second = forked(1, tmp_path, EXAMPLES / "train_fsdp.py", "--checkpoint", tmp_path / "saved")
    assert "going on from step 200" in second
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss ([\d.]+)", first + second, re.MULTILINE)]
    scales = torch.linspace(2.0, 0.1, 16).square()
    best = float(scales[4:].sum() / scales.sum())  # What four units must leave of the loss at zero: 0.43.
    assert losses[-1] < (best + 1.0) / 2.0 * losses[0]
