"""What `minimize` was asked for, and the settings of methods, which check themselves."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from unsaddle import checks

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `minimize` was asked for, as its methods read it."""

    eps: float
    """ε. nan if it follows L1 and L1 is not measured yet."""
    eps_follows_smoothness: bool = False
    """Whether ε is `theory.quadratics.stationary_gradient` of the measured L1."""
    gamma: float | None
    """γ. None for a hundredth of L1."""
    delta: float
    extractor: str
    theory: bool
    """Take constants from the theorems instead of measuring them."""
    method_settings: Mapping[str, Any]
    """Settings of the method, as the caller gave them. `settings_from` reads them."""


def setting_names(kind: type) -> tuple[str, ...]:
    """The names of all settings in a dataclass."""
    return tuple(field.name for field in fields(kind) if field.init)


def settings_from(kind: type[S], given: Mapping[str, Any], **defaults: Any) -> S:
    """A settings dataclass: the caller's values, and the defaults for the others."""
    return kind(**(defaults | dict(given)))


def refuse_impossible(kind: type, given: Mapping[str, Any]) -> None:
    """Raises for a wrong setting before any evaluation, while the defaults of the others are still to be measured.

    A setting without a value is taken to be 1, which is valid for every setting of a method.
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
    """Raises unless `positive` settings are finite numbers > 0 and `counts` integers ≥ 1. None passes: not given.

    The positive ones become floats: torch takes no integer beyond 2⁶³.
    """
    for name in positive:
        if (value := getattr(settings, name)) is not None:
            object.__setattr__(settings, name, checks.positive(value, name, hint))
    for name in counts:
        if (value := getattr(settings, name)) is not None:
            checks.count(value, name)


def refuse_unknown(
    given: Mapping[str, Any], known: Sequence[str], takes: str = "this method takes", elsewhere: Sequence[str] = ()
) -> None:
    """Raises for a name that is not known. The message suggests a similar one, of those known or known elsewhere."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        near = difflib.get_close_matches(unknown[0], (*known, *elsewhere), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"unknown setting {unknown[0]!r}; {takes} {', '.join(known) or 'none'}{hint}")
