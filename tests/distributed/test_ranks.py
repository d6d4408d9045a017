"""Models on several ranks, started by torchrun with gloo, against the same model and the same rows in one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.distributed.conftest import Seen
from tests.distributed.probing import EXTRACTORS, FEW, SHORT

pytestmark = pytest.mark.slow


def test_all_ranks_decide_on_the_same_bits(seen: list[dict[str, Any]]) -> None:
    for scenario, answer in seen[0].items():
        for other in seen[1:]:
            for key, value in answer.items():
                if not key.startswith("held"):  # How much of the vector is here.
                    assert other[scenario][key] == value, f"{scenario}, {key}"


TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-3}


def dtypes(seen: list[dict[str, Any]], method: str = "auto") -> list[torch.dtype]:
    """In which an extractor ran: both, or float64 on four ranks. Most ran in float64 on two, and not on four."""
    ran = [dtype for dtype in TOLERANCES if f"{method}, {dtype}" in seen[0]["extractors"]]
    everywhere = method in ("auto", "krylov", *FEW)
    assert len(ran) >= (2 if everywhere else 1) - (len(seen) == 4)
    return ran


@pytest.mark.parametrize("method", [*EXTRACTORS, "krylov"])
def test_an_extractor_finds_what_it_finds_in_one_process(
    seen: list[dict[str, Any]], alone: dict[str, Any], method: str
) -> None:
    for dtype in dtypes(seen, method):
        answers = [one["extractors"][f"{method}, {dtype}"] for one in (seen[0], alone)]
        _compare(*answers, method, TOLERANCES[dtype])


def _compare(ours: dict[str, Any], reference: dict[str, Any], method: str, tolerance: float) -> None:
    assert ours["status"] == reference["status"]
    assert ours["history"] == pytest.approx(reference["history"], rel=tolerance, abs=tolerance)
    if method != "krylov":
        assert (ours["direction"] is None) == (method in SHORT)  # Their budget ends before there is one.
        assert ours["curvature"] == pytest.approx(reference["curvature"], abs=tolerance, nan_ok=True)
        assert ours["direction"] == pytest.approx(reference["direction"], abs=tolerance)
        assert (ours["gradients"], ours["samples"]) == (reference["gradients"], reference["samples"])


def test_measured_constants_give_the_same_answer_within_the_error_that_is_stated(
    seen: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    for dtype in dtypes(seen):
        ours, reference = (answers["extractors"][f"auto, {dtype}"] for answers in (seen[0], alone))
        assert (ours["status"], ours["kind"]) == (reference["status"], reference["kind"])
        assert abs(ours["curvature"] - reference["curvature"]) <= ours["error"] + reference["error"]
        assert ours["gradient_norm"] == pytest.approx(reference["gradient_norm"], rel=1e-5)


def test_parameters_gradients_and_buffers_are_left_bit_for_bit(seen: list[dict[str, Any]]) -> None:
    assert all(answer["extractors"][f"untouched, {dtype}"] for answer in seen for dtype in dtypes(seen))


@pytest.mark.parametrize("method", [*EXTRACTORS, "krylov"])
def test_a_step_sends_one_message_beyond_the_gradient_s_own_and_krylov_two(
    seen: list[dict[str, Any]], method: str
) -> None:
    for dtype in dtypes(seen, method):
        sent = seen[0]["extractors"][f"{method}, {dtype}"]["messages a step"]
        # Drawing a sample takes two more.
        assert sent == {"krylov": 2, "neon2-online": 3, "oja-first-order": 3}.get(method, 1)


def test_no_rank_holds_a_vector_of_a_sharded_model_in_full(seen: list[dict[str, Any]], request: Any) -> None:
    held = [answer["extractors"]["held, torch.float64"] for answer in seen]
    kind = request.node.callspec.params["seen"]
    replicas = {"ddp-views": 2, "fsdp": 1, "hsdp": 2}[kind]
    assert sum(held) == replicas * 70
    assert kind == "ddp-views" or max(held) < 70


def test_a_search_in_the_metric_of_an_optimizer_is_that_of_one_process(
    seen: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    ours, reference = seen[0]["metric"], alone["metric"]
    assert len(reference["sizes"]) == 70
    assert reference["ends"][1] > 3.0 * reference["ends"][0]  # The metric does something.
    assert ours["sizes"] == pytest.approx(reference["sizes"], rel=1e-6)
    assert ours["ends"] == pytest.approx(reference["ends"], rel=1e-6)
    assert (ours["status"], ours["kind"]) == (reference["status"], reference["kind"])
    assert ours["gradients"] == reference["gradients"]
    assert ours["curvature"] == pytest.approx(reference["curvature"], rel=1e-4)
    product = sum(a * b for a, b in zip(ours["direction"], reference["direction"], strict=True))
    assert abs(product) == pytest.approx(1.0, abs=1e-4)
    assert all(answer["metric"]["untouched"] for answer in seen)


def test_noise_is_the_same_vector_for_any_number_of_ranks(seen: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    ours, reference = seen[0]["noise"], alone["noise"]
    assert ours["dimension"] == reference["dimension"] == 70
    assert ours["direction"] == pytest.approx(reference["direction"], rel=1e-6)
    assert ours["ball"] == pytest.approx(reference["ball"], rel=1e-6)


def test_a_forward_pass_without_backward_does_not_hide_the_weights_of_the_next(
    seen: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    ours, reference = seen[0]["value_only"], alone["value_only"]
    assert ours["value"] == pytest.approx(reference["value"], rel=1e-12)
    assert ours["grad"] == pytest.approx(reference["grad"], abs=1e-12)
    assert ours["parameters"]


def test_rows_of_a_distributed_sampler_count_once(seen: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    assert seen[0]["sampler"]["n"] == alone["sampler"]["n"] == 50
    assert seen[0]["sampler"]["value"] == pytest.approx(alone["sampler"]["value"], rel=1e-12)


@pytest.mark.parametrize("count", ["two", "four"])
def test_a_sum_with_rows_on_several_ranks_is_minimised_as_in_one_process(
    request: pytest.FixtureRequest, alone: dict[str, Any], count: str
) -> None:
    answers = [answer["ddp"]["finite_sum"] for answer in request.getfixturevalue(count)]
    assert all(answer == answers[0] for answer in answers)
    ours, reference = answers[0], alone["finite_sum"]
    assert ours["n"] == 200
    assert reference["status"] == "SECOND_ORDER_POINT"
    assert reference["escapes"] >= 1  # It starts at a saddle.
    assert {k: ours[k] for k in ("status", "kind")} == {k: reference[k] for k in ("status", "kind")}
    sign = 1.0 if ours["x"][1] * reference["x"][1] > 0.0 else -1.0  # x and −x are the same minimum.
    assert [sign * c for c in ours["x"]] == pytest.approx(reference["x"], abs=1e-2)


@pytest.mark.parametrize("scenario", ["extractors", "value_only"])
def test_one_group_of_parameters_for_the_whole_model_gives_the_same(
    two: Seen, alone: dict[str, Any], scenario: str
) -> None:
    """With `fully_shard` on the root alone a forward without backward leaves everything gathered."""
    ours, reference = two[0]["fsdp-root"][scenario], alone[scenario]
    if scenario == "value_only":
        assert ours["grad"] == pytest.approx(reference["grad"], abs=1e-12)
        return
    for method in FEW:
        found, expected = (answer[f"{method}, torch.float64"] for answer in (ours, reference))
        assert found["history"] == pytest.approx(expected["history"], rel=1e-10, abs=1e-10)


def test_a_policy_of_mixed_precision_finds_the_saddle_within_its_rounding(two: Seen, alone: dict[str, Any]) -> None:
    answers, reference = [answer["fsdp-bf16"]["mixed_precision"] for answer in two], alone["mixed_precision"]
    assert answers[0] == answers[1]
    assert answers[0]["kind"] == reference["kind"] == "saddle"
    assert answers[0]["curvature"] != reference["curvature"]  # It is another arithmetic,
    low, high = answers[0]["interval"]
    assert low <= reference["curvature"] <= high  # and float32's is within its error.
    assert all(answer["untouched"] for answer in answers)


def test_gradients_of_several_micro_batches_are_reduced_once(two: Seen, alone: dict[str, Any]) -> None:
    for answer in (a["ddp"]["reductions"] for a in two):
        assert answer["batches"] > 1
        assert answer["sent"] == answer["gradients"] == 3
        assert answer["grad"] == pytest.approx(alone["reductions"]["grad"], abs=1e-12)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_what_a_rank_computes_on_its_own_reaches_no_decision(two: Seen, kind: str) -> None:
    """Rank 1 takes every inner product and every eigenvalue 0.1 % too long; all the same both see the same numbers."""
    first, second = (answer[kind]["rounding"] for answer in two)
    assert first["held"] == {"dot": 0, "eigh": 0}
    assert second["held"]["dot"] > 50
    assert second["held"]["eigh"] >= 10  # One a step.
    assert first["found"] == second["found"]
    assert first["verdict"] == second["verdict"]


def test_a_mistake_of_one_rank_is_an_error_on_all(two: Seen) -> None:
    first, second = (answer["ddp"]["own_mistakes"] for answer in two)
    assert second["no rows"].startswith("the data set is empty")
    assert first["no rows"] == "something is wrong with the data of rank 1, whose own error says what"
    assert first["another point"] == second["another point"]
    assert first["another point"].startswith("x must be the same point on all ranks, got different ones; broadcast it")


def test_other_mistakes_of_one_rank_are_errors_on_all(two: Seen) -> None:
    first, second = (answer["ddp"]["own_mistakes"] for answer in two)
    for name in ("another seed", "another seed of a model", "another seed of Neon"):
        assert first[name] == second[name]
        assert first[name].startswith("seed must be the same on all ranks, got [0, 1]")
    elsewhere = "something is wrong with the data of rank 1, whose own error says what"
    assert (first["no file"], second["no file"]) == (elsewhere, "the file is gone")
    assert first["no batches"] == elsewhere
    assert second["no batches"].startswith("the loader is empty")
    assert first["another kind"] == second["another kind"]
    assert first["another kind"].endswith("on all ranks or on none, got 17 samples, without end")


def test_a_rank_may_hold_no_part_of_the_vector(two: Seen) -> None:
    answers = [answer["fsdp"]["small_head"] for answer in two]
    assert [answer["held"] for answer in answers] == [2, 0]
    for answer in answers:
        assert answer["curvature"] == pytest.approx(-1.0, rel=1e-6)  # (1/2)·(−2), the mean over two rows.
        assert answer["moved"] == [1.0, 1.0]


def test_batch_norm_gets_no_batch_of_one_row(two: Seen) -> None:
    assert two[0]["ddp"]["batch_norm"] == two[1]["ddp"]["batch_norm"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_infinite_rows_that_were_not_drawn_count_for_nothing(two: Seen, alone: dict[str, Any], kind: str) -> None:
    """All rows of rank 1 are infinite. It evaluates some with weight zero if it has none of the sample."""
    ours, reference = two[0][kind]["infinite_rows"]["seen"], alone["infinite_rows"]["seen"]
    assert [one is None for one in ours] == [one is None for one in reference]
    assert {one is None for one in reference} == {True, False}
    for (value, grad), (expected, its_grad) in ((a, b) for a, b in zip(ours, reference, strict=True) if b is not None):
        assert value == pytest.approx(expected, rel=1e-12)
        assert grad == pytest.approx(its_grad, abs=1e-12)


def test_parameters_that_are_frozen_later_end_the_candidate_on_all_ranks(two: Seen) -> None:
    first, second = (answer["fsdp"]["other_parameters"] for answer in two)
    assert first == second
    assert first["verdicts"][0] == "candidate"
    assert first["events"]


@pytest.mark.parametrize("name", ["first FSDP", "first FSDP, flat", "tensor parallel"])
def test_ways_to_shard_that_are_not_supported_are_refused(two: Seen, name: str) -> None:
    said = [answer["ddp"]["foreign_shards"][name] for answer in two]
    assert said[0] == said[1]
    assert ("not by fully_shard" if name == "tensor parallel" else "use torch.distributed.fsdp.fully_shard") in said[0]
