"""When to look, when to believe it, when to jump."""

import math

import pytest
import torch

from unsaddle.torch_optim import plateau, policy
from unsaddle.torch_optim.rules import SHORTEST_WINDOW, WINDOW, Rules
from unsaddle.torch_optim.state import COLLECT, State


def rules(**changes):
    return Rules(**{"gamma": None, "every": 100, "max_overhead": 0.05, "escape": True, "seed": 0} | changes)


def after(losses, **fields):
    state = State(**fields)
    for loss in losses:
        plateau.record(state, rules(), loss, 1)
    return state


FLAT = [1.0 + 0.01 * (-1) ** i for i in range(100)]


def test_a_plateau_is_looked_at_once_a_window_is_full():
    assert not policy.due(after(FLAT[:99]), rules())
    assert policy.due(after(FLAT), rules())


def test_a_falling_loss_is_left_alone():
    assert not policy.due(after([1.0 - 0.002 * i for i in range(100)]), rules())


def test_a_fall_within_the_noise_is_a_plateau_and_so_is_a_rise():
    noise = torch.randn(100, generator=torch.Generator().manual_seed(0)).tolist()
    assert policy.due(after([1.0 - 1e-5 * i + 0.1 * z for i, z in enumerate(noise)]), rules())
    assert policy.due(after([1.0 + 0.1 * i for i in range(100)]), rules())


def test_a_loss_of_exactly_zero_all_along_is_a_plateau():
    assert policy.due(after([0.0] * 100), rules())


@pytest.mark.parametrize("bad", [math.nan, math.inf, torch.tensor(math.nan), torch.ones(2)])
def test_a_window_with_something_that_is_no_finite_number_is_not(bad):
    assert not policy.due(after([*FLAT[:50], bad, *FLAT[50:99]]), rules())


def test_the_window_is_as_short_as_the_wait():
    assert rules(every=20).window == 20
    assert rules(every=1000).window == WINDOW
    assert rules(every=1).window == SHORTEST_WINDOW


def test_a_loss_is_copied_since_its_memory_may_be_used_again():
    loss = torch.tensor(1.0)
    state = after([loss])
    loss.fill_(5.0)
    assert float(state.losses[0]) == 1.0


def test_the_first_probe_is_on_credit_and_the_next_waits_for_its_worst_case():
    assert policy.affordable(State(trained=1), rules())
    enough = (40 + policy.WORST_CASE) / 0.05
    state = State(spent=40, trained=int(enough) - 1)
    policy.end(state, rules(), {}, escaped=False)
    assert not policy.affordable(state, rules())
    state.trained += 2
    assert policy.affordable(state, rules())


@pytest.mark.parametrize(("fall", "paid"), [(0.0, True), (1e-3, True), (5e-3, False)])
def test_an_escape_that_lowers_the_loss_by_more_than_training_would_puts_the_next_probe_on_credit(fall, paid):
    state = after([1.0 - fall * i for i in range(100)])
    assert plateau.speed(state, rules()) == pytest.approx(fall)
    state.spent = policy.WORST_CASE + 50
    policy.end(state, rules(), {"decrease": 0.1, "gradients": 50}, escaped=True)
    assert policy.affordable(state, rules()) is paid
    state.spent += policy.WORST_CASE
    assert not policy.affordable(state, rules())


@pytest.mark.parametrize(("values", "fall"), [([2.0, 1.5], 0.5), ([1.5, 2.0], 0.0)])
def test_without_losses_the_objectives_own_sample_says_how_fast_training_is(values, fall):
    """Its value is taken once a window."""
    assert plateau.speed(State(values=values), rules()) == pytest.approx(fall / rules().window)


def test_after_a_first_trial_that_failed_there_is_a_second_probe_as_soon_and_on_credit():
    state, failed = after(FLAT), {"verdict": "trial failed", "gradients": 80}
    for soon in (True, False):
        state.spent += policy.WORST_CASE
        policy.end(state, rules(), failed, escaped=False)
        assert policy.affordable(state, rules()) is soon
        assert (state.wait == rules().every) is soon


def test_where_losses_do_not_differ_soft_curvature_counts_and_with_noise_it_does_not():
    for losses, soft in (([1.0] * 99 + [0.9999], True), (FLAT, False), ([], False)):
        question = policy.extraction(after(losses), rules())
        assert question.seen_counts is soft
        assert question.max_gradients == (policy.SOFT_EXTRACTION if soft else policy.EXTRACTION)
    assert not policy.extraction(after([1.0] * 100), rules(gamma=0.1)).seen_counts


def test_a_probe_that_was_cut_off_by_an_error_does_not_use_up_the_credit_unless_it_spent_it():
    assert policy.affordable(State(spent=40, trained=1), rules())
    assert not policy.affordable(State(spent=policy.WORST_CASE, trained=1), rules())


def test_without_a_budget_nothing_is_probed():
    assert not policy.affordable(State(), rules(max_overhead=0.0))


def test_the_wait_doubles_up_to_a_limit_and_an_escape_resets_it():
    state = State()
    waits = []
    for _ in range(8):
        policy.end(state, rules(), {}, escaped=False)
        waits.append(state.wait)
    assert waits == [200, 400, 800, 1600, 3200, 3200, 3200, 3200]
    state.losses = [1.0]
    policy.end(state, rules(), {"decrease": 1.0, "gradients": 1}, escaped=True)
    assert (state.wait, state.losses) == (100, [])


