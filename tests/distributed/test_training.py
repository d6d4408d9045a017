"""Neon on models that several ranks train, with real processes: what it does, checkpoints, errors, and killed ranks."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.distributed import training
from tests.distributed.conftest import Seen
from tests.distributed.launch import ended, on_ranks, torchrun, worker, written

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_neon_leaves_the_saddle_on_all_ranks_as_it_does_on_one(kind: str, alone: dict[str, Any], two: Seen) -> None:
    reference, seen = alone["train"], [answer[kind]["train"] for answer in two]
    assert all(answer == seen[0] for answer in seen)
    events = seen[0]["events"]
    assert [e["verdict"] for e in events] == [e["verdict"] for e in reference["events"]] == ["saddle"]
    assert events[0]["step"] == reference["events"][0]["step"]
    assert events[0]["gradients"] == reference["events"][0]["gradients"]
    assert events[0]["curvature"] == pytest.approx(reference["events"][0]["curvature"], rel=1e-3)
    assert seen[0]["weights"] == pytest.approx(reference["weights"], abs=1e-3)


def test_a_checkpoint_in_the_middle_of_an_online_probe_goes_on_bit_for_bit(two: Seen) -> None:
    for answer in two:
        saved, resumed, undisturbed = (answer["fsdp"][name] for name in ("train_and_save", "go_on", "train"))
        assert (saved["phase"], saved["events"]) == ("collect", [])
        assert resumed == undisturbed


@pytest.mark.study
def test_a_checkpoint_in_the_middle_of_an_online_probe_goes_on_bit_for_bit_on_four_ranks(tmp_path: Path) -> None:
    for answer in on_ranks(4, {"fsdp": "train,train_and_save,go_on"}, tmp_path):
        saved, resumed, undisturbed = (answer["fsdp"][name] for name in ("train_and_save", "go_on", "train"))
        assert (saved["phase"], saved["events"]) == ("collect", [])
        assert resumed == undisturbed
        assert [e["escaped"] for e in undisturbed["events"]][:1] == [True]


def test_join_is_refused_on_every_rank_before_anything_waits(two: Seen) -> None:
    for answer in two:
        said = answer["ddp"]["joined"]
        assert set(said) == {"closure", "objective"}
        assert all("inside join()" in text for text in said.values())


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # As it is, in this process.
def test_a_checkpoint_of_two_ranks_goes_on_in_four_and_in_one(
    alone: dict[str, Any], two: Seen, four: Seen, folder: Path
) -> None:
    assert two[0]["fsdp"]["train_and_save"]["phase"] == "collect"  # A direction is in the checkpoint.
    reference = alone["train"]
    for answer in (four[0]["fsdp"]["go_on"], training.go_on("alone", folder)):
        assert [e["step"] for e in answer["events"]] == [e["step"] for e in reference["events"]]
        assert answer["weights"] == pytest.approx(reference["weights"], abs=1e-3)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_an_error_on_one_rank_ends_all_of_them_with_the_model_as_it_was(kind: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    seen = [answer[kind]["raises"] for answer in on_ranks(2, {kind: "raises"}, tmp_path)]
    assert seen[1]["error"] == "RuntimeError: out of paper"
    assert seen[0]["error"] is not None  # Its neighbour is gone, or the group's time is over.
    assert all(answer["untouched"] for answer in seen)
    assert time.monotonic() - begun < 400.0  # The group gives up after 120 s; never a hang.


def test_a_killed_rank_ends_the_others_and_another_start_ends_as_an_undisturbed_run(
    alone: dict[str, Any], tmp_path: Path
) -> None:
    """In the middle of a probe."""
    (tmp_path / "kill").write_text("probe")
    plan = {"fsdp": "train_and_die"}
    codes = ended(2, tmp_path, *worker(plan, tmp_path))
    assert codes == [1, -signal.SIGKILL]  # The first ends by itself, with an error.
    assert "This was in Neon.step on rank 0 of 2. If the message is" in (tmp_path / "rank 0.log").read_text()
    _compare(alone["train"], on_ranks(2, plan, tmp_path), tmp_path)


@pytest.mark.study
@pytest.mark.parametrize("places", [["probe"], ["probe", "training"]], ids=" and ".join)
def test_a_killed_rank_under_torchrun_restarts_and_ends_as_an_undisturbed_run(
    alone: dict[str, Any], tmp_path: Path, places: list[str]
) -> None:
    """In the middle of a probe, and again in training."""
    (tmp_path / "kill").write_text("\n".join(places))
    done = torchrun(2, *worker({"fsdp": "train_and_die"}, tmp_path), restarts=len(places))
    assert done.stderr.count("exitcode: -9") >= len(places)  # torchrun saw it.
    _compare(alone["train"], written(2, tmp_path), tmp_path)


def _compare(reference: dict[str, Any], answers: list[dict[str, Any]], folder: Path) -> None:
    assert (folder / "kill").read_text() == ""  # All of it did happen,
    seen = [answer["fsdp"]["train_and_die"] for answer in answers]
    assert seen[0] == seen[1]
    assert [e["step"] for e in seen[0]["events"]] == [e["step"] for e in reference["events"]]
    assert seen[0]["weights"] == pytest.approx(reference["weights"], abs=1e-3)  # and nothing is to be seen of it.


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_the_monitor_sees_the_same_on_all_ranks_as_on_one_and_leaves_no_trace(
    kind: str, alone: dict[str, Any], two: Seen
) -> None:
    reference, (first, second) = alone["monitored"], (answer[kind]["monitored"] for answer in two)
    assert repr(first["rows"]) == repr(second["rows"])
    assert first["with"] == first["without"]
    for ours, expected in zip(first["rows"], reference["rows"], strict=True):
        assert ours["sharpness"] == pytest.approx(expected["sharpness"], rel=1e-4)
        assert ours["gradients"] == expected["gradients"]
