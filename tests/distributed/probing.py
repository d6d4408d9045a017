"""Scenarios of probing: each takes how the model is wrapped and a folder, and returns what this rank saw."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

from tests.distributed.models import (
    CUTS,
    RANK,
    ROWS,
    WORLD,
    autoencoder,
    bits,
    loss,
    network,
    own_rows,
    rows,
    same,
    whole,
    wrap,
)
from unsaddle import (
    FiniteSum,
    ModelObjective,
    Neon,
    eigenpairs,
    is_minimum,
    minimize,
    morse_index,
    negative_curvature,
    ranks,
    spectral_density,
    spectrum_by_layer,
    vectors,
    where,
)
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.extract import answer
from unsaddle.curvature.krylov import projection
from unsaddle.curvature.krylov.certificate import KrylovSettings, krylov
from unsaddle.curvature.question import Question
from unsaddle.metric.given import as_map
from unsaddle.metric.maps import Diagonal

KNOWN = Question(gamma=0.5, smoothness=5.0, hessian_lipschitz=1.0, keep_history=True)
"""Constants that are given, so that nothing rests on a measured rounding error."""
EXTRACTORS = (
    "neon", "neon+", "neon2-det", "neon-renormalised", "neon+-renormalised", "neon2-online", "oja-first-order",
)  # fmt: skip
"""Those whose constants can all be given; the last two draw a fresh sample for each step."""
FEW = ("neon", "neon2-online")
"""One that has a sample for all steps and one that draws for each. How parameters are spread is the same to others."""
SHORT = {"neon2-online": 60, "oja-first-order": 60}
"""Gradients that those two may take: they would go on for thousands."""


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


def precisions(kind: str) -> tuple[torch.dtype, ...]:
    """Both, in one process and for two kinds of wrapping; float64 for the others."""
    return (torch.float64, torch.float32) if kind in ("alone", "ddp-views", "fsdp") else (torch.float64,)


def methods(kind: str, dtype: torch.dtype) -> tuple[str, ...]:
    """All, in one process, in replicas, and in shards in float64; few of them in other shards."""
    return EXTRACTORS if kind in ("alone", "ddp-views") or (kind, dtype) == ("fsdp", torch.float64) else FEW


def extractors(kind: str, folder: Path) -> dict[str, Any]:
    """Extractors with given constants; what was found, what it sent, what it left behind."""
    out: dict[str, Any] = {}
    for dtype in precisions(kind):
        model = wrap(network(dtype), kind)
        loss(model, list(own_rows(dtype)[:])).backward()  # Gradients that a probe must leave alone.
        before = bits(model)
        F = ModelObjective(model, loss, own_rows(dtype), micro_batch=25 if dtype is torch.float64 else 64)
        for method in methods(kind, dtype):
            ledger = Ledger()
            with Messages(ledger) as sent:
                question = replace(KNOWN, extractor=method, max_gradients=SHORT.get(method))
                found = answer(F, F.point, question, ledger)
            steps = len(found.history)
            out[f"{method}, {dtype}"] = {
                "status": found.status.name,
                "curvature": found.curvature,
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


def metric(kind: str, folder: Path) -> dict[str, Any]:
    """Both calls in the metric of Adam, whose moments lie beside the parameters that a rank holds."""
    model = wrap(network(torch.float64), kind)
    adam, everything = torch.optim.Adam(model.parameters(), lr=1e-2), list(rows(torch.float64))
    for _ in range(5):  # Every rank takes all rows, so that the mean over ranks is that of one process.
        adam.zero_grad()
        loss(model, everything).backward()
        adam.step()
    before, F = bits(model), ModelObjective(model, loss, own_rows(torch.float64))
    with ranks.together(F.ranks):
        scaling = as_map(adam, F, F.point)
    assert isinstance(scaling, Diagonal)
    found, verdict = negative_curvature(F, metric=adam, seed=1), is_minimum(F, metric=adam, seed=1)
    return {
        "sizes": whole(scaling.apply(torch.ones_like(F.point)), F),
        "ends": [scaling.smallest, scaling.largest],
        "status": found.status.name,
        "curvature": found.curvature,
        "gradients": found.cost.gradients,
        "direction": whole(found.direction, F),
        "kind": verdict.kind,
        "untouched": same(before, bits(model)),
    }


def spectrum(kind: str, folder: Path, dtypes: tuple[torch.dtype, ...] = (torch.float64,)) -> dict[str, Any]:
    """Eigenpairs, index, density, layers and `where`, and what they left behind."""
    out: dict[str, Any] = {}
    for dtype in dtypes:
        model = wrap(network(dtype), kind)
        loss(model, list(own_rows(dtype)[:])).backward()
        before = bits(model)
        F = ModelObjective(model, loss, own_rows(dtype), micro_batch=64)
        pairs = eigenpairs(F, lowest=3, highest=3)
        index = morse_index(F, gamma=1e-3 if dtype is torch.float64 else 1.2e-2)  # In gaps of the spectrum.
        density = spectral_density(F, probes=3, steps=20)
        layers = spectrum_by_layer(F, groups=["0.*", "*"], density=False)
        seen = where(F, pairs.vectors[0])
        out[str(dtype)] = {
            "values": pairs.values.tolist(),
            "errors": pairs.errors.tolist(),
            "vector": whole(pairs.vectors[-1], F),
            "index": (index.lower, index.upper),
            "grid": density.grid.tolist(),
            "density": density.density.tolist(),
            "trace": density.trace,
            "blocks": [layer.pairs.values.tolist() for layer in layers.layers],
            "dimensions": [layer.pairs.dimension for layer in layers.layers],
            "where": {n.removeprefix("module."): share for n, share in zip(seen.names, seen.shares, strict=True)},
            "sizes": sorted(seen.sizes),
        }
        out[f"untouched, {dtype}"] = same(before, bits(model))
    return out


def spectrum_in_both_precisions(kind: str, folder: Path) -> dict[str, Any]:
    return spectrum(kind, folder, (torch.float64, torch.float32))


def noise(kind: str, folder: Path) -> dict[str, Any]:
    """The same global vector for any number of ranks, also where it is drawn in parts."""
    model = wrap(network(torch.float32), kind)
    F = ModelObjective(model, loss, own_rows(torch.float32))
    at_once, vectors.DRAWN_AT_ONCE = vectors.DRAWN_AT_ONCE, 32
    try:
        with ranks.together(F.ranks):
            u = vectors.random_direction(F.point, torch.Generator().manual_seed(5))
            b = vectors.random_in_ball(F.point, 2.0, torch.Generator().manual_seed(5))
            held = vectors.dimension(F.point)
    finally:
        vectors.DRAWN_AT_ONCE = at_once
    return {"direction": whole(u, F), "ball": whole(b, F), "dimension": held}


def value_only(kind: str, folder: Path) -> dict[str, Any]:
    """A forward without backward leaves FSDP2's root gathered: the next gradient must not be one of old weights."""
    model = wrap(network(torch.float64), kind)
    F = ModelObjective(model, loss, own_rows(torch.float64))
    with torch.no_grad():
        model(rows(torch.float64)[0])  # The caller's own, too.
    f, x = F.sample(), F.point
    value = float(f.value(1.1 * x))
    grad = f.grad(0.9 * x)
    return {"value": value, "grad": whole(grad, F), "parameters": F.parameters.is_at(x)}


