"""The picture of benchmarks.healthy: loss with Neon and without, and what looks see along the way."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unsaddle import Event

WINDOW = 25
"""Steps that a point of a loss curve is the mean of."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The lowest curvature seen at one step of training."""

    step: int
    status: str
    smoothness: float
    own: float
    """On the batches that it was found on."""
    fresh: float
    """Along the same direction on fresh ones; nan where nothing was found."""
    error: float
    gradients: int

    def cells(self) -> list[str]:
        fresh = "" if math.isnan(self.fresh) else f"{self.fresh:.3g} ± {self.error:.2g}"
        return [str(self.step), self.status, f"{self.smoothness:.3g}", f"{self.own:.3g}", fresh, str(self.gradients)]


Panel = tuple[list[list[float]], list[list[float]], list[Event], list[Look]]
"""Losses of each seed without Neon and with it, Neon's events of the first seed, looks of the first seed."""


def figure(path: Path, panels: Mapping[str, Panel]) -> None:
    """One column a model: losses above, curvature below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(
        2, len(panels), figsize=(3.6 * len(panels), 4.2), squeeze=False, layout="constrained", sharex="col"
    )
    for column, (name, (bare, neon, events, looks)) in enumerate(panels.items()):
        above, below = axes[0][column], axes[1][column]
        for seed, losses in enumerate(bare):
            above.plot(*curve(losses), color="#999999", lw=2.4, label="AdamW" if seed == 0 else None)
        for seed, losses in enumerate(neon):
            above.plot(*curve(losses), color="#1f4e8c", lw=0.7, label="Neon(AdamW)" if seed == 0 else None)
        for event in events:
            above.axvline(event.step, color="#c0504d", ls=":", lw=1)
            above.annotate(event.verdict, (event.step, above.get_ylim()[1]), fontsize=6, color="#c0504d", va="top")
        above.set_yscale("log")
        above.set_title(name, fontsize=8)
        seen = [look for look in looks if not math.isnan(look.fresh)]
        steps = [look.step for look in looks]
        below.plot(
            steps, [x.own / x.smoothness for x in looks], "o", color="#999999", ms=5, label="batches it was found on"
        )
        below.errorbar(
            [look.step for look in seen],
            [look.fresh / look.smoothness for look in seen],
            yerr=[look.error / look.smoothness for look in seen],
            fmt="s", color="#1f4e8c", ms=3, lw=1, label="fresh batches",
        )  # fmt: skip
        below.axhline(0.0, color="#cccccc", lw=0.8)
        below.set_xlabel("step", fontsize=7)
        for ax in (above, below):
            ax.tick_params(labelsize=7)
            ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("training loss", fontsize=7)
    axes[1][0].set_ylabel("lowest curvature / L1", fontsize=7)
    axes[0][0].legend(fontsize=6, frameon=False)
    axes[1][0].legend(fontsize=6, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(fig)
    print(f"figure: {path}, {path.stat().st_size / 1024:.0f} KB")


def curve(losses: Sequence[float]) -> tuple[list[int], list[float]]:
    """Steps, and means over windows of them."""
    starts = range(0, len(losses), WINDOW)
    return list(starts), [statistics.fmean(losses[start : start + WINDOW]) for start in starts]
