"""Objectives that cannot be computed in float64: what float32 alone tells of them."""

from __future__ import annotations

from unsaddle.objective import Forwarding


class InFloat32(Forwarding):
    """Forwards to an objective, but not its copy in float64."""

    @property
    def doubles(self) -> bool:
        return False
