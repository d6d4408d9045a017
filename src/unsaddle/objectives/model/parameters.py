"""A model's trainable parameters as one flat vector, and back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from unsaddle import checks, vectors
from unsaddle.objective import BaseObjective
from unsaddle.ranks import is_sharded, local, together

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer dtypes by width in bytes."""


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two dense tensors are equal bit for bit: −0 is not 0, and a NaN equals itself."""
    bits = BITS.get(a.element_size())
    return torch.equal(a, b) if bits is None else torch.equal(a.view(bits), b.view(bits))


class FlatParameters:
    """The trainable ones of `parameters`, or of (name, parameter) pairs, as one vector: in order, tied ones once.

    `assign` copies into the parameters' own memory, so that an optimizer, a compiled graph or a CUDA graph sees the
    change. It leaves their version counters: an autograd graph built before stays valid if the values are restored.
    For sharded parameters (DTensors), the vector is this rank's part.

    >>> layer = torch.nn.Linear(2, 1)
    >>> flat = FlatParameters(layer.named_parameters())
    >>> flat.assign(torch.tensor([1.0, 2.0, 3.0]))
    >>> layer.weight.tolist(), layer.bias.tolist(), flat.names
    ([[1.0, 2.0]], [3.0], ('weight', 'bias'))
    """

    def __init__(self, parameters: Iterable[Tensor] | Iterable[tuple[str, Tensor]]) -> None:
        named: dict[int, tuple[str, Tensor]] = {}
        for i, item in enumerate(parameters):
            name, parameter = item if isinstance(item, tuple) else (f"parameter {i}", item)
            if parameter.requires_grad:
                named.setdefault(id(parameter), (name, parameter))
        self.names = tuple(name for name, _ in named.values())
        self.tensors = tuple(parameter for _, parameter in named.values())
        self._check()
        self._any_sharded = any(map(is_sharded, self.tensors))
        self._sizes = [parameter.numel() for parameter in self._own()]
        self._runs = _runs(self._sizes, vectors.BLOCK_BYTES // self.tensors[0].element_size())
        self._remembered: Tensor | None = None
        self._remembered_parts: tuple[Tensor, ...] = ()
        self._away = False
        self._probe: tuple[Tensor, tuple[Tensor, ...]] | None = None

    def _check(self) -> None:
        if not self.tensors:
            raise ValueError(
                "there is no parameter that requires a gradient; call requires_grad_() on those to be probed, and look "
                "at the filter if there is one"
            )
        first = self.tensors[0]
        for name, parameter in zip(self.names, self.tensors, strict=True):
            if parameter.is_complex():
                raise TypeError(
                    f"parameters must be real, got {parameter.dtype} in {name!r}; hold its real and imaginary parts as "
                    "parameters, and join them in forward with torch.complex or torch.view_as_complex"
                )
            if parameter.dtype not in checks.FLOATS:
                raise TypeError(
                    f"parameters must be float32 or float64, got {parameter.dtype} in {name!r}, which rounds small "
                    "steps away; probe copy.deepcopy(model).float(), with autocast in the loss if it was trained so"
                )
            if parameter.dtype != first.dtype or parameter.device != first.device:
                raise TypeError(
                    f"trainable parameters must share one dtype and one device, got {first.dtype} on {first.device} in "
                    f"{self.names[0]!r} and {parameter.dtype} on {parameter.device} in {name!r}; convert the model "
                    "with .to(...), or leave some of them out"
                )
            if parameter.is_meta:
                raise ValueError(f"{name!r} is on the meta device and holds no numbers; make the model on a real one")

    @property
    def dimension(self) -> int:
        """The length of the vector, on this rank."""
        return sum(self._sizes)

    @property
    def dtype(self) -> torch.dtype:
        return self.tensors[0].dtype

    @property
    def device(self) -> torch.device:
        return self.tensors[0].device

    @property
    def contiguous(self) -> bool:
        """Whether all parameters are contiguous, as their parts of the vector are."""
        return all(parameter.is_contiguous() for parameter in self.tensors)

    def pieces(self, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Each parameter's own memory, outside autograd, and its part of `x` in the same shape."""
        own = self._own()
        return zip(own, _parts(x, own), strict=True)

    def point(self) -> Tensor:
        """The current parameters in a new vector."""
        x, own = torch.empty(self.dimension, dtype=self.dtype, device=self.device), self._own()
        for which, part in self._split(x):
            part.copy_(_flat(own[which]))
        return x

    def remembered(self) -> Tensor:
        """The current parameters: to save memory, the same vector each time, as long as they do not change.

        Inside `away`: those that they will be set back to.
        """
        if self._remembered is None or not (self._away or self.is_at(self._remembered)):
            self.forget()  # Frees the memory for the next one.
            self._remembered = self.point()
            self._remembered_parts = _parts(self._remembered, self._own())
        return self._remembered

    def here(self) -> Tensor:
        """The current parameters, also inside `away`: in the vector of `remembered` if they are there."""
        home = self.remembered()
        return home if not self._away or self.is_at(home) else self.point()

    def forget(self) -> None:
        """Free the vector of `remembered`."""
        self._remembered, self._remembered_parts = None, ()

    @contextlib.contextmanager
    def away(self, home: Tensor) -> Iterator[None]:
        """Inside, the parameters move from `home`, where they are now, and nobody sets them back after each evaluation.

        A small vector is held for the points that they move to: it is added to at once, not part by part.
        """
        before = self._away, self._probe
        self._away = True
        if len(self._runs) == 1 and self._probe is None:
            probe = torch.empty_like(home)
            self._probe = probe, _parts(probe, self._own())
        try:
            yield
        finally:
            self._away, self._probe = before

    def is_at(self, x: Tensor) -> bool:
        """Whether the parameters equal `x`, bit for bit."""
        return not self.differing(x)

    def differing(self, x: Tensor) -> list[str]:
        """Names of the parameters that differ from `x` in any bit."""
        own, names = self._own(), list[str]()
        for which, part in self._split(x):
            if not same_bits(_flat(own[which]), part):
                parts = zip(self.names[which], own[which], _parts(part, own[which]), strict=True)
                names += [name for name, parameter, at in parts if not same_bits(parameter, at)]
        return names

    def assign(self, x: Tensor, u: Tensor | None = None, scale: float = 1.0) -> None:
        """Copy `x`, or x + scale·u, into the parameters."""
        if x.shape != (self.dimension,):
            raise ValueError(f"x must have one entry a parameter, ({self.dimension},), got {tuple(x.shape)}")
        if x.dtype != self.dtype or x.device != self.device:
            raise TypeError(
                f"x is {x.dtype} on {x.device}, but the parameters are {self.dtype} on {self.device}; "
                "convert one of them with .to(...)"
            )
        own = self._own()
        torch._foreach_copy_(own, self._remembered_parts if self._is_remembered(x) else _parts(x, own))
        if u is not None:
            torch._foreach_add_(own, _parts(checks.vector_like(u, x, "u"), own), alpha=scale)

    def move(self, x: Tensor, u: Tensor | None, scale: float) -> None:
        """`assign`, for parameters that were just found to be as `remembered`, which a search has as its x."""
        if self._probe is not None and u is not None and self._is_remembered(x):
            probe, parts = self._probe
            torch.add(x.detach(), checks.vector_like(u, x, "u"), alpha=scale, out=probe)
            torch._foreach_copy_(self._own(), parts)
        elif self._away or not self._is_remembered(x):
            self.assign(x, u, scale)
        elif u is not None:
            own = self._own()
            torch._foreach_add_(own, _parts(checks.vector_like(u, x, "u"), own), alpha=scale)

    def _is_remembered(self, x: Tensor) -> bool:
        home = self._remembered
        return home is not None and x.data_ptr() == home.data_ptr() and x.shape == home.shape and x.dtype == home.dtype

    def gradients(self) -> list[tuple[Tensor, Tensor, int]]:
        """(parameter, gradient, version of the gradient) of each parameter that has one."""
        return [(p, p.grad, p.grad._version) for p in self.tensors if p.grad is not None]

    @staticmethod
    def still_has(gradients: list[tuple[Tensor, Tensor, int]]) -> bool:
        """Whether the result of `gradients` is still valid: no gradient was replaced or written to."""
        return all(p.grad is grad and grad._version == version for p, grad, version in gradients)

    def has_gradient(self) -> bool:
        return any(parameter.grad is not None for parameter in self.tensors)

    def gradient(self, *, release: bool = False) -> Tensor:
        """The gradients in a new dense vector, zero where missing. `release` frees each `.grad` once it is copied."""
        if len(self._runs) == 1 and len(self.tensors) > 1:  # Their flat copy is a new vector.
            return _flat(self._gradients(self.tensors, release))
        g = torch.empty(self.dimension, dtype=self.dtype, device=self.device)
        for which, part in self._split(g):
            part.copy_(_flat(self._gradients(self.tensors[which], release)))
        return g

    @staticmethod
    def _gradients(parameters: Sequence[Tensor], release: bool) -> list[Tensor]:
        grads = [grad for p in parameters if type(grad := p.grad) is Tensor and grad.layout is torch.strided]
        if len(grads) < len(parameters):
            grads = [_dense(parameter) for parameter in parameters]
        for parameter in parameters if release else ():
            parameter.grad = None
        return grads

    def _own(self) -> list[Tensor]:
        """Each parameter's own memory, outside autograd; of a sharded one, this rank's part."""
        return list(map(local, self.tensors)) if self._any_sharded else [parameter.data for parameter in self.tensors]

    def _split(self, x: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Runs of parameters, and their part of `x`."""
        return ((which, x.detach()[entries]) for which, entries in self._runs)


def _runs(sizes: list[int], most: int) -> list[tuple[slice, slice]]:
    """Runs of neighbouring parameters, and of their entries. A run has at most `most` entries, or one parameter.

    A run is copied or compared at once: calls for each small parameter would cost more than its numbers.

    >>> [(which.stop, entries.stop) for which, entries in _runs([2, 3, 9, 1], most=5)]
    [(2, 5), (3, 14), (4, 15)]
    """
    runs, first, begin, end = list[tuple[slice, slice]](), 0, 0, 0
    for i, size in enumerate(sizes):
        if i > first and end + size - begin > most:
            runs.append((slice(first, i), slice(begin, end)))
            first, begin = i, end
        end += size
    return [*runs, (slice(first, len(sizes)), slice(begin, end))]


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors in one vector: a new one, but for a single contiguous tensor."""
    flat: Tensor = _flatten_dense_tensors(tensors)  # type: ignore[no-untyped-call]
    return flat


def _parts(x: Tensor, like: list[Tensor]) -> tuple[Tensor, ...]:
    """Views of the parts of `x` in the shapes of `like`."""
    parts: tuple[Tensor, ...] = _unflatten_dense_tensors(x.detach(), like)  # type: ignore[no-untyped-call]
    return parts


def _dense(parameter: Tensor) -> Tensor:
    """This rank's part of a parameter's gradient; zeros if there is none."""
    grad = parameter.grad
    if grad is None:
        return torch.zeros_like(local(parameter))
    return local(grad) if grad.layout is torch.strided else grad.detach().to_dense()


class OverParameters(BaseObjective):
    """An objective whose x is the parameters of a model."""

    parameters: FlatParameters

    @property
    def batch_size(self) -> int:
        """Samples that go through the model at once."""
        return 1

    @property
    def point(self) -> Tensor:
        """The current parameters as one vector. Do not write to it; copy it."""
        return self.parameters.remembered()

    def assign(self, x: Tensor) -> None:
        with together(self.ranks):  # A rank may hold no part of a small vector.
            self.parameters.assign(checks.point(x))
