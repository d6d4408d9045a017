"""What `minimize` was asked for, in one piece."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The question put to a method."""

    eps: float
    gamma: float | None
    """γ; None for a hundredth of L1."""
    delta: float
    extractor: str
    theory: bool
    """Constants of the theorems instead of measured ones."""
    method_settings: Mapping[str, Any]
    """Whatever else the caller gave; a method takes them with `settings_from`."""


def settings_from(kind: type[S], given: Mapping[str, Any], **defaults: Any) -> S:
    """A settings dataclass from what the caller gave and, for the rest, the defaults; unknown names are refused."""
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    refuse_unknown(given, known)
    return kind(**(defaults | dict(given)))


WORDS = ("method", "eps", "gamma", "delta", "extractor", "settings", "max_samples", "seed", "callback", "progress")
"""What `minimize` takes with every method."""


def refuse_unknown(given: Mapping[str, Any], known: Sequence[str], takes: str = "this method takes") -> None:
    """Raise if a setting has a name that nobody knows; where it looks like a slip, say of what."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        near = difflib.get_close_matches(unknown[0], (*known, *WORDS), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"unknown setting {unknown[0]!r}; {takes} {', '.join(known)}{hint}")
