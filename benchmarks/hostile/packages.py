"""Calls through the packages of others: SciPy, ASE, JAX, and trainers."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import unsaddle
from benchmarks.hostile.callables import numpy_callable, numpy_gradient, objective
from benchmarks.hostile.values import (
    HostileError,
    InterruptError,
    arguments,
    mostly,
    odd_value,
    point,
    settings,
    unchanged,
)


def scipys(r: random.Random) -> Any:
    from unsaddle.interop.scipy import hessian_operator, minimize
    from unsaddle.interop.scipy.arguments import METHODS

    if r.random() < 0.1:
        F, how = objective(r), arguments(r, {"samples": lambda: r.randrange(1, 25), "seed": lambda: 3})
        vector = r.choice((np.ones(3), np.ones((3, 1)), np.ones(3, int), np.full(3, np.nan), np.ones(3, complex)))
        # SciPy itself refuses other shapes.
        return unchanged(lambda x: (H := hessian_operator(F, x, **how)) @ vector[: H.shape[0]], point(r))
    more = {
        "method": lambda: r.choice(METHODS),
        "bounds": lambda: r.choice(([(-1, 1)] * 3, [(0, None)] * 3, [(1, 1)] * 3, zip([0] * 3, [1] * 3, strict=True))),
        "tol": lambda: 10.0 ** r.uniform(-9, 0),
        "options": lambda: r.choice(({"maxiter": r.randrange(9)}, {"maxiter": odd_value(r)}, {"maxfun": 9})),
        "constraints": lambda: r.choice(((), None, [])),
        "max_escapes": lambda: r.randrange(3),
        "callback": lambda: lambda *_: None,
    }
    how, fun = {"jac": numpy_gradient(r)} | settings(r, **more), numpy_callable(r)
    return unchanged(lambda x: minimize(fun, x, **how), point(r))


@functools.cache
def _springs() -> Any:
    """A calculator of springs between all atoms, that may be hostile."""
    from ase.calculators.calculator import Calculator, all_changes

    class Springs(Calculator):  # type: ignore[misc]
        implemented_properties = ("energy", "forces")

        def __init__(self, way: str, after: int, rubbish: Any) -> None:
            super().__init__()
            self.way, self.left, self.rubbish = way, after, rubbish

        def calculate(self, atoms: Any = None, properties: Any = (), system_changes: Any = all_changes) -> None:
            super().calculate(atoms, properties, system_changes)
            x = self.atoms.get_positions()
            apart = x[:, None] - x[None]
            length = np.sqrt((apart**2).sum(-1) + np.eye(len(x)))
            pull = (length - 1.5) * (1 - np.eye(len(x)))
            forces = -(pull / length)[..., None] * apart
            self.results = {"energy": 0.25 * float((pull**2).sum()), "forces": forces.sum(1)}
            self.left -= 1
            if self.left > 0 or not self.way:
                return
            if self.way in ("raises", "interrupts"):
                raise HostileError if self.way == "raises" else InterruptError
            if self.way == "nan":
                self.results["forces"] = self.results["forces"] * math.nan
            elif self.way == "writes":
                atoms.positions += 0.1
            elif self.way == "no energy":
                del self.results["energy"]
            else:
                self.results[self.way] = self.rubbish

    return Springs


def ases(r: random.Random) -> Any:
    """`is_minimum` and the optimizer on a few atoms."""
    from ase import Atoms
    from ase.constraints import FixAtoms
    from ase.filters import UnitCellFilter

    from unsaddle.interop.ase import Neon, is_minimum

    places = np.random.default_rng(r.randrange(10**6)).normal(size=(r.choice((1, 2, 3, 4)), 3)) * r.choice((1, 1, 0, 9))
    if r.random() < 0.3:
        places[:, 2] = 0.0  # Flat, a saddle for four atoms.
    asks = r.random() < 0.5
    way = r.choice(("", "", "", "raises", "interrupts", "nan", "writes"))
    if asks and r.random() < 0.3:  # ASE's own optimizers need energies, and forces that are arrays.
        way = r.choice(("no energy", "energy", "forces"))
    atoms = Atoms(f"Cu{len(places)}", positions=places, calculator=_springs()(way, r.randrange(1, 9), odd_value(r)))
    if r.random() < 0.2:
        atoms.set_constraint(FixAtoms([0]))
    before = atoms.get_positions()
    target = mostly(r, atoms, UnitCellFilter, atoms.positions)
    how = arguments(
        r, {"gamma": lambda: 10.0 ** r.uniform(-6, 1), "delta": lambda: 0.1, "seed": lambda: r.randrange(2**70)}
    )
    if asks:
        try:
            return str(is_minimum(target, **how | arguments(r, {"fmax": lambda: 10.0 ** r.uniform(-4, 2)})))
        finally:
            if way != "writes" and not np.array_equal(before, atoms.get_positions()):
                raise AssertionError("atoms were moved")
    neon = Neon(target, logfile=None, **how | arguments(r, {"max_escapes": lambda: 2}))
    return neon.run(fmax=0.05, steps=r.randrange(6))


def jaxes(r: random.Random) -> Any:
    """JAX functions of arrays and pytrees, not compiled: that would take most of the time."""
    import jax
    import jax.numpy as jnp

    from unsaddle.interop import jax as ours

    def usual(p: Any) -> Any:
        return sum((leaf**4).sum() / 4 - (leaf**2).sum() for leaf in jax.tree.leaves(p))

    def raising(p: Any) -> Any:
        raise HostileError

    rubbish = odd_value(r)
    ways: tuple[Callable[..., Any], ...] = (
        raising, lambda p: p, lambda p: rubbish, lambda p: usual(p) * jnp.nan, lambda p: 3.0,
        lambda p: usual(p).astype(jnp.bfloat16), lambda p: float(usual(p)),
        lambda p: usual(jax.lax.stop_gradient(p)),
    )  # fmt: skip
    fun = mostly(r, usual) if r.random() < 0.6 else r.choice(ways)
    points: tuple[Callable[[], Any], ...] = (
        lambda: jnp.zeros(2), lambda: {"a": jnp.ones(1), "b": [jnp.zeros((1, 2))]}, lambda: jnp.zeros((2, 1)),
        lambda: jnp.zeros(0), lambda: jnp.zeros(2, dtype=jnp.int32), lambda: {}, lambda: [0.0, 1.0],
        lambda: jnp.full(2, jnp.nan), lambda: jnp.zeros(2, dtype=jnp.bfloat16), lambda: odd_value(r),
    )  # fmt: skip
    x = r.choice(points[:2]) if r.random() < 0.6 else r.choice(points)
    name = r.choice(("is_minimum", "negative_curvature", "minimize"))
    budget = {"max_samples": 20} if name == "minimize" else {"max_gradients": 20}
    how = budget | {"jit": False} | settings(r)
    return str(getattr(ours, name)(fun, x(), **how))


def trainers(r: random.Random) -> Any:
    """What trainers call, and a few batches of a real one."""
    with torch.random.fork_rng(devices=[]):
        net = nn.Linear(2, 1)
    neon = unsaddle.Neon(torch.optim.SGD(net.parameters(), lr=0.1), every=1, max_overhead=10.0)
    wrapped = mostly(r, r.choice((neon, SimpleNamespace(optimizer=neon), torch.optim.SGD(net.parameters(), lr=0.1))))
    kind = r.choice(("lightning",) * 5 + ("transformers",) * 5 + ("tensorboard",) * 5 + ("fit",))
    if kind == "tensorboard":
        from unsaddle.interop.tensorboard import to_tensorboard

        x = torch.randn(24, 2, generator=torch.Generator().manual_seed(0))
        seen: list[Any] = []
        silent = SimpleNamespace(add_scalar=lambda *a: seen.append(a), add_text=lambda *a: None)
        told = unsaddle.Neon(
            torch.optim.SGD(net.parameters(), lr=0.1), callback=to_tensorboard(mostly(r, silent, object()))
        )
        F = unsaddle.ModelObjective(net, lambda m, batch: m(batch[0]).square().mean(), TensorDataset(x))
        return told.probe(F)
    if kind == "transformers":
        from unsaddle.interop.transformers import NeonCallback

        callback, state = NeonCallback(), SimpleNamespace(log_history=[], global_step=1)
        callback.on_train_begin(None, state, None, optimizer=wrapped)
        callback.on_step_end(None, state, None, optimizer=wrapped)
        return callback.on_log(None, state, None, logs=mostly(r, {}, None))
    from unsaddle.interop.lightning import NeonLogger

    if kind == "lightning":
        trainer = SimpleNamespace(optimizers=[wrapped], loggers=[], global_step=1)
        return NeonLogger().on_train_batch_end(trainer, None)
    return _fit(r, NeonLogger())


def _fit(r: random.Random, logger: Any) -> Any:
    """Lightning's trainer, for three batches."""
    import logging

    import lightning.pytorch as lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    gone = mostly(r, False, True)

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(2, 1)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            if gone is True and index == 1:
                raise HostileError
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return unsaddle.Neon(torch.optim.SGD(self.parameters(), lr=0.1), every=1, max_overhead=10.0)

    trainer = lightning.Trainer(
        max_steps=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[logger],
    )  # fmt: skip
    x = torch.randn(24, 2, generator=torch.Generator().manual_seed(0))
    with torch.random.fork_rng(devices=[]):  # Loaders draw a seed.
        return trainer.fit(Module(), DataLoader(TensorDataset(x), batch_size=8))
