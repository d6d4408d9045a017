"""Scenarios of training: each takes how the model is wrapped and a folder, and returns what this rank saw."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests.distributed.models import RANK, WORLD, autoencoder, bits, loss, network, own_rows, same, wrap
from unsaddle import CurvatureMonitor, ModelObjective, Neon, negative_curvature, ranks


def train(kind: str, folder: Path) -> dict[str, Any]:
    """Undisturbed."""
    return _train(kind)


def train_and_save(kind: str, folder: Path) -> dict[str, Any]:
    """Stop while a direction is measured and turned by each batch."""
    return _train(kind, save=folder / "saved")


def go_on(kind: str, folder: Path) -> dict[str, Any]:
    """From where the other stopped."""
    return _train(kind, load=folder / "saved")


def train_and_die(kind: str, folder: Path) -> dict[str, Any]:
    """With checkpoints now and then; rank 1 is killed at each of the places in the file `kill`, once."""
    return _train(kind, last=folder / "checkpoints", kill=folder / "kill")


def monitored(kind: str, folder: Path) -> dict[str, Any]:
    """Training beside a monitor, and without one: rows, and whether the weights are the same."""
    data = torch.randn(64, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def trained(watched: bool) -> tuple[list[dict[str, Any]], list[Any]]:
        model = wrap(network(torch.float64), kind)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        monitor = CurvatureMonitor(optimizer, every=20, max_overhead=4.0) if watched else None
        for step in range(100):
            chosen = torch.randperm(64, generator=torch.Generator().manual_seed(step))[:32].chunk(WORLD)[RANK]

            def closure(own: Tensor = data[chosen], model: nn.Module = model) -> Tensor:
                model.zero_grad()
                value = model(own).square().mean()
                value.backward()
                return value

            optimizer.step(closure)
        rows = [] if monitor is None else [row.row() for row in monitor.rows]
        return rows, [full(p).tolist() for p in model.parameters()]

    rows, weights = trained(True)
    return {"rows": rows, "with": weights, "without": trained(False)[1]}


def _train(
    kind: str,
    steps: int = 60,
    save: Path | None = None,
    load: Path | None = None,
    last: Path | None = None,
    kill: Path | None = None,
) -> dict[str, Any]:
    """Neon around Adam leaves the saddle at zero; every rank at the same step, to the same weights.

    Args:
        kind: how the model is wrapped.
        steps: of training.
        save: save there after five batches have measured and turned the direction, and stop.
        load: go on from there.
        last: save there at every tenth step, and go on from the last of these.
        kill: a file with the places where rank 1 is to be killed, a line each: "probe" or "training".
    """
    generator = torch.Generator().manual_seed(3)
    data = torch.randn(64, 8, generator=generator) * torch.linspace(2.0, 0.5, 8)
    model = wrap(autoencoder(), kind)
    neon = Neon(torch.optim.Adam(model.parameters(), lr=0.02), every=10)
    begun = 0
    load = latest(last) if last is not None else load
    if load is not None:
        begun = restore(load, model, neon)
    for step in range(begun, steps):
        calls = [0]
        own = data[torch.randperm(64, generator=torch.Generator().manual_seed(step))[:32]].chunk(WORLD)[RANK]

        def closure(own: Tensor = own, step: int = step, calls: list[int] = calls) -> Tensor:
            die_here(kill, step, calls)
            neon.zero_grad()
            value = (model(own) - own).square().mean()
            value.backward()
            return value

        neon.step(closure)
        if last is not None and (step + 1) % 10 == 0:
            checkpoint(last / f"{step + 1:04}", model, neon, step + 1)
            barrier()
            (last / f"{step + 1:04}" / "complete").touch()
        if save is not None and len(neon._prober.state.curvatures) == 5:  # In the middle of an online probe.
            checkpoint(save, model, neon, step + 1)
            break
    final = torch.cat([full(p).flatten() for p in model.parameters()])
    return {
        "events": [e.row() for e in neon.events],
        "phase": neon.phase,
        "weights": final.tolist(),
        "loss": float((model(data) - data).square().mean().detach()),
    }


def joined(kind: str, folder: Path) -> dict[str, Any]:
    """Inside of join(), which lets ranks end at different steps: with a closure, and with an objective."""
    said = {}
    for way in ("closure", "objective"):
        model = wrap(autoencoder(), kind)
        F = ModelObjective(model, lambda model, rows: model(rows[0]).square().mean(), [[torch.ones(4, 8)]])
        neon = Neon(torch.optim.SGD(model.parameters(), lr=0.1), F if way == "objective" else None)

        def closure(model: nn.Module = model) -> Tensor:
            value = model(torch.ones(4, 8)).square().mean()
            value.backward()
            return value

        try:
            with model.join():
                if way == "objective":
                    closure()
                neon.step(closure if way == "closure" else None)
        except ValueError as error:
            said[way] = str(error)
    return said


def die_here(kill: Path | None, step: int, calls: list[int]) -> None:
    """Be killed as rank 1, in the middle of a probe (which calls a closure more than once) or of training."""
    calls[0] += 1
    places = kill.read_text().split() if kill is not None and RANK == 1 else []
    here = "probe" if calls[0] == 5 else "training" if step == 44 else None
    if kill is not None and places[:1] == [here]:
        kill.write_text("\n".join(places[1:]))
        os.kill(os.getpid(), signal.SIGKILL)


def barrier() -> None:
    if WORLD > 1:
        dist.barrier()


def latest(folder: Path) -> Path | None:
    return max((p.parent for p in folder.glob("*/complete")), default=None)


def full(p: Tensor) -> Tensor:
    return p.full_tensor().detach() if ranks.is_sharded(p) else p.detach()  # type: ignore[attr-defined]


def checkpoint(folder: Path, model: nn.Module, neon: Neon, step: int) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict

    weights, state = get_state_dict(model, neon.base)
    dcp.save(
        {"model": weights, "optimizer": state, "neon": neon.sharded_state(), "step": torch.tensor(step)},
        checkpoint_id=folder,
        no_dist=WORLD == 1,
    )


def restore(folder: Path, model: nn.Module, neon: Neon) -> int:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    weights, state = get_state_dict(model, neon.base)
    saved = {"model": weights, "optimizer": state, "neon": neon.sharded_state(), "step": torch.tensor(0)}
    dcp.load(saved, checkpoint_id=folder, no_dist=WORLD == 1)
    set_state_dict(model, neon.base, model_state_dict=weights, optim_state_dict=state)
    return int(saved["step"])


def raises(kind: str, folder: Path) -> dict[str, Any]:
    """A loss that raises on one rank in the middle of a probe."""
    model = wrap(network(torch.float64), kind)
    before, calls = bits(model), 0

    def fails(model: nn.Module, batch: list[Tensor]) -> Tensor:
        nonlocal calls
        calls += 1
        if RANK == 1 and calls == 4:
            raise RuntimeError("out of paper")
        return loss(model, batch)

    F = ModelObjective(model, fails, own_rows(torch.float64), micro_batch=64)
    try:
        negative_curvature(F, F.point)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200], "untouched": same(before, bits(model))}
    return {"error": None}
