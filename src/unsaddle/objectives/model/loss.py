"""What a loss has to be: called as `loss(model, batch)`, the mean over the rows of the batch."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from torch import nn

from unsaddle.objectives import derivatives

MODELS = ("model", "net", "network", "module")
"""Names of a model. A second argument of such a name was meant to come first."""

TAKES = "The loss is called as loss(model, batch), in this order, and has to take such a batch."
"""Added to an error that is raised inside of the loss."""

LISTED = (
    "data is a list, and each of its elements is taken as a batch, with a row for each sample. For a list of samples "
    "pass a DataLoader of it."
)
"""Added to an error of the loss, and to that on what it returns."""

ROWS, ADDS_UP = 8, 0.02
"""Rows whose loss is compared with those of their halves. A mean is half of the sum of these two; a sum is all of it,
up to this share, which dropout and the like may change."""

SUMMED = (
    "the loss seems to be a sum over the rows of a batch, not their mean: on {rows} rows it is {whole:.4g}, on their "
    "halves {first:.4g} and {second:.4g}. F, its curvature and its fall then grow with the size of the batches. Use "
    "reduction='mean', or divide by the number of rows"
)


def check(loss: Any) -> None:
    """Raises a TypeError if the loss cannot be called as loss(model, batch)."""
    derivatives.check_callable(loss, "loss")
    if getattr(loss, "__module__", "") in ("torch.nn.modules.loss", "torch.nn.functional"):
        name = getattr(loss, "__name__", f"nn.{type(loss).__name__}()")
        raise TypeError(
            f"loss is called as loss(model, batch), got {name}, which takes outputs and targets; write "
            f"lambda model, batch: {name}(model(batch[0]), batch[1])"
        )
    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):
        return  # Some built-in functions have no signature.
    try:
        first, second = list(signature.bind(None, None).arguments)[:2]
    except TypeError:
        raise TypeError(
            f"loss is called as loss(model, batch), got one that takes {signature}; unpack the batch inside it, as in "
            "lambda model, batch: loss(model(batch[0]), batch[1])"
        ) from None
    except ValueError:
        return  # It takes *arguments.
    if second in MODELS and first not in MODELS:
        raise TypeError(
            f"loss is called as loss(model, batch), got one that takes {signature}, with the model second; swap its "
            "arguments, as in lambda model, batch: loss(batch, model)"
        )


def sum_told(loss: Any, value: Callable[[slice], float], rows: int) -> str:
    """Says that the loss adds up the rows of a batch, where it does; else empty.

    Args:
        loss: it is evaluated only if its code mentions a sum, as few do.
        value: the loss of a slice of the data.
        rows: the most that go through the model at once.
    """
    half = min(ROWS, rows) // 2
    if half < 2 or not _mentions_sum(loss):
        return ""
    try:
        whole, first, second = (value(part) for part in (slice(2 * half), slice(half), slice(half, 2 * half)))
    except Exception:  # It takes batches of one size only, say. If it is broken, its first use says so.
        return ""
    told = SUMMED.format(whole=whole, rows=2 * half, first=first, second=second)
    adds_up = first * second > 0.0 and math.isclose(whole, first + second, rel_tol=ADDS_UP)
    return told if adds_up else ""


def _mentions_sum(loss: Any, depth: int = 3) -> bool:
    """Whether the code of the loss, or what it calls by name, has the word "sum" in it, as `.sum()` or `reduction=`."""
    if isinstance(loss, functools.partial):
        return "sum" in loss.keywords.values() or _mentions_sum(loss.func, depth)
    if isinstance(loss, nn.Module):
        return getattr(loss, "reduction", "") == "sum" or _mentions_sum(type(loss).forward, depth)
    loss = inspect.unwrap(getattr(loss, "__func__", loss)) if callable(loss) else None
    code = getattr(loss, "__code__", None)
    if code is None or depth == 0 or str(loss.__module__).startswith("torch"):
        return False
    names = {name for part in _codes(code) for name in (*part.co_names, *part.co_consts) if isinstance(name, str)}
    held = {name: loss.__globals__[name] for name in names & loss.__globals__.keys()}
    with contextlib.suppress(ValueError):  # A name that has no value yet.
        held |= {name: cell.cell_contents for name, cell in zip(code.co_freevars, loss.__closure__ or (), strict=True)}
    return "sum" in names or any(_mentions_sum(other, depth - 1) for other in held.values())


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those that are written inside of it."""
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _codes(part)
