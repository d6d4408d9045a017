"""Peak memory of an extraction beyond x and one gradient, in vectors of the length of x.

f(x) = Σ (x⁴/4 − x²/2), d=1e8 in float32: a vector is 0.4 GB. Each case runs in a process of its own, which makes x,
takes one gradient (in one new vector, without others), notes the peak of its resident memory (VmHWM of
/proc/self/status), frees the gradient, runs the case, and notes the peak again. The difference is what the case holds
beyond x and one gradient at its worst moment; the noise, the probe point and a previous gradient that is still alive
are all in it, and a gradient is made in new memory at each call, as autograd would.

Two kinds of cases:

- `steps`: the extractor alone, for a few steps none of which ends it; this is what is wanted to stay below the limit.
- `call`: `negative_curvature` as users call it, L1 measured and a direction found and confirmed. For comparison.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import torch

from benchmarks import separable
from benchmarks.environment import ROOT, Report, options, table
from benchmarks.extractors import EXTRACTORS
from unsaddle import negative_curvature
from unsaddle.curvature.displaced import DisplacedFunction

STEPS = 4
"""Enough for everything that a step touches to have been touched twice."""


def peak_bytes() -> int:
    """The most resident memory that this process has had. (ru_maxrss would include the parent's at the fork.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise SystemExit("this benchmark reads VmHWM from /proc/self/status, which only Linux has")


def child(case: str, name: str, dimension: int, seed: int) -> dict[str, float | str]:
    """Run one case in this process."""
    x = separable.point(dimension, seed, scale=0.05)
    f = separable.double_wells().sample()
    f.value_and_grad(x)  # Freed at once.
    before = peak_bytes()
    if case == "steps":
        EXTRACTORS[name].run(DisplacedFunction(f, x), STEPS, torch.Generator().manual_seed(seed))
        status = f"{STEPS} steps taken"
    else:
        status = negative_curvature(separable.double_wells(), x, gamma=0.5, extractor=name, seed=seed).status.name
    after = peak_bytes()
    vector = x.numel() * x.element_size()
    return {"base": before / vector, "peak": after / vector, "beyond": (after - before) / vector, "status": status}


def in_a_new_process(case: str, name: str, dimension: int, seed: int) -> dict[str, float | str]:
    command = [sys.executable, "-m", "benchmarks.memory", "--child", case, name]
    command += ["--dimension", str(dimension), "--seed", str(seed)]
    command += ["--threads", "1"]  # Bytes are the same, and on a busy machine threads would wait for each other.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        answer: dict[str, float | str] = json.loads(done.stdout)
        return answer
    last = done.stderr.strip().splitlines()[-1:] or ["no message; out of memory?"]
    return {"base": math.nan, "peak": math.nan, "beyond": math.nan, "status": f"died ({done.returncode}): {last[0]}"}


def main() -> int:
    parser = options("Peak memory of each extractor beyond x and one gradient, in vectors.")
    parser.add_argument("--dimension", type=int, default=10**8)
    parser.add_argument("--child", nargs=2, metavar=("CASE", "NAME"), help="run one case in this process (used inside)")
    arguments = parser.parse_args()
    if arguments.child:
        torch.set_num_threads(arguments.threads)
        print(json.dumps(child(*arguments.child, arguments.dimension, arguments.seed)))
        return 0
    report = Report.begin("memory", arguments)
    lines, beyond = [], {}
    for case in ("steps", "call"):
        for name in EXTRACTORS:
            result = in_a_new_process(case, name, arguments.dimension, arguments.seed)
            numbers = {key: float(result[key]) for key in ("base", "peak", "beyond")}
            lines.append([f"{name}, {case}", *(f"{number:.2f}" for number in numbers.values()), str(result["status"])])
            beyond[case, name] = numbers["beyond"]
            settings = {
                "case": case,
                "extractor": name,
                "dimension": arguments.dimension,
                "dtype": "float32",
                "threads": 1,
            }
            report.row(settings=settings, status=str(result["status"]), **numbers)
    title = f"memory: resident, in vectors of {4e-9 * arguments.dimension:.2f} GB, d={arguments.dimension:.0e}, float32"
    table(title, ["case", "x and a gradient", "peak", "beyond", "status"], lines)
    for name, extractor in EXTRACTORS.items():
        report.want(f"vectors beyond x and one gradient, {name}", beyond["steps", name], at_most=extractor.vectors)
    return report.end(arguments.out)


if __name__ == "__main__":
    raise SystemExit(main())