def sampler(kind: str, folder: Path) -> dict[str, Any]:
    """Loaders with a DistributedSampler: each row counts once."""
    data = TensorDataset(*rows(torch.float64))
    model = wrap(network(torch.float64), kind)
    shares = DistributedSampler(data) if WORLD > 1 else None
    F = ModelObjective(model, loss, DataLoader(data, batch_size=8, sampler=shares))
    return {"n": F.num_samples, "value": float(F.sample().value(F.point))}


def finite_sum(kind: str, folder: Path) -> dict[str, Any]:
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


def mixed_precision(kind: str, folder: Path) -> dict[str, Any]:
    """Layers that compute in bfloat16 under FSDP2's policy, at a saddle that stands out of its rounding."""
    model = wrap(autoencoder(), kind)
    data = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(3)) * torch.linspace(2.0, 0.5, 8)
    first, last = CUTS[WORLD][RANK : RANK + 2]
    before = bits(model)

    def square(model: nn.Module, batch: list[Tensor]) -> Tensor:
        return (model(batch[0]).float() - batch[0]).square().mean()

    F = ModelObjective(model, square, TensorDataset(data[first:last]))
    verdict = is_minimum(F)
    return {
        "kind": verdict.kind,
        "curvature": verdict.curvature,
        "interval": verdict.interval,
        "untouched": same(before, bits(model)),
    }


