"""Ways down within the bounds."""

import numpy as np
import pytest
import torch

from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.interop.scipy.counted_function import CountedFunction
from unsaddle.interop.scipy.free_function import EndPoint, FreeFunction
from unsaddle.interop.scipy.way_down import LONG, along_direction, along_lines


def test_the_lower_point_that_was_seen_is_taken_where_a_line_search_loses_it():
    """Rounding of so large a value makes the search begin farther away than where the lower value was seen."""
    offset = 1e12

    def fun(x):
        return float(offset - 1.0 if abs(x[0] - LONG) < 1e-9 else offset + x[0] ** 2)

    function = CountedFunction(fun, np.zeros_like, (), np.zeros(1), np.ones(1))
    end = EndPoint(function=function, x=np.zeros(1), value=offset, start=np.zeros(1))
    f = FreeFunction(end, np.ones(1, dtype=bool))
    assert along_direction(f, torch.ones(1, dtype=torch.float64), 1.0, LONG) is None
    flat = answer(f, f.point, Question())
    assert flat.direction is None
    np.testing.assert_allclose(along_lines(f, flat, torch.ones(1, dtype=torch.float64)), [LONG])


@pytest.mark.parametrize("hessp", [None, lambda x, p: p * [2.0, -2.0]], ids=["jac", "hess"])
def test_steps_follow_the_size_of_x_whatever_curvature_comes_from(hessp):
    lengths = []

    def fun(x):
        lengths.append(abs(x[1]))
        return (x[0] - 1e4) ** 2 - x[1] ** 2 + x[1] ** 4 / 1e6

    function = CountedFunction(fun, np.zeros_like, (), np.full(2, -np.inf), np.full(2, np.inf), hessp=hessp)
    x = np.array([1e4, 0.0])
    end = EndPoint(function=function, x=x, value=0.0, start=x)
    f = FreeFunction(end, np.ones(2, dtype=bool))
    assert along_direction(f, torch.tensor([0.0, 1.0], dtype=torch.float64), -2.0, 1e-6) is not None
    assert min(lengths) == pytest.approx(LONG * 1e4)
