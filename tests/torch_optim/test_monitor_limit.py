"""The limit of each optimizer's step: on a quadratic just below it training converges, just above it diverges."""

import math

import pytest
import torch
from torch import nn

from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim.monitor_limit import limit, sizes

SGDS = [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "dampening": 0.3}]


@pytest.mark.parametrize("settings", SGDS)
def test_gradient_descent_diverges_just_above_its_limit(settings):
    for share, grows in ((0.98, False), (1.02, True)):
        x = nn.Parameter(torch.ones(1, dtype=torch.float64))
        optimizer = torch.optim.SGD([x], lr=0.1, **settings)
        curvature = share * limit(optimizer).curvature
        for _ in range(2000):
            optimizer.zero_grad()
            (0.5 * curvature * x.square()).sum().backward()
            optimizer.step()
            if abs(float(x.detach())) > 1e3:
                break
        assert (abs(float(x.detach())) > 1.0) is grows


def test_adam_diverges_just_above_its_limit_once_its_moments_have_settled():
    """ε is so large that S = 1 near to zero. Farther out second moments grow and end the divergence, so peaks count."""
    for share, grows in ((0.97, False), (1.03, True)):
        x, start, farthest = nn.Parameter(torch.zeros(1, dtype=torch.float64)), 1e-9, 0.0
        optimizer = torch.optim.Adam([x], lr=0.01, eps=1.0)
        curvature = share * limit(optimizer).curvature
        for step in range(400):
            if step == 200:  # Until then the corrections for moments that began at zero fade.
                x.data.fill_(start)
            optimizer.zero_grad()
            (0.5 * curvature * x.square()).sum().backward()
            optimizer.step()
            farthest = max(farthest, abs(float(x.detach())))
        assert (farthest > 100.0 * start) is grows


def test_sizes_are_what_steps_divide_by():
    x = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    for make, lr in ((torch.optim.RMSprop, 0.01), (torch.optim.Adagrad, 0.01), (torch.optim.Adam, 0.01)):
        optimizer = make([x], lr=lr, **({"betas": (0.0, 0.99)} if make is torch.optim.Adam else {}))
        for _ in range(3):
            x.grad = torch.tensor([1.0, 10.0, 0.0])
            before = x.detach().clone()
            optimizer.step()
        s = sizes(optimizer, FlatParameters([x]))
        torch.testing.assert_close((before - x.detach())[:2], lr * s[:2] ** 2 * x.grad[:2], rtol=1e-4, atol=1e-7)
        assert float(s[2]) == float(s[:2].min())  # It has had no gradient.


def test_groups_with_their_own_rates_are_in_the_sizes():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([{"params": [a], "lr": 0.4}, {"params": [b], "lr": 0.1}])
    assert limit(optimizer).curvature == pytest.approx(5.0)
    assert sizes(optimizer, FlatParameters([a, b])).tolist() == [1.0, 0.5, 0.5]


def test_other_optimizers_have_no_known_limit():
    x = nn.Parameter(torch.ones(1))
    assert math.isnan(limit(torch.optim.Rprop([x])).curvature)
    assert math.isinf(limit(torch.optim.SGD([x], lr=0.0)).curvature)


def test_a_gradient_that_is_rounding_gets_no_size_that_would_make_it_the_highest_curvature():
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([x], lr=0.1)
    x.grad = torch.tensor([1.0, 1e-3, 1e-12])
    optimizer.step()
    squares = sizes(optimizer, FlatParameters([x])).square()
    assert squares[:2].tolist() == pytest.approx([1.0, 1e3], rel=1e-3)
    assert float(squares[2]) == pytest.approx(1.0 / (100.0 * torch.finfo(torch.float32).eps), rel=1e-3)
