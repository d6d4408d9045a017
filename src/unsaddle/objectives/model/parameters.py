"""A model's trainable parameters as one flat vector, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.objective import BaseObjective
from unsaddle.ranks import local

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
        self._sizes = [local(parameter).numel() for parameter in self.tensors]
        self._remembered: Tensor | None = None

    def _check(self) -> None:
        if not self.tensors:
            raise ValueError(
                "there is no parameter that requires a gradient; call requires_grad_() on those to be probed, and look "
                "at the filter if there is one"
            )
        first = self.tensors[0]
        for name, parameter in zip(self.names, self.tensors, strict=True):
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
        parts = torch.split(x.detach(), self._sizes)
        for parameter, part in zip(map(local, self.tensors), parts, strict=True):
            yield parameter, part.view(parameter.shape)

    def point(self) -> Tensor:
        """The current parameters in a new vector."""
        x = torch.empty(self.dimension, dtype=self.dtype, device=self.device)
        for parameter, part in self.pieces(x):
            part.copy_(parameter)
        return x

    def remembered(self) -> Tensor:
        """The current parameters: to save memory, the same vector each time, as long as they do not change."""
        if self._remembered is None or not self.is_at(self._remembered):
            self._remembered = None  # Frees the memory for the next one.
            self._remembered = self.point()
        return self._remembered

    def forget(self) -> None:
        """Free the vector of `remembered`."""
        self._remembered = None

    def is_at(self, x: Tensor) -> bool:
        """Whether the parameters equal `x`, bit for bit."""
        return not self.differing(x)

    def differing(self, x: Tensor) -> list[str]:
        """Names of the parameters that differ from `x` in any bit."""
        pairs = zip(self.names, self.pieces(x), strict=True)
        return [name for name, (parameter, part) in pairs if not same_bits(parameter, part)]

    def assign(self, x: Tensor, u: Tensor | None = None, scale: float = 1.0) -> None:
        """Copy `x`, or x + scale·u, into the parameters."""
        if x.shape != (self.dimension,):
            raise ValueError(f"x must have one entry a parameter, ({self.dimension},), got {tuple(x.shape)}")
        if x.dtype != self.dtype or x.device != self.device:
            raise TypeError(
                f"x is {x.dtype} on {x.device}, but the parameters are {self.dtype} on {self.device}; "
                "convert one of them with .to(...)"
            )
        if u is None:
            for parameter, part in self.pieces(x):
                parameter.copy_(part)
            return
        u = checks.vector_like(u, x, "u")
        for (parameter, part), (_, step) in zip(self.pieces(x), self.pieces(u), strict=True):
            torch.add(part, step, alpha=scale, out=parameter)

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
        g = torch.empty(self.dimension, dtype=self.dtype, device=self.device)
        for parameter, (_, part) in zip(self.tensors, self.pieces(g), strict=True):
            grad = parameter.grad
            if grad is None:
                part.zero_()
            elif grad.layout is torch.strided:
                part.copy_(local(grad))
            else:
                part.zero_().add_(grad.detach())
            if release:
                parameter.grad = grad = None
        return g


class OverParameters(BaseObjective):
    """An objective whose x is the parameters of a model."""

    parameters: FlatParameters

    @property
    def point(self) -> Tensor:
        """The current parameters as one vector. Do not write to it; copy it."""
        return self.parameters.remembered()

    def assign(self, x: Tensor) -> None:
        self.parameters.assign(checks.point(x))
