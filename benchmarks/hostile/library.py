"""Calls of the library's own functions, each drawn by a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsaddle
import unsaddle.spectrum.operator as spectral
from benchmarks.hostile.callables import objective
from benchmarks.hostile.values import (
    GRADIENTS,
    HostileError,
    InterruptError,
    arguments,
    length,
    mostly,
    net_unchanged,
    odd_value,
    point,
    settings,
    unchanged,
)


def verdict(r: random.Random) -> Any:
    more = {
        "eps": lambda: 10.0 ** r.uniform(-9, 2),
        "samples": lambda: r.randrange(1, 25),
        "metric": lambda: [1.0, 2.0, 3.0],
    }
    how, F = {"max_gradients": GRADIENTS} | settings(r, **more), objective(r)
    return unchanged(lambda x: unsaddle.is_minimum(F, x, **how), point(r))


def search(r: random.Random) -> Any:
    names = ("auto", "krylov", "neon", "neon+", "power", "lanczos", "neon2-det", "neon2-online", "oja-first-order")
    more = {
        "extractor": lambda: r.choice(names),
        "settings": lambda: r.choice(("practical", "theory")),
        "smoothness": lambda: 10.0 ** r.uniform(-3, 3),
        "hessian_lipschitz": lambda: 10.0 ** r.uniform(-3, 3),
        "samples": lambda: r.randrange(1, 25),
        "basis": lambda: r.randrange(3, 9),
    }
    how, F = {"max_gradients": GRADIENTS} | settings(r, **more), objective(r)
    return unchanged(lambda x: unsaddle.negative_curvature(F, x, **how), point(r))


def descent(r: random.Random) -> Any:
    names = ("neon-scsg", "neon-sgd", "scsg", "sgd", "noisy-sgd", "pgd", "natasha2", "sncg", "svrg-hessian")
    more = {
        "method": lambda: r.choice(names),
        "eps": lambda: 10.0 ** r.uniform(-6, 2),
        "step_size": lambda: 10.0 ** r.uniform(-6, 3),
        "batch_size": lambda: r.randrange(1, 25),
        "callback": lambda: length,
    }
    how, F = {"max_samples": GRADIENTS} | settings(r, **more), objective(r)
    return unchanged(lambda x: unsaddle.minimize(F, x, **how), point(r))


def spectrum(r: random.Random) -> Any:
    """Eigenpairs, the Morse index, the density, products, or where a direction lives."""
    shared = {"samples": lambda: r.randrange(1, 25), "seed": lambda: r.randrange(2**70)}
    more: dict[str, Callable[[], Any]] = {
        "tolerance": lambda: 10.0 ** r.uniform(-6, 0),
        "delta": lambda: r.uniform(0.001, 0.5),
        "basis": lambda: r.randrange(2, 9),
        "gamma": lambda: 10.0 ** r.uniform(-8, 2),
        "width": lambda: 10.0 ** r.uniform(-2, 0),
        "probes": lambda: r.randrange(1, 5),
        "steps": lambda: r.randrange(1, 9),
        "lowest": lambda: r.randrange(5),
        "highest": lambda: r.randrange(5),
        "copies": lambda: False,
    }
    names = {
        "eigenpairs": ("tolerance", "delta", "basis", "lowest", "highest", "copies"),
        "morse_index": ("gamma", "delta", "basis"),
        "spectral_density": ("width", "probes", "steps"),
        "hessian_operator": (),
    }
    name = r.choice(list(names))
    how = arguments(r, shared | {key: more[key] for key in names[name]})
    if name in ("eigenpairs", "morse_index"):
        how = {"max_gradients": GRADIENTS} | how
    if name == "spectral_density":
        how = {"probes": 2, "steps": 5} | how
    F = objective(r)
    if name == "hessian_operator":
        vector = mostly(r, torch.ones(3, dtype=torch.float64), torch.ones(2))
        return unchanged(lambda x: spectral.hessian_operator(F, x, **how)(vector), point(r))
    found = unchanged(lambda x: getattr(unsaddle, name)(F, x, **how), point(r))
    return unsaddle.where(F, mostly(r, torch.ones(3), torch.zeros(3))), str(found), repr(found)


def network(r: random.Random) -> tuple[nn.Module, Any, Any]:
    """A model, a loss and data, or something that is none."""
    layer = r.choice((nn.Tanh(), nn.ReLU(), nn.BatchNorm1d(3), nn.Dropout(), nn.GELU()))
    with torch.random.fork_rng(devices=[]):
        net = nn.Sequential(nn.Linear(2, 3), layer, nn.Linear(3, 1))
    x = torch.randn(24, 2, generator=torch.Generator().manual_seed(0))
    given = mostly(r, r.choice((TensorDataset(x), [[x]], [[x[:12]], [x[12:]]])), (x,), [x, x[:, 0].long()])
    calls = [0]

    def usual(m: nn.Module, batch: list[Tensor]) -> Tensor:
        value: Tensor = m(batch[0]).square().mean()
        return value

    def raising(m: nn.Module, batch: list[Tensor]) -> Tensor:
        calls[0] += 1
        if calls[0] > 2:
            raise r.choice((HostileError, InterruptError))
        return usual(m, batch)

    def zeroing(m: nn.Module, batch: list[Tensor]) -> Tensor:
        m.zero_grad()
        return usual(m, batch)

    def other_dtype(m: nn.Module, batch: list[Tensor]) -> Tensor:
        calls[0] += 1
        return usual(m, batch).to((torch.float64, torch.float32, torch.bfloat16)[calls[0] % 3])

    odd = (nn.MSELoss(), lambda m, batch: m(batch[0]), lambda m, batch: None, lambda m: m)
    return net, r.choice((usual, usual, raising, zeroing, other_dtype, mostly(r, usual, *odd))), given


def model(r: random.Random) -> Any:
    net, loss, given = network(r)
    how = arguments(r, {"micro_batch": lambda: 5, "seed": lambda: 3})
    asked = {"max_gradients": 30} | arguments(r, {"samples": lambda: r.randrange(1, 24)})

    def call() -> Any:
        F = unsaddle.ModelObjective(mostly(r, net), loss, given, **how)
        if r.random() < 0.1:
            groups = r.choice((None, ["0", "2"], odd_value(r)))
            return unsaddle.spectrum_by_layer(F, density=False, groups=groups, **arguments(r, {"basis": lambda: 5}))
        ask = r.choice((unsaddle.is_minimum, unsaddle.negative_curvature, unsaddle.eigenpairs))
        return ask(F, **asked)

    return net_unchanged(call, net)


def optimizer(r: random.Random) -> Any:
    with torch.random.fork_rng(devices=[]):
        net = nn.Linear(2, 1)
    base = mostly(r, r.choice((torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.Adam(net.parameters()))))
    neon = unsaddle.Neon(base, **arguments(r, {"every": lambda: 1, "max_overhead": lambda: 10.0, "seed": lambda: 1}))
    x = torch.randn(8, 2, generator=torch.Generator().manual_seed(0))

    calls, hostile = [0], mostly(r, None, HostileError, InterruptError)

    def closure() -> Tensor:
        calls[0] += 1
        if isinstance(hostile, type) and issubclass(hostile, BaseException) and calls[0] > r.randrange(1, 9):
            raise hostile
        neon.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    for _ in range(r.randrange(4)):
        neon.step(closure)
    if r.random() < 0.5:
        neon.probe(mostly(r, closure))
    saved = neon.state_dict()
    if r.random() < 0.3:
        saved["neon"] = (
            saved["neon"] | {r.choice(list(saved["neon"])): odd_value(r)} if r.random() < 0.8 else odd_value(r)
        )
        neon.load_state_dict(saved)
    return neon.step(closure)
