"""What each rank does, started by torchrun: `worker.py SCENARIO,... KIND OUT`. Rank r writes to OUT/r.json."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from unsaddle import FiniteSum, ModelObjective, Neon, is_minimum, minimize, negative_curvature, ranks, vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extract import find
from unsaddle.curvature.krylov import KrylovSettings, krylov

WORLD = int(os.environ.get("WORLD_SIZE", "1"))
RANK = int(os.environ.get("RANK", "0"))
ROWS = 50
CUTS = {1: [0, 50], 2: [0, 17, 50], 4: [0, 17, 18, 40, 50]}
"""Uneven: one of four ranks has a single row."""
KNOWN: dict[str, Any] = {
    "gamma": 0.5,
    "relative_gamma": 0.01,
    "samples": None,
    "delta": 0.05,
    "smoothness": 20.0,
    "hessian_lipschitz": 1.0,
    "max_gradients": None,
    "seed": 0,
    "keep_history": True,
    "settings": "practical",
}
"""Constants that are given, so that nothing rests on a measured rounding error."""
CONSTANT_MEMORY = ("neon", "neon+", "neon2-det", "neon-renormalised", "neon+-renormalised")


def network(dtype: torch.dtype) -> nn.Sequential:
    """Rows of 7, 3 and 1 do not divide by two or four: some ranks hold nothing of the last layer."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh(), nn.Linear(3, 1)).to(dtype)


