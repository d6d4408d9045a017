"""A torch model, its loss and its data as an objective."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unsaddle import checks, vectors
from unsaddle.cost import Ledger
from unsaddle.objective import Oracle
from unsaddle.objectives.double import Doubled, check_keeps_nothing
from unsaddle.objectives.model import data as batches
from unsaddle.objectives.model import distributed as wrapped
from unsaddle.objectives.model import hooks, mode
from unsaddle.objectives.model import loss as losses
from unsaddle.objectives.model.parameters import FlatParameters, OverParameters
from unsaddle.objectives.model.rank_data import SharedSource
from unsaddle.objectives.model.replay import Replayed
from unsaddle.objectives.model.rng import RandomState
from unsaddle.ranks import check_seed, of_parameters, raised_on_all

NameFilter = Callable[[str], bool] | str | Iterable[str]


MOVED, ALIKE = 1e-2, 1e-4
"""A copy of a model is tried so far from x, as a share of ‖x‖, since gradients of stationary points say little. Its
gradient there is the same up to the second share."""


def _beside(x: Tensor) -> Tensor:
    """A point near x, in a random direction: where weights are zero, too."""
    v = vectors.random_direction(x, torch.Generator(device=x.device).manual_seed(0))
    return torch.add(x, v, alpha=MOVED * (vectors.norm(x) or 1.0))


def _tensors(modules: Iterable[nn.Module]) -> set[int]:
    """Which parameters and buffers these have."""
    return {id(held) for m in modules for held in (*m.parameters(), *m.buffers())}


class ModelObjective(OverParameters):
    """F(x) = mean over the data of loss(model with parameters x, batch).

    Args:
        model: any module, also compiled or with checkpointing. It runs in its current mode, train or eval.
        loss: `loss(model, batch) -> scalar`, the *mean* over the rows of the batch. A sum is warned of, if its code
            mentions one. It moves the batch to a device and enters autocast, if needed.
        data: a Dataset; a DataLoader, of which the data set, `collate_fn` and `batch_size` are used; or a list of
            batches, which are one sample each and weigh the same.
        micro_batch: the most rows that go through the model at once; by default the loader's batch size, or 128. Rows
            are split evenly, gradients add up, and batch statistics are those of a micro batch.
        parameters: names of those to vary: a pattern such as "head.*", several, or a function of the name. By default
            all that require a gradient.
        scaler: a GradScaler, for float16 gradients. Only its scale is read.
        hooks: "skip" disables gradient hooks of parameters (clipping, optimizers that step in backward); or "run".
        seed: for dropout masks and augmentation on all data (`size=None`), and for endless loaders.

    A model that is wrapped in DDP or sharded by FSDP2 (`fully_shard`) is probed by all of its ranks together. Each has
    its own rows in `data`, F is the mean over all rows, and `.point` is this rank's part of the vector. `num_samples`
    and `samples` count rows on all ranks.

    Every evaluation runs the model at another point and restores everything: parameters, `.grad`, buffers, modes,
    random states. Gradients come from `.backward()` alone. A sample is read once and kept; it fixes batches, dropout
    masks and batch statistics. All data (`size=None`) are read again at each evaluation, in their order; tensors that
    are one micro batch are kept.

    >>> from torch.utils.data import TensorDataset
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 1, bias=False))
    >>> for p in model.parameters():
    ...     _ = torch.nn.init.zeros_(p)  # A saddle: each layer hides the other.
    >>> data = TensorDataset(torch.eye(2), torch.ones(2, 1))
    >>> F = ModelObjective(model, lambda model, batch: (model(batch[0]) - batch[1]).square().mean(), data)
    >>> f = F.sample()
    >>> f.size, F.point.shape, f.grad(F.point).tolist()
    (2, torch.Size([6]), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    """

    second_order = False

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        data: Any,
        *,
        micro_batch: int | None = None,
        parameters: NameFilter | None = None,
        scaler: Any = None,
        hooks: str = "skip",
        seed: int = 0,
    ) -> None:
        if not isinstance(model, nn.Module):
            got = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
            raise TypeError(
                f"model must be a torch.nn.Module, got {got}; use unsaddle.Function for a function of a flat vector"
            )
        losses.check(loss)
        if micro_batch is not None:
            checks.count(micro_batch, "micro_batch")
        self._model, self._loss, self._scaler = model, loss, scaler
        self._skip_hooks = checks.choice(hooks, "hooks", ("skip", "run")) == "skip"
        self._seed = checks.seed(seed)
        self._modules = [m for m in (model, loss) if isinstance(m, nn.Module)]
        wrapped.reshard(wrapped.sharded(m for module in self._modules for m in module.modules()))
        self.parameters = FlatParameters(_chosen(model, parameters))
        self.ranks = of_parameters(self.parameters.tensors, wrapped.process_group(model))
        if self.ranks is not None and self.ranks.dimension is not None and not wrapped.sharded(model.modules()):
            raise ValueError(
                "parameters are sharded, but not by fully_shard; tensor-parallel models are not supported, since their "
                "forward pass needs all ranks to have the same batch"
            )
        check_seed(self.ranks, self._seed)
        with raised_on_all(self.ranks, "data"):
            own = batches.source(data, micro_batch, self._seed, shared=self.ranks is not None)
        self._listed = isinstance(own, batches.Listed)
        self._source: batches.Source | SharedSource = own
        if self.ranks is not None:
            self._source = SharedSource(own, self.ranks, lambda: self.least_samples)
        # If only autograd writes to .grad, backward can add to a vector in place.
        self._adds = scaler is None and self._skip_hooks and self.ranks is None and not wrapped.is_wrapped(model)
        self._warned = self._compared = False

    @property
    def num_samples(self) -> int | None:
        """Rows of the data set, or batches of the list; None for an endless loader."""
        return self._source.num_samples

    @property
    def least_samples(self) -> int:  # type: ignore[override]
        """2 with batch norm in training, which has no statistics of one row; else 1."""
        modules = (m for module in self._modules for m in module.modules())
        return 2 if any(isinstance(m, _BatchNorm) and m.training for m in modules) else 1

    @property
    def model_mode(self) -> str:  # type: ignore[override]
        """The mode of layers with dropout or batch norm, in words; empty if there are none."""
        return mode.mode(m for module in self._modules for m in module.modules())

    @property
    def batch_size(self) -> int:
        """Samples that go through the model at once, on all ranks together."""
        return self._source.batch_size

    @property
    def doubles(self) -> bool:
        return self.ranks is None and self._scaler is None and self._skip_hooks

    @property
    def double_size(self) -> int:
        return sum(held.numel() for m in self._modules for held in (*m.parameters(), *m.buffers()))

    def in_double(self, x: Tensor, ledger: Ledger) -> ModelObjective:
        double, given = copy.copy(self), (getattr(self._model, "_orig_mod", self._model), self._loss)
        own = copy.deepcopy(given)
        modules = [m for m in own if isinstance(m, nn.Module)]
        if not _tensors(modules).isdisjoint(_tensors(self._modules)):
            raise ValueError("a copy of the model has tensors of the model itself")
        double._model, double._loss = own
        double._modules = [*modules, *self._modules]  # Both are put back: the loss may use the model itself.
        double.parameters = FlatParameters(_chosen(own[0], self.parameters.names.__contains__))
        double._warned = double._compared = True
        at, grads = _beside(x), list[Tensor]()
        check_keeps_nothing(given, lambda: grads.append(self.sample(ledger=ledger).grad(at)))
        off = vectors.norm(double.sample(ledger=ledger).grad(at) - grads[0])
        if not off <= ALIKE * vectors.norm(grads[0]):
            raise ValueError("the gradient of a copy of the model is another one: the loss uses the model itself")
        for module in modules:
            module.double()
        double.parameters = FlatParameters(double.parameters.tensors)
        double._loss = Doubled(own[1])
        return double

    def __repr__(self) -> str:
        rows = "data without end" if self.num_samples is None else f"{self.num_samples} samples"
        return f"ModelObjective({type(self._model).__name__}, {self.parameters.dimension} parameters, {rows})"

    def _draw(self, size: int | None, generator: torch.Generator | None, replacement: bool) -> tuple[Oracle, int]:
        self._warn_of_hooks()
        self._warn_of_a_sum()
        seed = self._seed
        if size is None:
            drawn = self._source.everything()
        else:
            checks.count(size, "size")
            generator = checks.generator(generator)
            seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
            drawn = self._source.draw(size, generator, replacement, seed)
        return self._oracle(drawn, seed), drawn.size

    def _oracle(self, drawn: batches.Drawn, seed: int) -> Oracle:
        return Replayed(
            lambda backward: self._run(drawn, backward),
            self.parameters,
            self._modules,
            start=RandomState.seeded(seed + 1, {self.parameters.device}),  # Not the numbers of the augmentation.
            skip_hooks=self._skip_hooks,
            ranks=self.ranks,
            # torch warns if a gradient has other strides than its parameter.
            add=(lambda weight: self._run(drawn, True, weight)) if self._adds and self.parameters.contiguous else None,
        )

    def _run(self, drawn: batches.Drawn, backward: bool, factor: float = 1.0) -> Any:
        """The mean loss over the batches. If `backward`, adds `factor` times its gradients to `.grad`."""
        scale = 1.0 if self._scaler is None else float(self._scaler.get_scale())
        total: Any = 0.0
        with contextlib.nullcontext() if backward else torch.no_grad():
            for i, (batch, weight) in enumerate(drawn.weighted()):
                torch.clear_autocast_cache()  # It holds weights of the last point.
                versions, added = _versions(batch), self.parameters.gradients() if self._adds else []
                more = backward and i + 1 < drawn.batches
                with wrapped.without_reduction(self._model) if more else contextlib.nullcontext():
                    value = self._value(batch)
                    if _versions(batch) != versions:
                        raise ValueError(
                            "the loss changed its batch in place, so it would not be the same at the next point; have "
                            "it work on a copy"
                        )
                    if not FlatParameters.still_has(added):
                        raise ValueError(
                            "the loss changed or dropped gradients that further ones are to be added to: expected it "
                            "to leave .grad alone; take zero_grad() and backward() out of it"
                        )
                    del added
                    if backward:
                        self._differentiate(value, factor * weight * scale)
                value = value.detach() if value.dtype in checks.FLOATS else value.detach().float()
                # Of weight zero, not even NaN counts.
                total = value if weight == 1.0 else total + (value * weight if weight else torch.zeros_like(value))
                del value  # Frees its graph before the next one is built.
        if backward and scale != 1.0:
            for parameter in self.parameters.tensors:
                if parameter.grad is not None:
                    parameter.grad = parameter.grad / scale
        return total

    @staticmethod
    def _differentiate(value: Tensor, share: float) -> None:
        """Adds `share` times the gradients of a loss to `.grad`."""
        if not value.requires_grad:
            raise ValueError(
                "the loss does not depend on the parameters through autograd; look for detach(), item() or no_grad() "
                "inside it"
            )
        torch.autograd.backward(value, None if share == 1.0 else torch.full_like(value, share))

    def _value(self, batch: Any) -> Tensor:
        try:
            value = checks.called("loss", self._loss, self._model, batch, advice=losses.TAKES)
            return checks.scalar(value, "the loss", ".mean()")
        except Exception as error:
            if self._listed:
                error.add_note(losses.LISTED)
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                "batch norm in training needs at least two rows, got a batch of one; ask for more samples, use a "
                "micro_batch of at least 2, drop_last=True in a loader, or model.eval()"
            ) from error

    def _warn_of_hooks(self) -> None:
        if self._warned or not self._skip_hooks:
            return
        found = hooks.names(self._model.named_parameters())
        if found:
            self._warned = True
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            warnings.warn(
                f"gradient hooks of parameters are not run while the model is probed ({'; '.join(found[:3])}{more}), "
                "since what they make of a gradient is not the gradient of the loss; pass hooks='run' to run them",
                RuntimeWarning,
                stacklevel=4,
            )

    def _warn_of_a_sum(self) -> None:
        source = self._source
        if self._compared or not isinstance(source, batches.Rows):
            return
        self._compared = True

        def value(part: slice) -> float:
            rows = source.take(torch.arange(source.num_samples)[part], self._seed)
            return float(self._oracle(rows, self._seed).value(self.point))

        told = losses.sum_told(self._loss, value, source.batch_size)
        if told:
            warnings.warn(told, RuntimeWarning, stacklevel=4)


def _chosen(model: nn.Module, chosen: NameFilter | None) -> list[tuple[str, Tensor]]:
    """Named parameters that pass the filter. Names are without torch.compile's prefix."""
    named = [(name.replace("_orig_mod.", ""), parameter) for name, parameter in model.named_parameters()]
    if chosen is None:
        return list(named)
    if callable(chosen):
        return [(name, parameter) for name, parameter in named if chosen(name)]
    patterns = [chosen] if isinstance(chosen, str) else list(chosen)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name, _ in named):
            known = ", ".join(name for name, _ in named[:5])
            raise ValueError(f"no parameter is called {pattern!r}; there are {known}{', ...' if named[5:] else ''}")
    return [(name, p) for name, p in named if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _versions(batch: Any) -> list[int]:
    return [t._version for t in batches.tensors_in(batch) if not t.is_inference()]
