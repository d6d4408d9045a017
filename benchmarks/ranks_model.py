"""What an extraction on several ranks costs: a model of a step's time and of a rank's memory.

A NEON step on p ranks is one gradient, some passes over the rank's vectors, and one message of scalars:

    t = g + h + P·a + m + c

- g: the gradient of the rank's own rows, without communication;
- h: what the wrapper itself adds, hooks and copies (FSDP2; nothing for DDP);
- P·a: `PASSES` passes over a vector of the rank's length, N for DDP and N/p for FSDP2, each as long as an axpy;
- m: an all-reduce of some scalars;
- c: the gradient's own collectives: one all-reduce of N numbers (DDP), or, layer by layer, two all-gathers and a
  reduce-scatter (FSDP2).

Nothing overlaps: where the network works while the processor does, the step is shorter.

`python -m benchmarks.ranks` measures the terms on this machine, one by one, and compares their sum with whole steps.
`python -m benchmarks.ranks_model` puts in `ACCELERATOR` instead, figures in round numbers of the kind that data sheets
give. None of them was measured, and what comes out is a prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.environment import table

PASSES = 8
"""Over a vector, in one step: four of NEON (benchmarks.step_cost) and four of ModelObjective (docs/models.md)."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Seconds of each part of a step."""

    gradient: float
    wrapper: float = 0.0
    passes: float = 0.0
    scalars: float = 0.0
    collectives: float = 0.0

    @property
    def step(self) -> float:
        return self.gradient + self.wrapper + self.passes + self.scalars + self.collectives

    @property
    def beyond_training(self) -> float:
        """The share of a step that a training step of plain SGD would not have."""
        return (self.passes + self.scalars) / self.step


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One of many accelerators and what joins them."""

    flops: float
    """A second, as reached in training."""
    memory: float
    """Bytes a second of an axpy, reads and writes together."""
    near: int
    """Accelerators in one box."""
    near_link: float
    far_link: float
    """Bytes a second out of each accelerator, within the box and between boxes."""
    hop: float
    """Seconds of one message; an all-reduce of scalars takes two for each doubling of p."""


ACCELERATOR = Machine(flops=4e14, memory=2.5e12, near=8, near_link=300e9, far_link=40e9, hop=5e-6)
TOKENS = 8192
"""That each accelerator sees in a gradient of the sample."""
FLOPS = 6
"""Of a gradient, for each parameter and token."""
FULL, SENT = 4, 2
"""Bytes of a number in a vector, and of one that is gathered or reduced."""
VECTORS = {"neon": 4, "krylov": 25}
"""Held beyond training, at most: benchmarks.model_memory, and a basis of 20 with five beside it (benchmarks.ranks)."""
GRADIENTS = 40
"""Of one verdict, about."""


def predicted(machine: Machine, parameters: float, p: int) -> Terms:
    """A step with FSDP2 on p accelerators."""
    link = machine.near_link if p <= machine.near else machine.far_link
    around = (p - 1) / p
    return Terms(
        gradient=FLOPS * parameters * TOKENS / machine.flops,
        passes=PASSES * 3 * FULL * parameters / p / machine.memory,
        scalars=2 * math.log2(p) * machine.hop,
        collectives=3 * SENT * parameters * around / link,
    )


def main() -> int:
    lines = []
    for parameters in (1e9, 1e10, 1e11):
        for p in (8, 64, 1024):
            terms = predicted(ACCELERATOR, parameters, p)
            gigabytes = {name: n * FULL * parameters / p / 1e9 for name, n in VECTORS.items()}
            lines.append(
                [
                    f"{parameters:.0e}",
                    str(p),
                    *(f"{1e3 * t:.3g}" for t in (terms.gradient, terms.collectives, terms.passes, terms.scalars)),
                    f"{100 * terms.beyond_training:.2g} %",
                    f"{GRADIENTS * terms.step:.3g}",
                    *(f"{size:.3g}" for size in gigabytes.values()),
                ]
            )
    heads = ["parameters", "p", "gradient, ms", "collectives", "passes", "scalars", "beyond training"]
    table(
        f"PREDICTED, nothing of it measured: FSDP2, {TOKENS} tokens an accelerator, {ACCELERATOR}",
        [*heads, f"{GRADIENTS} gradients, s", "neon, GB a rank", "krylov, GB a rank"],
        lines,
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
