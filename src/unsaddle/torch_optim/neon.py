"""`Neon`: wraps any torch optimizer, tells a saddle from a plateau, and leaves the saddle."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from unsaddle import checks, ranks
from unsaddle.objective import Objective
from unsaddle.objectives.model.parameters import FlatParameters
from unsaddle.torch_optim import policy
from unsaddle.torch_optim.at_once import decide
from unsaddle.torch_optim.closure import Closure, ClosureObjective
from unsaddle.torch_optim.events import Event
from unsaddle.torch_optim.prober import Prober
from unsaddle.torch_optim.sharded_state import ShardedState

OWN_STATE = "neon"
"""Neon's entry in a state_dict, beside the base's `state` and `param_groups`."""


class _OfBase:
    """An attribute that is read, set and deleted on the base optimizer."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance.base, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.base, self.name, value)

    def __delete__(self, instance: Any) -> None:
        delattr(instance.base, self.name)


class Neon(Optimizer):
    """An optimizer around another one, the base. It trains as the base does, detects saddles and leaves them.

    Parameter groups and state are the base's own, so schedulers and checkpoints work. `step()` costs what the base
    costs. `step(closure)` may probe: if the loss has stopped falling and the budget allows it, it seeks a direction of
    negative curvature on the current batch, with gradients only and without side effects. The next batches measure the
    curvature along it, the batches after them try a step, and the step is taken if the loss falls. The rules are in
    `policy`; docs/optimizer.md has measurements.

    Args:
        optimizer: the base, an instance of any torch optimizer.
        gamma: γ, the curvature sought; by default a hundredth of the largest one seen.
        every: least number of steps between verdicts. It doubles with each verdict that is not an escape.
        max_overhead: gradients for probing, as a share of those for training. The first probe is on credit.
        escape: whether to jump; False gives verdicts only.
        callback: called with each `Event`. Like hooks, it is not pickled or copied.
        seed: of the random starts.
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

    param_groups = _OfBase()
    state = _OfBase()
    defaults = _OfBase()
    # GradScaler uses these with optimizers that unscale by themselves.
    _step_supports_amp_scaling = _OfBase()
    grad_scale = _OfBase()
    found_inf = _OfBase()

    def __init__(
        self,
        optimizer: Optimizer,
        gamma: float | None = None,
        every: int = 100,
        max_overhead: float = 0.05,
        escape: bool = True,
        *,
        callback: Callable[[Event], None] | None = None,
        seed: int = 0,
        process_group: Any = None,
    ) -> None:
        if isinstance(optimizer, type) or not isinstance(optimizer, Optimizer):
            got = f"the class {optimizer.__name__}" if isinstance(optimizer, type) else type(optimizer).__name__
            example = "write Neon(torch.optim.AdamW(model.parameters(), lr=1e-3))"
            raise TypeError(f"optimizer must be an instance of a torch optimizer, got {got}; {example}")
        if isinstance(optimizer, Neon):
            raise TypeError("optimizer is a Neon already; wrap the optimizer inside it, its .base")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must take an Event, got {type(callback).__name__}")
        self.base = optimizer
        self.rules = policy.Rules(
            gamma=None if gamma is None else checks.positive(gamma, "gamma", "leave it out to have it chosen"),
            every=checks.count(every, "every"),
            max_overhead=checks.not_negative(max_overhead, "max_overhead", "0 never probes by itself"),
            escape=bool(escape),
            seed=checks.seed(seed),
        )
        self.callback, self._process_group = callback, process_group
        self._become_optimizer(policy.State())
        ranks.check_seed(self._ranks, self.rules.seed)

    def _begin(self, state: policy.State) -> None:
        self._prober = Prober(self.rules, state, self.base)

    def _become_optimizer(self, state: policy.State) -> None:
        """Does what `Optimizer.__init__` does, without groups and state: these are the base's."""
        self._begin(state)
        self._find_ranks()  # Raises now if the parameters cannot be probed.
        for of, when in itertools.product(("step", "state_dict", "load_state_dict"), ("pre", "post")):
            self.__dict__.setdefault(f"_optimizer_{of}_{when}_hooks", OrderedDict())
        self._patch_step_function()

    def _parameters(self) -> FlatParameters:
        names = [name for group in self.param_groups for name in group.get("param_names", ())]
        tensors = [p for group in self.param_groups for p in group["params"]]
        return FlatParameters(zip(names, tensors, strict=True) if names else tensors)

    def _find_ranks(self) -> None:
        group = self._process_group
        if group is None and dist.is_available() and dist.is_initialized():
            group = dist.group.WORLD
        tensors = self._parameters().tensors
        self._ranks, self._probed = ranks.of_parameters(tensors, group), [id(p) for p in tensors]

    @property
    def events(self) -> list[Event]:
        """Every verdict so far, oldest first."""
        return [Event.from_row(row) for row in self._prober.state.events]

    @property
    def phase(self) -> str:
        """ "idle", or "confirm" or "trial" while a candidate waits for fresh batches."""
        return self._prober.state.phase

    @property
    def due(self) -> bool:
        """Whether to probe now, by wait, budget and, if losses are known, plateau; for loops that call `probe`."""
        state = self._prober.state
        on_time = policy.waited(state, self.rules) and policy.affordable(state, self.rules)
        return on_time and (not state.losses or policy.plateau(state, self.rules))

    @property
    def overhead(self) -> float:
        """Gradients spent on probing, divided by those spent on training."""
        return self._prober.state.spent / max(1, self._prober.state.trained)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step of the base; with a closure, also a probe if it is due. Returns the base's loss.

        The closure sets gradients to zero, computes the loss, calls backward and returns the loss, always of one batch.
        """
        state = self._prober.state
        if closure is None:
            loss = self.base.step()
            policy.record(state, self.rules, None, 1)
            return loss
        counted = _Counted(closure, self.param_groups if state.steps == 0 else None)
        loss = self.base.step(counted)
        with ranks.together(self._ranks):
            policy.record(state, self.rules, loss, counted.calls)
            if state.phase != policy.IDLE or policy.due(state, self.rules):
                self._advance(closure)
        return loss

    def probe(self, target: Closure | Objective, *, samples: int | None = None) -> Event:
        """Probes now, whatever the budget says. A verdict is also added to `events`; a candidate is not.

        Args:
            target: an objective over the trained model, or a closure as for `step`. An objective draws its own fresh
                samples and gives a verdict at once. With a closure the answer may be "candidate": then pass closures
                with other batches, or go on with `step(closure)`, until there is a verdict.
            samples: |S| for an objective; None for everything.
        """
        if isinstance(target, Objective) and not isinstance(target, ClosureObjective):
            return self._report(decide(target, self.base, self._prober.state, self.rules, samples))
        if not callable(target) or isinstance(target, torch.nn.Module):
            raise TypeError(
                f"probe needs a closure that computes the loss and calls backward(), or an objective, got "
                f"{type(target).__name__}; for a model that is ModelObjective(model, loss, data)"
            )
        if samples is not None:
            raise ValueError("samples is for an objective; a closure has its own batch")
        with ranks.together(self._ranks):
            return self._advance(target, fresh=True)

    def _advance(self, closure: Closure, *, fresh: bool = False) -> Event:
        flat = self._parameters()
        if [id(p) for p in flat.tensors] != self._probed:  # requires_grad has changed.
            self._find_ranks()
            self._prober.forget()
        with ranks.together(self._ranks):
            return self._report(self._prober.advance(closure, flat, fresh=fresh))

    def _report(self, event: Event) -> Event:
        if event.escaped and isinstance(self.base, torch.optim.LBFGS):
            self.base.state.clear()  # Its curvature pairs are from before the jump.
        if self.callback is not None and not event.pending:
            self.callback(event)
        return event

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Calls the base's zero_grad."""
        self.base.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds the group to the base. Drops the candidate, which is a direction of the old parameters."""
        self.base.add_param_group(param_group)
        self._find_ranks()
        self._prober.forget()

    def state_dict(self) -> dict[str, Any]:
        """The base's state, and Neon's own under "neon". A run that loads both goes on bit for bit."""
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        packed = self.base.state_dict() | {OWN_STATE: self._prober.state.to_dict()}
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            packed = post_hook(self, packed) or packed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads what `state_dict` returned. With a state of the base alone, Neon starts afresh."""
        state_dict = dict(state_dict)
        for pre_hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = pre_hook(self, state_dict) or state_dict
        state = policy.State.from_dict(state_dict.get(OWN_STATE, {}))
        self.base.load_state_dict({key: value for key, value in state_dict.items() if key != OWN_STATE})
        if state.direction is not None:
            flat = self._parameters()
            state.direction = state.direction.to(device=flat.device, dtype=flat.dtype)
        self._begin(state)
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)

    def sharded_state(self) -> ShardedState:
        """Neon's own state for `torch.distributed.checkpoint`. Save and load it beside the base's."""
        return ShardedState(self._parameters(), self._prober.state, self._begin)

    def __deepcopy__(self, memo: dict[int, Any]) -> Neon:
        """A copy with a copy of the base, on the same process group, without the callback."""
        if self._process_group is not None:
            memo[id(self._process_group)] = self._process_group
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __getstate__(self) -> dict[str, Any]:
        saved = {"base": self.base, "rules": self.rules, "state": self._prober.state.to_dict()}
        return saved if self._process_group is None else saved | {"process_group": self._process_group}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.base, self.rules, self.callback = saved["base"], saved["rules"], None
        self._process_group = saved.get("process_group")
        self._become_optimizer(policy.State.from_dict(saved["state"]))

    def __getattr__(self, name: str) -> Any:
        """Attributes that only the base has, such as train() and eval() of schedule-free optimizers."""
        if name.startswith("__") or "base" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.base, name)

    def __repr__(self) -> str:
        rules = (f"{name}={getattr(self.rules, name)}" for name in ("gamma", "every", "max_overhead", "escape"))
        return f"Neon({self.base!r}, {', '.join(rules)})"


