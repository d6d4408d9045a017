"""The losses of the first seed over training steps, for `benchmarks.staircases`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"bare": "#999999", "kick": "#d9a441", "neon": "#1f4e8c"}
LABELS = {"bare": "bare", "kick": "best of nine kicks", "neon": "Neon"}


def figure(path: Path, panels: dict[str, dict[tuple[str, str], Any]], every: int) -> None:
    """A column for each problem, a row for each optimizer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    optimizers = list(dict.fromkeys(name for runs in panels.values() for name, _ in runs))
    size = (2.4 * len(panels), 1.8 * len(optimizers))
    fig, axes = plt.subplots(len(optimizers), len(panels), figsize=size, squeeze=False, layout="constrained")
    for column, (problem, runs) in enumerate(panels.items()):
        for row, optimizer in enumerate(optimizers):
            ax = axes[row][column]
            for way, label in LABELS.items():
                losses = runs[optimizer, way].losses
                steps = [every * (i + 1) for i in range(len(losses))]
                ax.semilogy(steps, losses, color=COLOURS[way], lw=1.8 if way == "neon" else 1.2, label=label)
            ax.tick_params(labelsize=7)
            ax.spines[["top", "right"]].set_visible(False)
            if row == 0:
                ax.set_title(problem, fontsize=8)
            if column == 0:
                ax.set_ylabel(f"loss, {optimizer}", fontsize=7)
            if row == len(optimizers) - 1:
                ax.set_xlabel("step", fontsize=7)
    axes[0][0].legend(fontsize=6, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(fig)
    print(f"figure: {path}, {path.stat().st_size / 1024:.0f} KB")
