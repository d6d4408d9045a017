"""`Neon`: wraps any torch optimizer, tells a saddle from a plateau, and leaves the saddle."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from unsaddle import checks, ranks
from unsaddle.objective import Objective
from unsaddle.objectives.model.parameters import OverParameters
from unsaddle.torch_optim import plateau, policy
from unsaddle.torch_optim.at_once import decide
from unsaddle.torch_optim.batch import DrawnBatch, trained_part
from unsaddle.torch_optim.callers import CANNOT_LOOK, Collector, Counted, what_to_write
from unsaddle.torch_optim.checkpointed import Checkpointed
from unsaddle.torch_optim.closure import Closure, ClosureObjective
from unsaddle.torch_optim.events import Event
from unsaddle.torch_optim.prober import Batch
from unsaddle.torch_optim.rules import Rules
from unsaddle.torch_optim.state import IDLE, TRIAL, State

BATCH_SEEDS = 1_000_003
"""A prime between the seeds of two batches, so that neighbouring seeds of a Neon draw other batches."""


class Neon(Checkpointed):
    """An optimizer around another one, the base. It trains as the base does, detects saddles and leaves them.

    Parameter groups and state are the base's own, so schedulers and checkpoints work. If the loss has stopped falling
    and the budget allows it, `step` seeks a direction of negative curvature on one batch, with gradients only and
    without side effects. Each of the next batches measures the curvature along it and turns it further down. Once the
    curvature is proved, other batches try a step, and the step is taken if the loss falls. The batches are those of the
    closures, `step(closure)`, or drawn from `objective`, where the loop is `loss.backward(); optimizer.step()`. The
    rules are in `policy`; docs/optimizer.md has measurements.

    With `maximize=True` in the base, all of this is about the negative of the loss.

    Args:
        optimizer: the base, an instance of any torch optimizer.
        objective: the trained model, its loss and its data, as ModelObjective(model, loss, data). For loops without
            closures.
        gamma: γ, the curvature sought; by default a hundredth of the largest one seen.
        every: least number of steps between verdicts. It doubles with each verdict that is not an escape.
        max_overhead: gradients for probing, as a share of those for training. The first probe is on credit: on a
            plateau, one more gradient a step for some tens of steps.
        escape: whether to jump; False gives verdicts only.
        callback: called with each `Event`. Like hooks, it is not pickled or copied.
        seed: of the random starts, and of the batches that are drawn.
        samples: of the objective, in each batch that a probe draws; by default as many as its `batch_size`.
        process_group: the ranks that train together, each on its own batches. By default the ranks that the parameters
            are sharded over (FSDP2), else all ranks if torch.distributed is in use.

    >>> x = torch.nn.Parameter(torch.zeros(2))
    >>> optimizer = Neon(torch.optim.SGD([x], lr=0.1), every=10)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(100):
    ...     loss = optimizer.step(closure)
    >>> [event.verdict for event in optimizer.events][0], round(float(loss.detach()), 3)
    ('saddle', -1.0)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        objective: Objective | None = None,
        gamma: float | None = None,
        every: int = 100,
        max_overhead: float = 0.05,
        escape: bool = True,
        *,
        callback: Callable[[Event], None] | None = None,
        seed: int = 0,
        samples: int | None = None,
        process_group: Any = None,
        **of_the_base: Any,
    ) -> None:
        if isinstance(optimizer, type) or not isinstance(optimizer, Optimizer) or of_the_base:
            raise TypeError(what_to_write(optimizer, of_the_base))
        if isinstance(optimizer, Neon):
            raise TypeError("optimizer is a Neon already; wrap the optimizer inside it, its .base")
        checks.callback(callback, "an Event")
        self.base = optimizer
        self.rules = Rules(
            gamma=None if gamma is None else checks.positive(gamma, "gamma", "leave it out to have it chosen"),
            every=checks.count(every, "every"),
            max_overhead=checks.not_negative(max_overhead, "max_overhead", "0 never probes by itself"),
            escape=checks.flag(escape, "escape"),
            seed=checks.seed(seed),
        )
        self.callback, self._process_group, self.objective = callback, process_group, None
        self._samples = None if samples is None else checks.count(samples, "samples")
        if objective is not None:
            trained_part(objective, self._trained())
            if not isinstance(objective, OverParameters):
                raise TypeError(f"objective must be a ModelObjective, got {type(objective).__name__}")
            self.objective = objective
        self._start(State())
        ranks.check_seed(self._ranks, self.rules.seed)

    @property
    def events(self) -> list[Event]:
        """Every verdict so far, oldest first."""
        return [Event.from_row(row) for row in self._prober.state.events]

    @property
    def phase(self) -> str:
        """ "idle", or "collect" or "trial" while a candidate waits for fresh batches."""
        return self._prober.state.phase

    @property
    def due(self) -> bool:
        """Whether to probe now, by wait, budget and, if losses are known, plateau; for loops that call `probe`."""
        state = self._prober.state
        on_time = policy.waited(state, self.rules) and policy.affordable(state, self.rules)
        return on_time and (not state.losses or plateau.plateau(state, self.rules))

    @property
    def overhead(self) -> float:
        """Gradients spent on probing, divided by those spent on training."""
        return self._prober.state.spent / max(1, self._prober.state.trained)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step of the base and, if it is due, a piece of a probe. Returns the base's loss.

        The closure sets gradients to zero, computes the loss, calls backward and returns the loss, always of one batch.
        Without a closure, a probe draws its batches from `objective`.
        """
        with ranks.named(self._ranks, "Neon.step"):
            return self._step(closure)

    def _step(self, closure: Closure | None) -> Any:
        state, sign = self._prober.state, self._sign()
        if closure is None:
            self._note_value()
            loss = self.base.step()
            plateau.record(state, self.rules, None, 1)
            self._look_without_closure()
            return loss
        collector = None
        with ranks.together(self._ranks):
            if policy.measures(state, self.rules):  # At the gradient that the base is about to take.
                collector = Collector(lambda: self._batch(closure), self._measure)
        replicas = None if self._ranks is None else self._replicas
        counted = Counted(closure, self._trained() if state.steps == 0 else None, collector, replicas)
        loss = self.base.step(counted)
        with ranks.together(self._ranks):
            plateau.record(state, self.rules, loss if loss is None or sign > 0.0 else -loss, counted.calls)
            if collector is None and (state.phase == TRIAL or policy.due(state, self.rules)):
                self._advance(self._batch(closure))
            self._tell()
        return loss

    def _measure(self, batch: ClosureObjective, alone: bool) -> None:
        """Measures the candidate at the gradient that the closure has just left in the parameters, if it is its own.

        Ranks must decide alike, so on several ranks it is taken for that.
        """
        with ranks.together(self._ranks):
            if not alone and self._ranks is None:
                self._advance(batch)
                return
            at_x = batch.parameters.gradient()
            self._advance(batch, at_x=at_x if self._sign() > 0.0 else at_x.neg_())

    def _batch(self, closure: Closure) -> ClosureObjective:
        return ClosureObjective(closure, self._parameters(), self._sign())

    def _drawn(self, number: int) -> DrawnBatch:
        """A batch of the objective: another one for each number, and the same for the same number."""
        assert self.objective is not None
        seed = self.rules.seed + BATCH_SEEDS * number
        return DrawnBatch(self.objective, self._samples or self.objective.batch_size, seed, self._sign())

    def _note_value(self) -> None:
        """Takes the loss of one sample at the beginning of a window. It is always the same sample."""
        state = self._prober.state
        idle = state.phase == IDLE and self.rules.max_overhead > 0.0
        if self.objective is not None and idle and state.steps % self.rules.window == 0:
            with ranks.together(self.objective.ranks), self._replicas.noted():
                batch = self._drawn(0)
                plateau.record_value(state, float(batch.sample().value(batch.point)), batch.evaluations)
                batch.parameters.forget()

    def _look_without_closure(self) -> None:
        """A piece of a probe on a batch of the objective. Without one, says once that there is nothing to look at."""
        state = self._prober.state
        if self.objective is None:
            # A loop that probes by hand has done so by now.
            if (
                not self._warned
                and state.probes == 0
                and state.steps >= 2 * self.rules.every
                and self.rules.max_overhead
            ):
                self._warned = True
                warnings.warn(CANNOT_LOOK, RuntimeWarning, stacklevel=5)
            return
        with ranks.together(self.objective.ranks):
            collects = policy.measures(state, self.rules, cost=2)
            if collects or state.phase == TRIAL or policy.due(state, self.rules):
                self._advance(self._drawn(state.steps))
            self._tell()

    def _tell(self) -> None:
        event = self._prober.tell()
        if event is not None:
            self._report(event)

    def probe(self, target: Closure | Objective | None = None, *, samples: int | None = None) -> Event:
        """Probes now, whatever the budget says. A verdict is also added to `events`; a candidate is not.

        Args:
            target: an objective over the trained model, by default the `objective` of this `Neon`, or a closure as for
                `step`. An objective draws its own fresh samples and gives a verdict at once. With a closure the answer
                may be "candidate": then pass closures with other batches, or go on with `step(closure)`, until there
                is a verdict.
            samples: |S| for an objective; None for everything.
        """
        target = self.objective if target is None else target
        if isinstance(target, Objective) and not isinstance(target, ClosureObjective):
            with ranks.named(self._ranks, "Neon.probe"):
                return self._report(decide(target, self.base, self._prober.state, self.rules, samples, self._sign()))
        if not callable(target) or isinstance(target, (type, torch.nn.Module)):
            got = "none, and this Neon has no objective" if target is None else type(target).__name__
            raise TypeError(
                f"probe needs a closure that computes the loss and calls backward(), or an objective, got "
                f"{got}; for a model that is ModelObjective(model, loss, data)"
            )
        if samples is not None:
            raise ValueError("samples is for an objective; a closure has its own batch")
        with ranks.named(self._ranks, "Neon.probe"), ranks.together(self._ranks):
            return self._advance(self._batch(target), fresh=True)

    def _advance(self, batch: Batch, *, at_x: Tensor | None = None, fresh: bool = False) -> Event:
        if [id(p) for p in batch.parameters.tensors] != self._probed:  # requires_grad has changed.
            self._find_ranks()
            self._prober.forget()
        with ranks.together(self._ranks):
            return self._report(self._prober.advance(batch, at_x=at_x, fresh=fresh))

    def _report(self, event: Event) -> Event:
        if event.escaped and isinstance(self.base, torch.optim.LBFGS):
            self.base.state.clear()  # Its curvature pairs are from before the jump.
        if self.callback is not None and not event.pending:
            self.callback(event)
        return event

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds the group to the base. Drops the candidate, which is a direction of the old parameters."""
        self.base.add_param_group(param_group)
        self._find_ranks()
        self._prober.forget()

    def __repr__(self) -> str:
        rules = (f"{name}={getattr(self.rules, name)}" for name in ("gamma", "every", "max_overhead", "escape"))
        return f"Neon({self.base!r}, {', '.join(rules)})"