ALTERNATING = [-1.0 + 0.1 * (-1) ** i for i in range(20)]


@pytest.mark.parametrize(
    ("curvatures", "answer"),
    [
        (ALTERNATING[:8], "more"),
        (ALTERNATING, "confirmed"),
        ([-c for c in ALTERNATING], "batch only"),
        ([c / 1000.0 for c in ALTERNATING], "confirmed"),  # What is seen counts: below 0 is enough.
        ([-0.01 * c - 0.02 for c in ALTERNATING], "confirmed"),
        ([0.04 * (-1) ** i for i in range(100)], "batch only"),  # −γ is excluded.
        ([0.4 * (-1) ** i for i in range(20)], "more"),
        ([10.0 * (-1) ** i for i in range(policy.MOST)], "undecided"),
        ([math.nan], "undecided"),
    ],
)
def test_fresh_batches_decide_by_their_interval(curvatures, answer):
    state = State(gamma=0.1, curvatures=curvatures)
    assert policy.confirmation(state, policy.collected(state)) == answer


def test_the_error_is_that_of_what_is_claimed():
    skewed = [-1.0, -1.3, -0.8, -1.1, -3.0, *([-0.9, -1.0] * 12)]
    claimed = State(gamma=0.1, curvatures=skewed)
    seen = policy.collected(claimed)
    assert seen.upper < 0.0
    assert policy.one_sided(claimed, seen) == seen.upper - seen.mean != seen.error
    excluded = State(gamma=0.1, curvatures=[-c for c in skewed])
    seen = policy.collected(excluded)
    assert policy.one_sided(excluded, seen) == seen.mean - seen.lower != seen.error
    open_ = State(gamma=0.1, curvatures=[0.4 * (-1) ** i for i in range(20)])
    assert policy.one_sided(open_, policy.collected(open_)) == policy.collected(open_).error


def test_some_tens_of_batches_measure_and_more_only_while_it_looks_like_a_saddle_and_the_loss_does_not_fall():
    looks, does_not = [-0.9, 0.5] * 30, [0.5, -0.6] * 30
    assert policy.collected(State(curvatures=looks)).upper > 0.0
    assert policy.collected(State(curvatures=does_not)).mean < 0.0
    for curvatures, losses, whether in (
        (looks[:40], [], True),
        (does_not[:40], [], True),
        (looks, FLAT, True),
        (does_not, FLAT, False),
        (looks, [1.0 - 0.002 * i for i in range(100)], False),
    ):
        state = after(losses, phase=COLLECT, curvatures=curvatures, gamma=0.1, spent=1000)
        assert policy.measures(state, rules()) is whether


def test_after_the_burst_the_budget_says_when_to_measure():
    state = State(phase=COLLECT, curvatures=[0.2, -0.2] * 30, gamma=0.1, spent=9, trained=199)
    assert not policy.measures(state, rules())
    state.trained = 200
    assert policy.measures(state, rules())
    assert not policy.measures(state, rules(), cost=2)


def test_what_is_not_decided_is_said_with_its_interval():
    state = State(phase=COLLECT, curvatures=[0.1, -0.5] * 8, gamma=0.1)
    assert policy.awaited(state).startswith("Undecided so far whether it is a saddle: curvature -0.2")
    assert policy.awaited(state).endswith(" on 16 fresh batches.")
    state.curvatures = state.curvatures[:3]
    assert "3 fresh ones are too few to tell" in policy.awaited(state)


@pytest.mark.parametrize(("fall", "stands"), [(1.9e-3, True), (2.1e-3, False)])
def test_an_objective_s_loss_may_fall_as_fast_as_that_of_closures(fall, stands):
    """Its values are a window apart. The means of the halves of a window are half a window apart."""
    of_closures = State(losses=[1.0 + fall * (1.0 - i / 100) for i in range(100)])
    of_objective = State(values=[1.0 + fall, 1.0])
    assert policy.plateau(of_closures, rules()) is policy.plateau(of_objective, rules()) is stands


def test_the_objective_s_own_sample_tells_a_plateau_from_a_fall():
    state = State(steps=100, trained=100)
    plateau.record_value(state, 2.0, 1)
    assert not policy.due(state, rules())
    plateau.record_value(state, 1.9999, 1)
    assert policy.due(state, rules())
    plateau.record_value(state, 1.9, 1)
    assert not policy.due(state, rules())
    assert (state.values, state.spent) == ([1.9999, 1.9], 3)


@pytest.mark.parametrize(
    ("changes", "opposite", "answer"),
    [
        ([-1.0] * 3, [-1.0] * 3, "more"),
        ([-1.0, -1.1, -0.9, -1.0], [-1.0] * 4, "better"),
        # Slopes that differ from batch to batch are taken out by the opposite step.
        ([-9.0, 7.0, -12.0, 10.0], [7.0, -9.0, 10.0, -12.0], "better"),
        ([1.0, 1.1, 0.9, 1.0], [1.0] * 4, "failed"),
        ([-1.0, 0.9] * 2, [-1.0, 0.9] * 2, "more"),
        ([-1.0, 0.9] * 8, [-1.0, 0.9] * 8, "failed"),
        ([math.nan], [1.0], "failed"),
    ],
)
def test_a_step_has_to_lower_the_loss_of_fresh_batches(changes, opposite, answer):
    assert policy.trial(changes, opposite) == answer
