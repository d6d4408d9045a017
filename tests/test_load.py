"""Many verdicts at once: a short run of `python -m benchmarks.load`."""

import pytest

from benchmarks import load


def test_sixteen_threads_get_the_answers_of_one():
    alone = [load.answer(i) for i in range(32)]
    assert len({kind for kind, *_ in alone}) > 1
    assert load.differing(alone, load.in_threads(16, 32)) == 0
    assert load.differing(alone, [*alone[1:], alone[0]]) > 0  # It can tell.


@pytest.mark.slow
def test_verdicts_leave_no_memory_behind():
    assert load.growth(100) < load.GROWTH
