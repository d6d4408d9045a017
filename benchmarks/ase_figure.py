"""The pictures of docs/molecules.md: a mode with the energy along it, and force calls of checks beside vibrations.

python -m benchmarks.ase_saddles --only molecules --out out/ase.jsonl
python -m benchmarks.ase_figure --rows out/ase.jsonl --figures docs/figures
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms
from ase.data import covalent_radii
from ase.data.colors import jmol_colors

from benchmarks.ase_molecules import SYMMETRIC, calculator, relaxed
from unsaddle.interop.ase import is_minimum
from unsaddle.pictures import BLUE, MEASURED, PREDICTED, VERMILION

SHOWN = ("ammonia, flat", "ethane, eclipsed", "cyclohexane, flat")
VIEWS = {"ammonia, flat": (-70, 20), "ethane, eclipsed": (-75, 35), "cyclohexane, flat": (-65, 15)}
"""Degrees about x, then about y."""
COLOURS = {"minimum": BLUE, "saddle": VERMILION}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, help="rows of ase_saddles --only molecules; without, only modes are drawn")
    parser.add_argument("--cache", type=Path, default=Path("out/ase"), help="that of ase_saddles")
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"), help="where to write")
    arguments = parser.parse_args()
    arguments.figures.mkdir(parents=True, exist_ok=True)
    modes(arguments.cache, arguments.figures / "molecules-modes.png")
    if arguments.rows is not None:
        rows = [json.loads(line) for line in arguments.rows.read_text().splitlines()]
        calls(rows, arguments.figures / "molecules-calls.png")
    return 0


def modes(cache: Path, file: Path) -> None:
    """Three saddles: the atoms with the motion as arrows, and the energy along it."""
    plt = _pyplot()
    figure, axes = plt.subplots(2, len(SHOWN), figsize=(9.0, 4.6), layout="constrained")
    for (above, below), name in zip(axes.T, SHOWN, strict=True):
        known = relaxed(name, SYMMETRIC[name], cache)
        assert known is not None
        atoms = known[0]
        atoms.calc = calculator()
        verdict = is_minimum(atoms)
        assert verdict.mode is not None
        molecule(above, atoms, verdict.mode, VIEWS[name])
        above.set_axis_off()
        above.set_title(f"{name}\n{abs(verdict.frequency):.0f}i cm⁻¹", fontsize=9)
        drawn = verdict.plot().axes[0]
        for line, style in zip(drawn.get_lines()[:2], ("-", "--"), strict=True):
            below.plot(*line.get_data(), style, color=MEASURED if style == "-" else PREDICTED, lw=1.2)
        below.set_ylim(*_limits(drawn.get_lines()[0].get_ydata()))
        below.set_xlabel("displacement, Å", fontsize=8)
        _plain(below)
    axes[1][0].set_ylabel("energy, meV", fontsize=8)
    figure.savefig(file, dpi=110)
    print(f"{file}, {file.stat().st_size / 1024:.0f} KB")


def molecule(axes: Any, atoms: Atoms, mode: Any, view: tuple[float, float]) -> None:
    """Atoms and bonds from one side, with the motion as arrows."""
    turned = atoms.copy()
    turned.positions -= turned.positions.mean(axis=0)
    ends = turned.copy()
    ends.positions += 0.8 / np.linalg.norm(mode, axis=1).max() * mode
    for frame in (turned, ends):
        frame.rotate(view[0], "x")
        frame.rotate(view[1], "y")
    x, y, depth = turned.positions.T
    radii = covalent_radii[atoms.numbers]
    near = turned.get_all_distances() < 1.2 * (radii[:, None] + radii[None])
    for i, j in zip(*np.nonzero(np.triu(near, 1)), strict=True):
        axes.plot(x[[i, j]], y[[i, j]], color="#aaaaaa", lw=2.5, zorder=depth[[i, j]].mean())
    for i in range(len(atoms)):
        colour = jmol_colors[atoms.numbers[i]]
        axes.scatter(x[i], y[i], s=300 * radii[i], color=colour, edgecolors="#444444", linewidths=0.6, zorder=depth[i])
    along = (ends.positions - turned.positions).T
    how = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.008, "color": VERMILION, "zorder": 100}
    axes.quiver(x, y, along[0], along[1], **how)
    axes.set_aspect("equal")
    axes.margins(0.25)


def calls(rows: list[dict[str, Any]], file: Path) -> None:
    """Force calls of each check against those of a vibrational analysis."""
    plt = _pyplot()
    seen = [row for row in rows if "vibration_calls" in row and "structure" in row["settings"] and "lowest" in row]
    figure, axes = plt.subplots(figsize=(5.0, 3.4), layout="constrained")
    for kind, colour in COLOURS.items():
        of_kind = [row for row in seen if row["status"] == kind]
        x, y = [row["vibration_calls"] for row in of_kind], [row["calls"] for row in of_kind]
        axes.plot(x, y, "o", color=colour, ms=3, alpha=0.6, label=f"{kind} ({len(of_kind)})")
    most = max(row["vibration_calls"] for row in seen)
    axes.plot([0, most], [0, most], color="#999999", lw=0.8)
    axes.annotate("vibrations, 6N", (0.62 * most, 0.68 * most), fontsize=8, color="#777777", rotation=33)
    axes.set_xlabel("force calls of a vibrational analysis", fontsize=8)
    axes.set_ylabel("force calls of the check", fontsize=8)
    axes.legend(frameon=False, fontsize=8)
    _plain(axes)
    figure.savefig(file, dpi=110)
    print(f"{file}, {file.stat().st_size / 1024:.0f} KB, {len(seen)} structures")


def _limits(values: Any) -> tuple[float, float]:
    low, high = float(np.min(values)), float(np.max(values))
    return low - 0.15 * (high - low), high + 0.15 * (high - low)


def _plain(axes: Any) -> None:
    axes.tick_params(labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


if __name__ == "__main__":
    raise SystemExit(main())
