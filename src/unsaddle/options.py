"""What `minimize` was asked for, in one piece."""

from __future__ import annotations

from collections.abc import Mapping
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
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"unknown setting {unknown[0]!r}; this method takes {', '.join(known)}")
    return kind(**(defaults | dict(given)))
