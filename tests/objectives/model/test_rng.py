"""States of random numbers: read and set exactly, also where NumPy's memory does not tell all of its state."""

import random

import numpy as np
import pytest
import torch

from unsaddle.objectives.model.rng import NumpyNumbers, RandomState, content


@pytest.fixture(autouse=True)
def _keeps_numpy():
    state = np.random.get_state()
    yield
    np.random.set_state(state)


@pytest.mark.parametrize("before", [(0,), (1,), (2,), (1, 1), (701,)])
@pytest.mark.parametrize("inside", [0, 1, 2, 701])
def test_normal_numbers_before_and_inside_leave_no_trace(before: tuple[int, ...], inside: int) -> None:
    """An odd number of normals leaves one in store, which the generator's memory does not hold."""
    np.random.seed(3)
    start = RandomState.seeded(5)
    for count in before:
        np.random.randn(count)
        state = np.random.get_state()
        for _ in range(3):
            with start.in_force():
                assert np.random.randn(inside).tolist() == np.random.RandomState(5).randn(inside).tolist()
            after = np.random.get_state()
            assert after[2:] == state[2:]
            assert np.array_equal(after[1], state[1])


def test_a_state_that_was_set_by_others_is_read_again() -> None:
    numbers = NumpyNumbers()
    first = numbers.get()
    assert numbers.get() == first  # The same object: nothing was drawn.
    np.random.seed(11)
    state, memory = numbers.get()
    assert np.array_equal(state[1], np.random.RandomState(11).get_state()[1])
    assert memory == content(state)


def test_memory_is_used_where_it_is_all_and_not_where_a_number_is_in_store(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, calls = NumpyNumbers(), []
    true = np.random.set_state
    monkeypatch.setattr(np.random, "set_state", lambda state: (calls.append(state), true(state)))
    np.random.seed(1)
    before, other = numbers.get(), np.random.RandomState(2).get_state()
    numbers.set(other, content(other))
    assert not calls
    assert float(np.random.rand()) == float(np.random.RandomState(2).rand())
    numbers.set(*before)  # Something was drawn: is a normal in store? NumPy's own function makes sure that none is.
    assert len(calls) == 1
    np.random.randn()
    stored = numbers.get()
    assert stored[1] == b""
    numbers.set(*before)
    numbers.set(*stored)
    assert len(calls) == 3


def test_a_twister_laid_out_in_another_way_is_left_to_numpy() -> None:
    numbers = NumpyNumbers()
    numbers._usable = False
    before, other = numbers.get(), np.random.RandomState(2).get_state()
    numbers.set(other, content(other))
    assert float(np.random.rand()) == float(np.random.RandomState(2).rand())
    numbers.set(*before)
    assert np.array_equal(np.random.get_state()[1], before[0][1])


@pytest.mark.parametrize("inside", [0, 1, 2, 701])
def test_states_are_set_again_wherever_numbers_were_drawn(inside: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And left alone where none were: nothing is drawn to tell whether a normal is in store."""
    start, calls = RandomState.seeded(5), []
    true = np.random.standard_normal
    with start.in_force():
        for _ in range(3):
            assert np.random.randn(inside).tolist() == np.random.RandomState(5).randn(inside).tolist()
            torch.rand(inside), random.random()
            start.set_again()
            assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(5))
            assert random.random() == random.Random(5).random()
            start.set_again()
        monkeypatch.setattr(np.random, "standard_normal", lambda: (calls.append(1), true())[1])
        start.set_again()
        assert not calls
