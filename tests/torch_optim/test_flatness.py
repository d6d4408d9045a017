"""A Hessian that is zero at x is told from one that is soft, or that has a zero eigenvalue."""

import pytest
import torch

from unsaddle import Function
from unsaddle.torch_optim.flatness import hessian_vanishes


@pytest.mark.parametrize(
    ("fun", "zero"),
    [
        (lambda x: x.prod(), True),
        (lambda x: (x**4).sum(), True),
        (lambda x: x.sum() + x.prod(), True),
        (lambda x: 1e-4 * (x**2).sum() + x.prod(), False),
        (lambda x: x[0] ** 2 + x.prod(), False),
        (lambda x: x.sum(), False),
    ],
)
@pytest.mark.parametrize("radius", [1e-3, 1e-5])
def test_it_is_zero_where_products_fall_with_the_distance(fun, zero, radius):
    f = Function(fun).sample()
    assert hessian_vanishes(f, torch.zeros(3, dtype=torch.float64), radius, seed=0) is zero
    assert f.cost.gradients == 4
