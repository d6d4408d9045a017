"""Gradients that backward adds directly to the caller's vector."""

from __future__ import annotations

from torch import Tensor

from unsaddle.objectives.model.parameters import FlatParameters


class AddedUp:
    """Makes each parameter's `.grad` a view of its part of `out`, so that backward adds to `out` in place.

    Only torch's own accumulation may write to `.grad`: `distributed.is_wrapped` finds models where others do.

    >>> import torch
    >>> layer, out = torch.nn.Linear(2, 1), torch.tensor([10.0, 20.0, 30.0])
    >>> added = AddedUp(FlatParameters(layer.named_parameters()), out)
    >>> layer(torch.tensor([1.0, 2.0])).sum().backward()
    >>> out.tolist(), added.anything, added.replaced()
    ([11.0, 22.0, 31.0], True, [])
    """

    def __init__(self, flat: FlatParameters, out: Tensor) -> None:
        self._flat, self._out = flat, out
        self._parts = [part for _, part in flat.pieces(out)]
        for parameter, part in zip(flat.tensors, self._parts, strict=True):
            parameter.grad = part
        self._version = out._version

    @property
    def anything(self) -> bool:
        return self._out._version != self._version

    def replaced(self) -> list[str]:
        """Names of the parameters whose `.grad` is no longer the view of `out`."""
        named = zip(self._flat.names, self._flat.tensors, self._parts, strict=True)
        return [name for name, parameter, part in named if parameter.grad is not part]