class _Counted:
    """The closure as the base calls it. Counts the calls, and checks on the first one that backward was called."""

    def __init__(self, closure: Closure, watched: list[dict[str, Any]] | None) -> None:
        self._closure, self.calls = closure, 0
        self._watched = None if watched is None else [p for group in watched for p in group["params"]]

    def _gradients(self) -> list[tuple[Tensor | None, int]]:
        """The tensors themselves, since a new one may get the address of one that is gone."""
        return [(p.grad, -1 if p.grad is None else p.grad._version) for p in self._watched or ()]

    def __call__(self) -> Any:
        before = self._gradients()
        with torch.enable_grad():
            loss = self._closure()
        if self._watched is not None:
            if all(a is b and i == j for (a, i), (b, j) in zip(before, self._gradients(), strict=True)):
                raise ValueError(
                    "the closure did not call backward, or not of a loss of the optimizer's parameters: expected it to "
                    "set gradients to zero, compute the loss, call loss.backward() and return the loss; or leave the "
                    "closure out, and probe(...) when you want to"
                )
            if loss is None:
                warnings.warn(
                    "the closure returned None, so that Neon cannot tell where the loss stops falling and will not "
                    "look: expected it to return the loss; add 'return loss' to it",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self._watched = None
        self.calls += 1
        return loss
