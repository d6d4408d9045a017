"""Verdicts on molecules relaxed with GFN2-xTB at tblite's default accuracy, against their full Hessians.

Wanted: every structure with λ_min < −0.02 eV/Å² a saddle, every one with λ_min > 0.02 a minimum, none undecided; force
calls at most half of those of a vibrational analysis, 6N, at the median, and never more.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from benchmarks.ase_molecules import calculator, lowest, relaxed, structures
from benchmarks.environment import Report, table
from unsaddle.interop.ase import is_minimum

CLEAR = 0.02
"""eV/Å²: between minus this and this, either verdict is right."""

HESSIAN_ERROR = 0.005, 0.01
"""By how much, and by which share of itself, the λ_min of the Hessian may be off: intervals are judged with that."""


def run(report: Report, cache: Path, names: list[str] | None = None) -> None:
    wrong, undecided, outside, shares = 0, 0, 0, list[float]()
    counts = {"set": [0, 0, 0], "symmetric": [0, 0, 0], "methyl": [0, 0, 0]}
    lines = []
    for family, name, make in structures():
        if names and name not in names:
            continue
        known = relaxed(name, make, cache)
        if known is None:
            print(f"  left out, since BFGS did not converge: {name}")
            continue
        atoms, matrix = known
        low, high = lowest(atoms, matrix)
        atoms.calc = calculator()
        atoms.get_forces()
        atoms.calc.calls = 0
        verdict = is_minimum(atoms, seed=report.seed)
        calls, most = max(verdict.cost.gradients, atoms.calc.calls), 6 * len(atoms)
        truth = "saddle" if low < -CLEAR else "minimum" if low > CLEAR else "either"
        counts[family][("saddle", "minimum", "either").index(truth)] += 1
        is_undecided = verdict.kind not in ("saddle", "minimum")
        is_wrong = not is_undecided and truth not in ("either", verdict.kind)
        slack = HESSIAN_ERROR[0] + HESSIAN_ERROR[1] * abs(low)
        is_outside = low < -verdict.bound - slack or (verdict.kind == "minimum" and low > verdict.interval[1] + slack)
        wrong, undecided, outside = wrong + is_wrong, undecided + is_undecided, outside + is_outside
        shares.append(calls / most)
        if is_wrong or is_undecided or is_outside or truth != "minimum":
            fall = f"{1e3 * verdict.drop:.1f}" if verdict.kind == "saddle" else ""
            wave = f"{verdict.frequency:.0f}"
            lines.append([name, str(len(atoms)), f"{low:.4f}", verdict.kind, f"{verdict.curvature:.4f}", wave, fall])
            lines[-1] += [str(calls), str(most)]
        report.row(
            settings={"structure": name, "family": family, "method": "GFN2-xTB"},
            status=str(verdict.kind),
            atoms=len(atoms),
            lowest=low,
            highest=high,
            truth=truth,
            curvature=verdict.curvature,
            interval=verdict.interval,
            bound=verdict.bound,
            frequency=verdict.frequency,
            drop=verdict.drop,
            calls=calls,
            vibration_calls=most,
        )
    heads = ["not a clear minimum", "atoms", "λ_min", "verdict", "eV/Å²", "cm⁻¹", "meV", "calls", "6N"]
    table("Molecules, GFN2-xTB at its default accuracy", heads, lines)
    rows = [[family, *map(str, numbers)] for family, numbers in counts.items()]
    table("True Hessians", ["family", "saddles", "minima", "between"], rows)
    largest = [share for share in shares if share > 0.5]
    print(f"  {len(shares)} structures; more than half of 6N: {len(largest)}")
    report.want("wrong verdicts", wrong, at_most=0)
    report.want("undecided", undecided, at_most=0)
    report.want("bounds and intervals that the Hessian contradicts", outside, at_most=0)
    report.want("force calls over 6N, median", statistics.median(shares), at_most=0.5)
    report.want("force calls over 6N, largest", max(shares), at_most=1.0)
    if not names:
        saddles = counts["symmetric"][0] + counts["methyl"][0]
        report.want("structures of others' sets", sum(counts["set"]), at_least=80, at_most=1e9)
        report.want("saddles among the symmetric ones", saddles, at_least=20, at_most=1e9)
