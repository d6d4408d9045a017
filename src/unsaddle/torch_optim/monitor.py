"""`CurvatureMonitor`: λ_max beside the limit of the optimizer's step, and λ_min, while a model is trained."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from unsaddle import checks, ranks
from unsaddle.objective import Objective
from unsaddle.objectives.model.parameters import FlatParameters, OverParameters
from unsaddle.torch_optim import monitor_limit, monitor_track
from unsaddle.torch_optim.batch import DrawnBatch, trained_part
from unsaddle.torch_optim.callers import Collector, Counted
from unsaddle.torch_optim.closure import Closure, ClosureObjective
from unsaddle.torch_optim.monitor_row import CurvatureRow
from unsaddle.torch_optim.monitor_track import Batch, Track
from unsaddle.torch_optim.neon import BATCH_SEEDS, Neon

FIRST = 10
"""Training steps before the first search: second moments of an adaptive optimizer have settled a little by then."""

SEARCHING = 0.2
"""The share of the budget that searches may take; the rest is for measurements."""

EACH = 1.8
"""An evaluation counts as so many gradients, so that the time stays within the budget, too: replaying and putting back
take time, 1.6 times that of a training step where a gradient takes 2 ms, and so do hooks (`benchmarks.monitor`)."""

CALM = 0.9
"""After a warning, λ_max has to fall below this share of the limit before the next one."""

CANNOT_LOOK = (
    "CurvatureMonitor has seen neither a closure nor an objective, so that it cannot measure: write "
    "CurvatureMonitor(optimizer, objective=unsaddle.ModelObjective(model, loss, data)), or step(closure)"
)


class CurvatureMonitor:
    """Watches the curvature while an optimizer trains: λ_max beside the limit of its step, 2/η for SGD, and λ_min.

    Make one beside the optimizer, and train as before: it works in hooks of `optimizer.step`. Gradients only, on
    batches of the closures, `step(closure)`, or drawn from `objective`, where the loop is `loss.backward();
    optimizer.step()`. Parameters, gradients, buffers and random states are put back, bit for bit. When λ_max passes the
    limit, it warns in words, before the step is taken.

    The limit is that of `monitor_limit`: 2(1+β)/η for heavy ball; for Adam and AdamW 2(1+β1)/(η(1−β1)), 38/η by
    default, and λ_max is then that of the preconditioned Hessian. A Krylov search on one batch finds the direction of
    λ_max, now and then of λ_min, too. The batches of the next steps measure it, at the parameters of the search.

    Args:
        optimizer: a torch optimizer, or a trainer that has one or will have one when it trains (Lightning, Hugging
            Face).
        objective: the trained model, its loss and its data, as ModelObjective(model, loss, data). For loops without
            closures.
        max_overhead: the time of the monitor as a share of that of training, for gradients of 2 ms and more; its
            gradients are fewer. The first search, some 40 gradients with what follows it, is on credit.
        every: λ_max is measured at steps that are multiples of this, as often as `max_overhead` pays for it, and told
            a few steps later.
        warn: whether to call `warnings.warn` when λ_max passes the limit. Rows have the warning either way.
        callback: called with each `CurvatureRow`.
        seed: of the random starts, and of the batches that are drawn.
        samples: of the objective, in each batch that is drawn; by default as many as its `batch_size`.
        process_group: the ranks that train together. By default the ranks that the parameters are sharded over (FSDP2),
            else all ranks if torch.distributed is in use.

    Attributes:
        rows: a `CurvatureRow` for each measurement of λ_max and for each warning. `measured_at` is the step of λ_max.

    Memory: one vector of the size of the model; up to six more while it measures; 13 to 21 during a search.

    >>> x = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = torch.optim.SGD([x], lr=0.1)
    >>> monitor = CurvatureMonitor(optimizer)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = 4.0 * x[0] ** 2 - x[1] ** 2 + x[1] ** 4
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(200):
    ...     loss = optimizer.step(closure)
    >>> round(monitor.rows[-1].sharpness, 2), monitor.rows[-1].limit
    (8.0, 20.0)
    """

    def __init__(
        self,
        optimizer: Any,
        objective: Objective | None = None,
        *,
        max_overhead: float = 0.05,
        every: int = 100,
        warn: bool = True,
        callback: Callable[[CurvatureRow], None] | None = None,
        seed: int = 0,
        samples: int | None = None,
        process_group: Any = None,
    ) -> None:
        checks.callback(callback, "a CurvatureRow")
        if objective is not None and not isinstance(objective, OverParameters):
            raise TypeError(f"objective must be a ModelObjective, got {type(objective).__name__}")
        self.objective = objective
        self.max_overhead = checks.positive(max_overhead, "max_overhead", "0.05 is the default")
        self.every, self.warn, self.callback = checks.count(every, "every"), bool(warn), callback
        self._seed, self._samples = checks.seed(seed), None if samples is None else checks.count(samples, "samples")
        self._process_group, self._told, self._track = process_group, False, Track()
        self._hooks: list[Any] = []
        self._awaiting: Any = None
        found = optimizer_of(optimizer)
        if found is not None:
            self._attach(found)
        else:
            self._awaiting = register_optimizer_step_pre_hook(self._awaited(optimizer))

    def _attach(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self._base = optimizer.base if isinstance(optimizer, Neon) else optimizer
        if self.objective is not None:
            trained_part(self.objective, [p for group in optimizer.param_groups for p in group["params"]])
        self._find_ranks()
        ranks.check_seed(self._ranks, self._seed)
        self._hooks = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def _awaited(self, trainer: Any) -> Callable[..., Any]:
        """A hook of every optimizer's step, until the trainer has its own. The hooks that it adds run after it."""

        def before(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            if not self._hooks and optimizer_of(trainer) is optimizer:
                self._attach(optimizer)

        return before

    def close(self) -> None:
        """Stops watching: takes the hooks off the optimizer."""
        for hook in (*self._hooks, *([] if self._awaiting is None else [self._awaiting])):
            hook.remove()
        self._hooks, self._awaiting = [], None

    @property
    def rows(self) -> list[CurvatureRow]:
        return self.rows_since(0)

    def rows_since(self, number: int) -> list[CurvatureRow]:
        """All rows but the first `number`."""
        return [CurvatureRow.from_row(row) for row in self._track.rows[number:]]

    @property
    def overhead(self) -> float:
        """Gradients of the monitor, divided by those of training."""
        return self._spent / max(1, self._track.trained)

    @property
    def _spent(self) -> int:
        return self._track.spent + self._track.searching

    def state_dict(self) -> dict[str, Any]:
        """All that a run needs to go on bit for bit. On FSDP2 each rank has its own part of the vectors."""
        return self._track.to_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads what `state_dict` returned."""
        self._track = Track.from_dict(state_dict)

    def _parameters(self) -> FlatParameters:
        if self.objective is not None:
            return self.objective.parameters
        return FlatParameters([p for group in self.optimizer.param_groups for p in group["params"]])

    def _find_ranks(self) -> None:
        group = self._process_group
        if group is None and dist.is_available() and dist.is_initialized():
            group = dist.group.WORLD
        flat = self._parameters()
        self._ranks, self._watched = ranks.of_parameters(flat.tensors, group), [id(p) for p in flat.tensors]

    def _before(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Before a training step: warns if its size is too large for what is known, then measures if that is due."""
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        self._compare()
        self._track.steps += 1
        if closure is None:
            self._track.trained += 1
            if self.objective is None:
                self._say_once()
            elif self._due(known=False):
                self._look(self._drawn(), None)
            return None
        watched = self._watching(closure) if self._due(known=True) else self._counting(closure)
        return (args[0], watched, *args[2:]), {k: v for k, v in kwargs.items() if k != "closure"} if kwargs else kwargs

    def _counting(self, closure: Closure) -> Closure:
        """The closure, whose calls are counted. Every training step has one: it takes a microsecond."""

        def counted() -> Any:
            self._track.trained += 1
            return closure()

        return counted

    def _watching(self, closure: Closure) -> Closure:
        """The closure, beside whose first call a batch is looked at."""
        return Counted(self._counting(closure), None, Collector(partial(self._batch, closure), self._beside))

    def _after(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._awaiting is not None:
            self._awaiting.remove()
            self._awaiting = None
        if self._track.fresh:
            self._tell("")

    def _due(self, *, known: bool) -> bool:
        """Whether this batch is for the monitor. Counts decide, which are the same on all ranks."""
        return self._track.origin is not None or self._search_due() or self._burst_due(known=known)

    def _search_due(self) -> bool:
        """Whether to look for both ends of the spectrum."""
        track = self._track
        if track.deep == 0:
            return track.steps > FIRST
        allowed = SEARCHING * self.max_overhead * track.trained
        return track.steps % self.every == 0 and EACH * (track.searching + track.next_search) <= allowed

    def _burst_due(self, *, known: bool) -> bool:
        """Whether to measure λ_max. All of it is paid for before it begins."""
        track = self._track
        if track.highest is None or track.steps % self.every:
            return False
        allowed = (1.0 - SEARCHING) * self.max_overhead * track.trained
        return EACH * (track.spent + track.next_burst(known=known)) <= allowed

    def _batch(self, closure: Closure) -> ClosureObjective:
        return ClosureObjective(closure, self._parameters(), self._sign())

    def _drawn(self) -> DrawnBatch:
        assert isinstance(self.objective, OverParameters)
        samples = self._samples or self.objective.batch_size
        return DrawnBatch(self.objective, samples, self._seed + BATCH_SEEDS * self._track.steps, self._sign())

    def _sign(self) -> float:
        return -1.0 if any(group.get("maximize", False) for group in self.optimizer.param_groups) else 1.0

    def _beside(self, batch: ClosureObjective, alone: bool) -> None:
        """Looks between a training step's gradient and its step, at the point where that gradient is."""
        if not alone and self._ranks is None:
            self._look(batch, None)
            return
        at_x = batch.parameters.gradient()
        self._look(batch, at_x if self._sign() > 0.0 else at_x.neg_())

    @torch.no_grad()
    def _look(self, batch: Batch, at_x: Tensor | None) -> None:
        track = self._track
        if [id(p) for p in batch.parameters.tensors] != self._watched:  # requires_grad has changed.
            self._find_ranks()
            track.forget()
        with ranks.together(self._ranks):
            if track.origin is not None:
                monitor_track.measure(track, batch)
                return
            sizes, both_ends = monitor_limit.sizes(self._base, batch.parameters), self._search_due()
            monitor_track.search(track, batch, at_x, sizes, self._seed, both_ends=both_ends)

    def _compare(self) -> None:
        """Warns when λ_max passes the limit, which moves with the learning rate."""
        track = self._track
        (sharpness, _), limit = track.sharpness, monitor_limit.limit(self._base)
        if track.above:
            track.above = not sharpness < CALM * limit.curvature
        elif sharpness > limit.curvature:
            track.above = True
            fitting = limit.learning_rate * limit.curvature / sharpness
            text = (
                f"λ_max = {sharpness:.4g} is above {limit.curvature:.4g}, up to which a step at learning rate "
                f"{limit.learning_rate:.3g} is stable: the loss may spike. Use a learning rate below {fitting:.3g}, "
                "or warm it up more slowly."
            )
            self._tell(text)
            if self.warn:
                warnings.warn(f"step {track.steps}: {text}", RuntimeWarning, stacklevel=4)

    def _tell(self, warning: str) -> None:
        track, limit = self._track, monitor_limit.limit(self._base)
        (sharpness, error), (lowest, lowest_error) = track.sharpness, track.lowest_seen
        row = CurvatureRow(
            step=track.steps,
            sharpness=sharpness,
            sharpness_error=error,
            measured_at=track.measured_at,
            batches=track.batches,
            limit=limit.curvature,
            learning_rate=limit.learning_rate,
            lowest=lowest,
            lowest_error=lowest_error,
            lowest_at=track.lowest_at,
            gradients=self._spent,
            warning=warning,
        )
        track.fresh = False
        track.rows.append(row.row())
        if self.callback is not None:
            self.callback(row)

    def _say_once(self) -> None:
        if not self._told and self._track.steps > 2 * self.every:
            self._told = True
            warnings.warn(CANNOT_LOOK, RuntimeWarning, stacklevel=4)


def optimizer_of(target: Any) -> Optimizer | None:
    """The torch optimizer in an optimizer, a wrapper of one, or a trainer; None if a trainer has none yet.

    >>> optimizer_of(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)).__class__.__name__
    'SGD'
    """
    several = getattr(target, "optimizers", None)
    if isinstance(several, list) and len(several) > 1:
        raise ValueError(f"the trainer has {len(several)} optimizers: expected one; pass the one to be watched")
    if isinstance(target, Optimizer):
        inner = target.__dict__.get("optimizer")  # Accelerate's and Lightning's wrappers derive from Optimizer.
        return optimizer_of(inner) if isinstance(inner, Optimizer) else target
    if isinstance(several, list):
        return optimizer_of(several[0]) if several else None
    if hasattr(target, "optimizer"):
        return None if target.optimizer is None else optimizer_of(target.optimizer)
    raise TypeError(
        f"optimizer must be a torch optimizer, or a trainer of Lightning or Hugging Face, got {type(target).__name__}; "
        "write CurvatureMonitor(torch.optim.AdamW(model.parameters(), lr=1e-3))"
    )
