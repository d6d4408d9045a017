"""`Neon`: any torch optimizer, promoted to one that tells a plateau from a saddle and leaves the latter."""

from __future__ import annotations

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

HOOKS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)

OWN_STATE = "neon"
"""Neon's entry in a state_dict, beside the base's `state` and `param_groups`."""


class _OfBase:
    """An attribute that is the base optimizer's own, to be read, set and deleted."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else getattr(instance.base, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance.base, self.name, value)

    def __delete__(self, instance: Any) -> None:
        delattr(instance.base, self.name)


class Neon(Optimizer):
    """An optimizer around an optimizer: it trains as the base does, looks for saddles now and then, and leaves them.

        optimizer = unsaddle.Neon(torch.optim.AdamW(model.parameters(), lr=1e-3))

        def closure():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            return loss

        optimizer.step(closure)

    Parameter groups and state are the base's own, so schedulers, checkpoints and all else that knows an optimizer work.
    `step()` costs what the base costs. `step(closure)` may look: where the loss has stopped falling, budget permitting,
    it seeks a direction of negative curvature on the batch at hand, with gradients only and without a trace. A
    candidate is then measured on the next batches, a step along it is tried on the ones after, and made if the loss
    falls. See `policy` for the rules and docs/optimizer.md for what they were measured to do.

    Args:
        optimizer: the base, an instance of any torch optimizer.
        gamma: the curvature sought, γ; by default a hundredth of the largest that is seen.
        every: steps between verdicts, at least; doubled with each verdict that leads nowhere.
        max_overhead: gradients for probing, as a share of those for training. The first probe is on credit.
        escape: whether to jump; False gives verdicts only.
        callback: called with each `Event`. Like hooks, it is not pickled or copied.
        seed: of the random starts.
        process_group: the ranks that train together, each on batches of its own. By default those that the parameters
            are sharded over, as by FSDP2, or else all that torch.distributed knows of, if it is in use.

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
    # How GradScaler talks to optimizers that unscale for themselves.
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
            raise TypeError(
                f"optimizer must be an instance of a torch optimizer, got {got}; "
                "write Neon(torch.optim.AdamW(model.parameters(), lr=1e-3))"
            )
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
            seed=checks.count(seed, "seed", at_least=0),
        )
        self.callback, self._process_group = callback, process_group
        self._prober = Prober(self.rules, policy.State())
        self._find_ranks()  # Tells now what could not be probed later.
        self._become_optimizer()

    def _become_optimizer(self) -> None:
        """What `Optimizer.__init__` does beyond making groups and state, which are the base's."""
        for name in HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    def _parameters(self) -> FlatParameters:
        names = [name for group in self.param_groups for name in group.get("param_names", ())]
        tensors = [p for group in self.param_groups for p in group["params"]]
        return FlatParameters(zip(names, tensors, strict=True) if names else tensors)

    def _find_ranks(self) -> None:
        group = self._process_group
        if group is None and dist.is_available() and dist.is_initialized():
            group = dist.group.WORLD
        self._ranks = ranks.of_parameters(self._parameters().tensors, group)

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
        """Whether to look now, by wait, budget and, where losses are known, plateau; for loops that probe by hand."""
        state = self._prober.state
        on_time = policy.waited(state, self.rules) and policy.affordable(state, self.rules)
        return on_time and (not state.losses or policy.plateau(state, self.rules))

    @property
    def overhead(self) -> float:
        """Gradients spent on probing over those spent on training."""
        return self._prober.state.spent / max(1, self._prober.state.trained)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """One step of the base. With a closure, a look at the curvature where the policy has it.

        Args:
            closure: sets gradients to zero, computes the loss, calls backward, returns the loss; for one batch, the
                same in every call.

        Returns:
            What the base returns, the loss.
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
        """Look now, whatever the budget says.

        Args:
            target: an objective over the model that is trained, which draws its own fresh samples and so gives a
                verdict at once; or a closure, as for `step`. With a closure the answer may be "candidate": pass one
                with another batch, or go on with `step(closure)`, until there is a verdict.
            samples: |S| for an objective; None for everything.

        Returns:
            The event. A verdict is also among `events`; a candidate is not.
        """
        if isinstance(target, Objective) and not isinstance(target, ClosureObjective):
            trained = [p for group in self.param_groups for p in group["params"]]
            event = decide(target, trained, self._prober.state, self.rules, samples)
            return self._report(event)
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
        return self._report(self._prober.advance(closure, self._parameters(), fresh=fresh))

    def _report(self, event: Event) -> Event:
        if event.escaped and isinstance(self.base, torch.optim.LBFGS):
            self.base.state.clear()  # Its memory is of differences along a path that the jump has left.
        if self.callback is not None and not event.pending:
            self.callback(event)
        return event

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The base's."""
        self.base.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """The base's. A candidate that waits for fresh batches is forgotten: it was one of the old parameters."""
        self.base.add_param_group(param_group)
        self._find_ranks()
        self._prober.forget()

    def state_dict(self) -> dict[str, Any]:
        """The base's, and Neon's own under "neon": where it is in its policy, so that a run goes on bit for bit."""
        for pre_hook in self._optimizer_state_dict_pre_hooks.values():
            pre_hook(self)
        packed = self.base.state_dict() | {OWN_STATE: self._prober.state.to_dict()}
        for post_hook in self._optimizer_state_dict_post_hooks.values():
            packed = post_hook(self, packed) or packed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` gave, Neon's or that of the base alone, after which Neon starts afresh."""
        state_dict = dict(state_dict)
        for pre_hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = pre_hook(self, state_dict) or state_dict
        own = state_dict.get(OWN_STATE, {})
        state = policy.State.from_dict(own)
        self.base.load_state_dict({key: value for key, value in state_dict.items() if key != OWN_STATE})
        if state.direction is not None:
            flat = self._parameters()
            state.direction = state.direction.to(device=flat.device, dtype=flat.dtype)
        self._prober = Prober(self.rules, state)
        for post_hook in self._optimizer_load_state_dict_post_hooks.values():
            post_hook(self)

    def sharded_state(self) -> ShardedState:
        """Neon's own state for `torch.distributed.checkpoint`, to be saved and loaded beside that of the base."""

        def replace(state: policy.State) -> None:
            self._prober = Prober(self.rules, state)

        return ShardedState(self._parameters(), self._prober.state, replace)

    def __getstate__(self) -> dict[str, Any]:
        return {"base": self.base, "rules": self.rules, "state": self._prober.state.to_dict()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.base, self.rules, self.callback, self._process_group = saved["base"], saved["rules"], None, None
        self._prober = Prober(self.rules, policy.State.from_dict(saved["state"]))
        self._find_ranks()
        self._become_optimizer()

    def __getattr__(self, name: str) -> Any:
        """What only the base has, the train() and eval() of schedule-free ones for instance."""
        if name.startswith("__") or "base" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.base, name)

    def __repr__(self) -> str:
        rules = self.rules
        return (
            f"Neon({self.base!r}, gamma={rules.gamma}, every={rules.every}, max_overhead={rules.max_overhead}, "
            f"escape={rules.escape})"
        )


class _Counted:
    """The closure as the base calls it: each call is counted, and the first one is watched for a backward."""

    def __init__(self, closure: Closure, watched: list[dict[str, Any]] | None) -> None:
        self._closure, self.calls = closure, 0
        self._watched = None if watched is None else [p for group in watched for p in group["params"]]

    def __call__(self) -> Any:
        # The tensors themselves are held, since a new one may get the address of one that is gone.
        before = None if self._watched is None else [(p.grad, _version(p.grad)) for p in self._watched]
        with torch.enable_grad():
            loss = self._closure()
        if before is not None and self._watched is not None:
            after = [(p.grad, _version(p.grad)) for p in self._watched]
            if all(a is b and i == j for (a, i), (b, j) in zip(before, after, strict=True)):
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


def _version(grad: Tensor | None) -> int:
    return -1 if grad is None else grad._version