def reductions(kind: str, folder: Path) -> dict[str, Any]:
    """How often DDP reduces gradients for one gradient of several micro batches."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model, sent = wrap(network(torch.float64), kind), [0]

    def counted(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        sent[0] += bucket.is_last()
        return allreduce_hook(group, bucket)

    counted.__annotations__.clear()  # torch looks at them, and does not read strings.
    if WORLD > 1:
        model.register_comm_hook(None, counted)  # type: ignore[operator]
    f = ModelObjective(model, loss, own_rows(torch.float64), micro_batch=4).sample()
    x = torch.cat([p.detach().flatten() for p in model.parameters()])
    for _ in range(3):
        grad = f.grad(x)
    return {"sent": sent[0], "gradients": f.cost.gradients, "batches": -(-(CUTS[WORLD][1]) // 4), "grad": grad.tolist()}


def rounding(kind: str, folder: Path) -> dict[str, Any]:
    """Every rank but the first computes inner products and eigenvalues of its own a little wrong."""
    off, changed, true_dot, true_eigh = 1.0 + 1e-3 * RANK, Counter[str](), torch.dot, projection._eigh

    def dot(a: Tensor, b: Tensor) -> Tensor:
        changed["dot"] += off != 1.0
        return true_dot(a, b) * off

    def eigh(matrix: projection.Array) -> projection.Pairs:
        changed["eigh"] += off != 1.0
        values, vectors = true_eigh(matrix)
        return values * off, vectors * off

    model = wrap(network(torch.float64), kind)
    F = ModelObjective(model, loss, own_rows(torch.float64), micro_batch=64)
    torch.dot, projection._eigh = dot, eigh
    try:
        asked = [replace(KNOWN, extractor=name) for name in ("neon", "neon+", "neon2-det", "krylov")]
        found = [answer(F, F.point, question) for question in asked]
        verdict = is_minimum(F)
    finally:
        torch.dot, projection._eigh = true_dot, true_eigh
    return {
        "found": [(f.status.name, f.curvature, f.cost.gradients, f.history) for f in found],
        "verdict": (verdict.kind, verdict.curvature, verdict.gradient_norm, verdict.cost.gradients),
        "held": dict(changed),
    }


def own_mistakes(kind: str, folder: Path) -> dict[str, Any]:
    """What only one rank has wrong: no rows, another point."""
    said = {}
    model, own = wrap(network(torch.float64), kind), own_rows(torch.float64)
    try:
        ModelObjective(model, loss, TensorDataset(*(t[:0] for t in own.tensors)) if RANK == 1 else own)
    except ValueError as error:
        said["no rows"] = str(error)
    F = FiniteSum(lambda x, a: (a @ x).square().mean(), rows(torch.float64)[0], process_group=dist.group.WORLD)
    try:
        is_minimum(F, torch.full((5,), float(RANK), dtype=torch.float64))
    except ValueError as error:
        said["another point"] = str(error)
    ask: dict[str, Callable[[], Any]] = {
        "another seed": lambda: is_minimum(F, torch.zeros(5, dtype=torch.float64), seed=RANK),
        "another seed of a model": lambda: ModelObjective(model, loss, own, seed=RANK),
        "another seed of Neon": lambda: Neon(torch.optim.SGD(model.parameters(), lr=0.1), seed=RANK),
        "no file": lambda: ModelObjective(model, loss, _NoFile() if RANK == 1 else own),
        "no batches": lambda: ModelObjective(model, loss, _Never(RANK == 1)).sample(4, torch.Generator()),
        "another kind": lambda: ModelObjective(model, loss, _Never(False) if RANK == 1 else own),
    }
    for name, call in ask.items():
        try:
            call()
        except (ValueError, OSError) as error:
            said[name] = str(error)
    return said


class _NoFile(TensorDataset):
    """A data set whose file is gone."""

    def __init__(self) -> None:
        super().__init__(torch.zeros(1))

    def __len__(self) -> int:
        raise OSError("the file is gone")


class _Never(IterableDataset[Tensor]):
    """Rows without end, or none at all."""

    def __init__(self, empty: bool) -> None:
        self._empty = empty

    def __iter__(self) -> Iterator[list[Tensor]]:
        row = [t[0] for t in rows(torch.float64)]
        return iter([]) if self._empty else itertools.repeat(row)


def small_head(kind: str, folder: Path) -> dict[str, Any]:
    """A vector of which some ranks hold no part: found, assigned, and put back."""
    torch.manual_seed(0)
    model = nn.Linear(2, 1, bias=False).double()
    nn.init.zeros_(model.weight)
    model = wrap(model, kind)
    F = ModelObjective(model, _bent, TensorDataset(torch.eye(2, dtype=torch.float64)))
    x = F.point.clone()
    found = negative_curvature(F)
    F.assign(x + 1.0)
    moved = whole(F.point, F)
    F.assign(x)
    return {"curvature": found.curvature, "moved": moved, "held": x.numel()}


def _bent(model: nn.Module, batch: list[Tensor]) -> Tensor:
    outputs = model(batch[0])
    return (outputs**4 - outputs**2).mean()


def batch_norm(kind: str, folder: Path) -> dict[str, Any]:
    """Few samples on several ranks: some would have a batch of one row."""
    torch.manual_seed(0)
    model = wrap(nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double(), kind)
    x, y = rows(torch.float64)
    share = slice(RANK * 12, RANK * 12 + 12)
    F = ModelObjective(model, loss, TensorDataset(x[share], y[share]))
    return {"kind": is_minimum(F, samples=5).kind}


def infinite_rows(kind: str, folder: Path) -> dict[str, Any]:
    """Samples of one row, where all rows but those of the first of two ranks are infinite."""
    x, y = rows(torch.float64)
    x[CUTS[2][1] :] = torch.inf
    first, last = CUTS[WORLD][RANK : RANK + 2]
    F = ModelObjective(wrap(network(torch.float64), kind), loss, TensorDataset(x[first:last], y[first:last]))
    seen = []
    for seed in range(12):
        value, grad = F.sample(1, torch.Generator().manual_seed(seed)).value_and_grad(F.point)
        is_finite = bool(value.isfinite())
        seen.append([float(value), whole(grad, F)] if is_finite else None)
    return {"seen": seen}


def other_parameters(kind: str, folder: Path) -> dict[str, Any]:
    """Parameters that are frozen after Neon was made, with a candidate waiting."""
    model = wrap(autoencoder(), kind)
    neon = Neon(torch.optim.SGD(model.parameters(), lr=1e-3))
    data = torch.randn(16, 8, generator=torch.Generator().manual_seed(RANK))

    def closure() -> Tensor:
        neon.zero_grad()
        value = (model(data) - data).square().mean()
        value.backward()
        return value

    verdicts = [neon.probe(closure).verdict]
    next(iter(model.parameters())).requires_grad_(False)
    verdicts.append(neon.probe(closure).verdict)
    return {"verdicts": verdicts, "events": [event.verdict for event in neon.events]}


def foreign_shards(kind: str, folder: Path) -> dict[str, Any]:
    """Ways to shard that are not supported."""
    said = {}
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    for name in ("first FSDP", "first FSDP, flat", "tensor parallel"):
        model = network(torch.float64)
        if name == "tensor parallel":
            mesh = init_device_mesh("cpu", (WORLD,))
            model = parallelize_module(model, mesh, {str(i): ColwiseParallel() for i in (0, 2, 4)})
        else:
            settings = {"use_orig_params": name == "first FSDP", "device_id": torch.device("cpu")}
            model = FullyShardedDataParallel(model, **settings)
        try:
            ModelObjective(model, loss, own_rows(torch.float64))
        except ValueError as error:
            said[name] = str(error)
    return said