def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def rows(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(ROWS, 5, generator=generator), torch.randn(ROWS, 1, generator=generator)
    return x.to(dtype), y.to(dtype)


def own_rows(dtype: torch.dtype) -> TensorDataset:
    first, last = CUTS[WORLD][RANK : RANK + 2]
    return TensorDataset(*(t[first:last] for t in rows(dtype)))


def wrap(model: nn.Module, kind: str) -> nn.Module:
    if WORLD == 1:
        return model
    if kind.startswith("ddp"):
        return DistributedDataParallel(model, gradient_as_bucket_view=kind == "ddp-views")
    mesh = init_device_mesh("cpu", (2, WORLD // 2), mesh_dim_names=("replicate", "shard"))
    if kind != "hsdp":
        mesh = init_device_mesh("cpu", (WORLD,))
    settings: dict[str, Any] = {"mesh": mesh}
    if kind == "fsdp-bf16":
        settings["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if kind != "fsdp-root":
        for layer in model.children():
            if isinstance(layer, nn.Linear):
                fully_shard(layer, **settings)
    fully_shard(model, **settings)
    return model


def whole(v: Tensor | None, objective: ModelObjective) -> list[float] | None:
    """A vector that ranks hold together, from all of them."""
    if v is None or objective.ranks is None or objective.ranks.dimension is None:
        return None if v is None else v.tolist()
    full = torch.zeros(objective.ranks.dimension, dtype=torch.float64)
    offset = 0
    for first, length in objective.ranks.pieces:
        full[first : first + length] = v[offset : offset + length]
        offset += length
    return objective.ranks.sum(full).tolist()


def bits(model: nn.Module) -> list[Any]:
    state = [ranks.local(p).clone() for p in model.parameters()]
    grads = [None if p.grad is None else ranks.local(p.grad).clone() for p in model.parameters()]
    return [*state, *grads, *(b.clone() for b in model.buffers())]


def same(before: list[Any], after: list[Any]) -> bool:
    return all(a is b is None or torch.equal(a, b) for a, b in zip(before, after, strict=True))


class Messages:
    """Counts all-reduces that the library sends between two gradients, not those by which torch reduces gradients."""

    def __init__(self, ledger: Ledger) -> None:
        self.after: Counter[int] = Counter()
        self._ledger, self._send = ledger, dist.all_reduce

    def most(self, steps: int) -> int:
        """Of one of the first steps of an extractor, whose gradients follow the one at x; after the last the direction
        is made and measured."""
        return max(self.after[i] for i in range(2, steps + 2))

    def __enter__(self) -> Messages:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if sys._getframe(1).f_globals["__name__"] == ranks.__name__:  # HSDP reduces gradients by the same call.
                self.after[self._ledger.gradients] += 1
            return self._send(*args, **kwargs)

        dist.all_reduce = counted
        return self

    def __exit__(self, *_: object) -> None:
        dist.all_reduce = self._send


def extractors(kind: str) -> dict[str, Any]:
    """Every extractor with given constants, in both precisions; what was found, what it sent, what it left behind."""
    out: dict[str, Any] = {}
    for dtype in (torch.float64, torch.float32):
        model = wrap(network(dtype), kind)
        loss(model, list(own_rows(dtype)[:])).backward()  # Gradients that a probe must leave alone.
        before = bits(model)
        F = ModelObjective(model, loss, own_rows(dtype), micro_batch=8)
        for method in CONSTANT_MEMORY:
            ledger = Ledger()
            with Messages(ledger) as sent:
                found = find(F, F.point, method=method, ledger=ledger, **KNOWN)
            steps = len(found.history)
            out[f"{method}, {dtype}"] = {
                "status": found.status.name,
                "curvature": found.curvature,
                "error": found.measurements[-1].error,
                "history": [q for _, q in found.history],
                "gradients": found.cost.gradients,
                "samples": found.cost.samples,
                "messages a step": sent.most(steps - 1),
                "direction": whole(found.direction, F),
            }
        f = F.sample()
        f_hat = DisplacedFunction(f, F.point)
        settings = KrylovSettings(num_steps=12, delta=1e-9, smallest_radius=1e-3, largest_radius=1e-3, basis=8)
        with ranks.together(F.ranks), Messages(f.ledger) as sent:
            candidate = krylov(f_hat, settings, torch.Generator().manual_seed(0), keep_history=True)
        out[f"krylov, {dtype}"] = {
            "status": candidate.status.name,
            "history": [q for _, q in candidate.history],
            "messages a step": sent.most(len(candidate.history) - 1),
        }
        sampled = negative_curvature(F, F.point, samples=20, seed=3)
        verdict = is_minimum(F, seed=1)
        out[f"auto, {dtype}"] = {
            "status": sampled.status.name,
            "curvature": sampled.curvature,
            "error": sampled.measurements[-1].error,
            "gradients": sampled.cost.gradients,
            "kind": verdict.kind,
            "gradient_norm": verdict.gradient_norm,
            "lowest": verdict.curvature,
            "text": str(verdict),
        }
        out[f"untouched, {dtype}"] = same(before, bits(model))
        out[f"held, {dtype}"] = F.point.numel()
    return out


def noise(kind: str) -> dict[str, Any]:
    """The same global vector for any number of ranks, also where it is drawn in parts."""
    model = wrap(network(torch.float32), kind)
    F = ModelObjective(model, loss, own_rows(torch.float32))
    vectors.DRAWN_AT_ONCE = 32
    with ranks.together(F.ranks):
        u = vectors.random_direction(F.point, torch.Generator().manual_seed(5))
        b = vectors.random_in_ball(F.point, 2.0, torch.Generator().manual_seed(5))
        held = vectors.dimension(F.point)
    return {"direction": whole(u, F), "ball": whole(b, F), "dimension": held}


def value_only(kind: str) -> dict[str, Any]:
    """A forward without backward leaves FSDP2's root gathered: the next gradient must not be one of old weights."""
    model = wrap(network(torch.float64), kind)
    F = ModelObjective(model, loss, own_rows(torch.float64))
    with torch.no_grad():
        model(rows(torch.float64)[0])  # The caller's own, too.
    f, x = F.sample(), F.point
    value = float(f.value(1.1 * x))
    grad = f.grad(0.9 * x)
    return {"value": value, "grad": whole(grad, F), "parameters": F.parameters.is_at(x)}


def sampler(kind: str) -> dict[str, Any]:
    """Loaders with a DistributedSampler: each row counts once."""
    data = TensorDataset(*rows(torch.float64))
    model = wrap(network(torch.float64), kind)
    shares = DistributedSampler(data) if WORLD > 1 else None
    F = ModelObjective(model, loss, DataLoader(data, batch_size=8, sampler=shares))
    return {"n": F.num_samples, "value": float(F.sample().value(F.point))}


def finite_sum(kind: str) -> dict[str, Any]:
    """`minimize` on a sum whose rows lie on several ranks, and a verdict where it ends."""
    generator = torch.Generator().manual_seed(2)
    a = torch.randn(200, 6, generator=generator, dtype=torch.float64)
    y = (a @ torch.arange(6.0, dtype=torch.float64)).square()
    first, last = [4 * cut for cut in CUTS[WORLD]][RANK : RANK + 2]
    group = dist.group.WORLD if WORLD > 1 else None

    def phases(x: Tensor, a: Tensor, y: Tensor) -> Tensor:
        return ((a @ x).square() - y).square().mean() / 4e2

    F = FiniteSum(phases, a[first:last], y[first:last], process_group=group)
    found = minimize(F, torch.zeros(6, dtype=torch.float64), method="neon-scsg", eps=1e-2, seed=4, max_samples=200_000)
    return {
        "n": F.num_samples,
        "x": found.x.tolist(),
        "status": found.status.name,
        "samples": found.cost.samples,
        "escapes": found.escapes,
        "kind": is_minimum(F, found.x, gamma=1e-2).kind,
    }


def autoencoder() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 3, bias=False), nn.Linear(3, 8, bias=False))
    for p in model.parameters():
        nn.init.zeros_(p)
    return model


def train(
    kind: str,
    steps: int = 120,
    save: Path | None = None,
    load: Path | None = None,
    last: Path | None = None,
    kill: Path | None = None,
) -> dict[str, Any]:
    """Neon around Adam leaves the saddle at zero; every rank at the same step, to the same weights.

    Args:
        kind: how the model is wrapped.
        steps: of training.
        save: save there while a candidate waits for fresh batches, and stop.
        load: go on from there.
        last: save there at every tenth step, and go on from the last of these.
        kill: a file that says where rank 1 is to be killed, once: "probe" or "training".
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
        if save is not None and neon.phase == "confirm":
            checkpoint(save, model, neon, step + 1)
            break
    final = torch.cat([full(p).flatten() for p in model.parameters()])
    return {
        "events": [e.row() for e in neon.events],
        "phase": neon.phase,
        "weights": final.tolist(),
        "loss": float((model(data) - data).square().mean().detach()),
    }


def die_here(kill: Path | None, step: int, calls: list[int]) -> None:
    """Be killed as rank 1, in the middle of a probe (which calls a closure more than once) or of training; once."""
    calls[0] += 1
    if kill is None or RANK != 1 or not kill.exists():
        return
    where = kill.read_text()
    if (where == "probe" and calls[0] == 5) or (where == "training" and step == 44):
        kill.unlink()
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


def raises(kind: str) -> dict[str, Any]:
    """A loss that raises on one rank in the middle of a probe."""
    model = wrap(network(torch.float64), kind)
    before, calls = bits(model), 0

    def fails(model: nn.Module, batch: list[Tensor]) -> Tensor:
        nonlocal calls
        calls += 1
        if RANK == 1 and calls == 9:
            raise RuntimeError("out of paper")
        return loss(model, batch)

    F = ModelObjective(model, fails, own_rows(torch.float64), micro_batch=64)
    try:
        negative_curvature(F, F.point)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:200], "untouched": same(before, bits(model))}
    return {"error": None}


def store() -> dist.Store:
    """torchrun's own, with a prefix for each restart: else gloo finds the addresses of processes that are gone."""
    agent = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    return dist.PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", agent)


def main() -> None:
    torch.set_num_threads(1)
    scenario, kind, out, *more = sys.argv[1:]
    if WORLD > 1:
        dist.init_process_group("gloo", timeout=timedelta(seconds=120), store=store(), rank=RANK, world_size=WORLD)
    if scenario == "train":
        options = dict(pair.split("=") for pair in more)
        answer = train(kind, **{key: Path(value) for key, value in options.items()})  # type: ignore[arg-type]
    else:
        answer = {name: globals()[name](kind) for name in scenario.split(",")}
    Path(out, f"{RANK}.json").write_text(json.dumps(answer))
    sys.stdout.flush()
    if WORLD > 1 and "raises" not in scenario:
        dist.barrier()
        dist.destroy_process_group()
    if WORLD > 1:
        os._exit(0)  # Gloo's threads now and then abort a process that has done all it had to, on its way out.


if __name__ == "__main__":
    main()
