"""What `minimize` was asked for, in one piece, and settings that check themselves."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from unsaddle import checks

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The question put to a method."""

    eps: float
    """ε; nan where it follows L1 and that is not measured yet."""
    eps_follows_smoothness: bool = False
    """Whether ε is `theory.quadratics.stationary_gradient` of L1 as it is measured."""
    gamma: float | None
    """γ; None for a hundredth of L1."""
    delta: float
    extractor: str
    theory: bool
    """Constants of the theorems instead of measured ones."""
    method_settings: Mapping[str, Any]
    """Whatever else the caller gave; a method takes them with `settings_from`."""


def setting_names(kind: type) -> tuple[str, ...]:
    """The settings of a dataclass: all that it is made with."""
    return tuple(field.name for field in fields(kind) if field.init)


def settings_from(kind: type[S], given: Mapping[str, Any], **defaults: Any) -> S:
    """A settings dataclass from what the caller gave and, for the rest, the defaults."""
    return kind(**(defaults | dict(given)))


def refuse_impossible(kind: type, given: Mapping[str, Any]) -> None:
    """Raise what the settings raise, before the defaults of the rest are known, which may have to be measured.

    Whatever has no default is taken to be 1, which any setting of a method can be.
    """
    required = [f.name for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]
    settings_from(kind, given, **dict.fromkeys(required, 1))


def check_settings(
    settings: Any,
    *,
    positive: Sequence[str] = (),
    counts: Sequence[str] = (),
    hint: str = "leave it out to have it chosen",
) -> None:
    """Check the settings with these names: finite numbers > 0, or integers of at least 1. None passes: not given."""
    for name in positive:
        if (value := getattr(settings, name)) is not None:
            checks.positive(value, name, hint)
    for name in counts:
        if (value := getattr(settings, name)) is not None:
            checks.count(value, name)


def refuse_unknown(
    given: Mapping[str, Any], known: Sequence[str], takes: str = "this method takes", elsewhere: Sequence[str] = ()
) -> None:
    """Raise if a setting has a name that is not known; if it is near to one that is, here or elsewhere, say so."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        near = difflib.get_close_matches(unknown[0], (*known, *elsewhere), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"unknown setting {unknown[0]!r}; {takes} {', '.join(known) or 'none'}{hint}")
