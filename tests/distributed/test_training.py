"""Neon on models that several ranks train, with real processes: what it does, checkpoints, errors, and killed ranks."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import worker
from tests.distributed.launch import WORKER, on_ranks, torchrun


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """The same training in this process, which is the only one."""
    return worker.train("alone")


@pytest.mark.parametrize(("kind", "ranks"), [("ddp", 2), ("fsdp", 2)])
def test_neon_leaves_the_saddle_on_all_ranks_as_it_does_on_one(
    kind: str, ranks: int, alone: dict[str, Any], tmp_path: Path
) -> None:
    seen = on_ranks(ranks, "train", kind, tmp_path)
    assert all(answer == seen[0] for answer in seen)
    events = seen[0]["events"]
    assert [e["verdict"] for e in events] == [e["verdict"] for e in alone["events"]] == ["saddle"]
    assert events[0]["step"] == alone["events"][0]["step"]
    assert events[0]["gradients"] == alone["events"][0]["gradients"]
    assert events[0]["curvature"] == pytest.approx(alone["events"][0]["curvature"], rel=1e-3)
    assert seen[0]["weights"] == pytest.approx(alone["weights"], abs=1e-3)


def test_a_checkpoint_of_two_ranks_goes_on_in_four_and_in_one(alone: dict[str, Any], tmp_path: Path) -> None:
    saved = on_ranks(2, "train", "fsdp", tmp_path / "two", f"save={tmp_path / 'saved'}")
    assert saved[0]["phase"] == "confirm"  # A direction is in the checkpoint.
    for answer in (
        on_ranks(4, "train", "fsdp", tmp_path / "four", f"load={tmp_path / 'saved'}")[0],
        on_ranks(1, "train", "alone", tmp_path / "one", f"load={tmp_path / 'saved'}")[0],
    ):
        assert [e["step"] for e in answer["events"]] == [e["step"] for e in alone["events"]]
        assert answer["weights"] == pytest.approx(alone["weights"], abs=1e-3)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_an_error_on_one_rank_ends_all_of_them_with_the_model_as_it_was(kind: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    seen = on_ranks(2, "raises", kind, tmp_path, check=False)
    assert seen[1]["raises"]["error"] == "RuntimeError: out of paper"
    assert seen[0]["raises"]["error"] is not None  # Its neighbour is gone, or the group's time is over.
    assert all(answer["raises"]["untouched"] for answer in seen)
    assert time.monotonic() - begun < 400.0  # The group gives up after 120 s; never a hang.


@pytest.mark.parametrize("where", ["probe", "training"])
def test_a_killed_rank_ends_the_others_and_a_restart_ends_as_an_undisturbed_run(
    where: str, alone: dict[str, Any], tmp_path: Path
) -> None:
    kill, last = tmp_path / "kill", tmp_path / "checkpoints"
    kill.write_text(where)
    command = [WORKER, "train", "fsdp", tmp_path, f"last={last}", f"kill={kill}"]
    done = torchrun(2, *command, restarts=1)
    assert not kill.exists()  # It did happen,
    assert "exitcode: -9" in done.stderr  # torchrun saw it,
    seen = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert seen[0] == seen[1]
    assert [e["step"] for e in seen[0]["events"]] == [e["step"] for e in alone["events"]]
    assert seen[0]["weights"] == pytest.approx(alone["weights"], abs=1e-3)  # and nothing is to be seen of it.
