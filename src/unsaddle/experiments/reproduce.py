"""The paper's simulation: Figure 1 (a), (b) and the four pairs of the supplement, one target x ~ N(0, I) a pair.

F(x) = Σ x²/(1+x²) + (λ/n) Σ (b − σ(xᵀa))², λ = 3, step size and noise radius η = r = 0.01, momentum ζ = 0.9. Each
method starts from the same direction at the same target; at chosen iterations the curvature uᵀHu/‖u‖² of its iterate is
measured with the Hessian H of the full data, which is not counted.

The paper leaves settings open (E30). NCFind uses γ = 1, which ζ = 1 − √(ηγ) implies. U and 𝓕 end no curve, and NCFind
does not end NEON⁺. A separate run measures at which τ NCFind, as printed and with 𝓕 = ∞, would have ended it, and the
curvature of y_τ − u_τ, which it then returns, and of y_τ. A method on samples draws 100 rows once, and keeps them for
the whole run.

Beyond the paper: NEON and NEON⁺ with noise a hundred times shorter, and krylov.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.cost import Ledger
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.attempts import NOISE_SHARE
from unsaddle.curvature.krylov.certificate import KrylovSettings, krylov
from unsaddle.curvature.krylov.lanczos import LanczosSettings, lanczos
from unsaddle.curvature.neon import neon
from unsaddle.curvature.neon_plus import neon_plus
from unsaddle.curvature.neon_settings import NeonPlusSettings, NeonSettings
from unsaddle.curvature.power import PowerSettings, power, second_order
from unsaddle.curvature.result import Candidate
from unsaddle.curvature.search import Observer
from unsaddle.experiments import data, harness
from unsaddle.experiments.rows import Row
from unsaddle.measure import noise
from unsaddle.objective import Objective
from unsaddle.problems import sigmoid_least_squares
from unsaddle.problems.problem import Problem

EXPERIMENT = "reproduce"
PENALTY, STEP_SIZE, NOISE_RADIUS, MOMENTUM, GAMMA = 3.0, 0.01, 0.01, 0.9, 1.0
"""λ, η, r, ζ of the paper, and the γ that they imply."""
NCFIND_DECREASE = math.inf
"""𝓕 of NCFind, which the paper does not give. No step is then long enough for a y_j: NCFind returns y_τ − u_τ."""
SHORT_NOISE = 1e-4
"""r of the curves beyond the paper: so short that F̂ stays quadratic until NEON has converged."""
SUBSAMPLE = 100
TARGETS = 5
"""Figure 1, and four pairs in the supplement."""
ITERATIONS = 1000
KRYLOV_STEPS = 80
"""Steps of Lanczos, and the most of krylov. After so many, Lanczos' lowest Ritz value is the lowest eigenvalue."""
START_SEED = 1_000_003
"""Added to the seed of a target: with the same seed, the start would have the direction of the target."""

METHODS: dict[str, dict[str, Any]] = {
    "lanczos": {"share": 0.0},
    "power": {"share": 1.0},
    "neon": {"share": 1.0, "noise_radius": NOISE_RADIUS},
    "neon+": {"share": 0.3, "noise_radius": NOISE_RADIUS},
    "neon-st": {"share": 0.5, "noise_radius": NOISE_RADIUS, "subsample": SUBSAMPLE},
    "neon+-st": {"share": 0.3, "noise_radius": NOISE_RADIUS, "subsample": SUBSAMPLE},
    "neon-short": {"share": 1.0, "noise_radius": SHORT_NOISE},
    "neon+-short": {"share": 0.3, "noise_radius": SHORT_NOISE},
    "krylov": {"share": 0.0},
}
"""The curves: `share` of the iterations (accelerated ones need fewer; 0: `KRYLOV_STEPS`), r and |S|."""


def reproduce(
    out: Path,
    *,
    seed: int = 0,
    file: Path | None = None,
    like: str | None = None,
    targets: int = TARGETS,
    iterations: int = ITERATIONS,
    num_features: int = 5000,
    processes: int | None = None,
) -> list[Row]:
    """Run every curve at every target; rows go to `out`."""
    # A file that cannot be used raises its error here, before anything runs.
    num_samples = len(data.load(file, like=like, num_features=num_features).labels)
    source: dict[str, Any] = {"file": file and file.name, "sha256": file and digest(file), "as": like}
    source["features"] = num_features if file is None or like else None
    constants = {"penalty": PENALTY, "step_size": STEP_SIZE, "momentum": MOMENTUM, "gamma": GAMMA}
    constants["ncfind_decrease"] = NCFIND_DECREASE
    jobs = [
        {"data": source, "target": seed + target, "method": method, "iterations": steps_of(method, iterations)}
        | constants
        | {"noise_radius": options.get("noise_radius"), "subsample": options.get("subsample")}
        for target in range(targets)
        for method, options in METHODS.items()
        if (options.get("subsample") or 0) <= num_samples
    ]
    return harness.run(
        jobs,
        functools.partial(curve, path=None if file is None else str(file)),
        out,
        experiment=EXPERIMENT,
        processes=processes,
        describe=lambda job: f"target {job['target']}, {job['method']}",
    )


def steps_of(method: str, iterations: int) -> int:
    """The most iterations of a curve."""
    share = METHODS[method]["share"]
    return max(1, math.ceil(share * iterations)) if share else KRYLOV_STEPS


def digest(file: Path) -> str:
    """The file's hash. It tells rows of a changed file from rows of the file before."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def _problem(path: str | None, like: str | None, num_features: int) -> tuple[str, Problem]:
    dataset = data.load(None if path is None else Path(path), like=like, num_features=num_features)
    return dataset.name, sigmoid_least_squares(dataset.features, dataset.labels, penalty=PENALTY)


def observed(step: int) -> bool:
    """Whether a curve has a point at this step: at each of the first 60, then each time the step has grown by 3 %."""
    return step < 60 or math.floor(math.log(step) / math.log(1.03)) > math.floor(math.log(step - 1) / math.log(1.03))


@dataclass(kw_only=True)
class _Tape:
    """A curve while it is drawn."""

    hessian: Callable[[Tensor], Tensor]
    ledger: Ledger
    iterations: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    quotient: list[float] = field(default_factory=list)
    norm: list[float] = field(default_factory=list)

    def quotient_of(self, u: Tensor) -> float:
        """uᵀHu/‖u‖²."""
        (uhu, uu) = vectors.dots((u, self.hessian(u)), (u, u))
        return uhu / uu if uu > 0.0 else math.nan

    def observer(self, first: int) -> Observer:
        """An observer that records the curve. `first`: the number of oracle calls before step 0."""

        def observe(step: int, u: Tensor) -> None:
            if observed(step):
                self.iterations.append(step + first)
                self.samples.append(self.ledger.samples + self.ledger.hessian_samples)
                self.quotient.append(_short(self.quotient_of(u)))
                self.norm.append(_short(vectors.norm(u)))

        return observe


def _short(number: float) -> float:
    """Six digits: a curve that is drawn needs no more, and the page stays small."""
    return float(f"{number:.6g}")


def curve(job: harness.Job, *, path: str | None) -> dict[str, Any]:
    """One curve, as a row stores it."""
    source = job["data"]
    name, problem = _problem(path, source["as"], source["features"] or 0)
    objective, dimension = problem.objective, problem.dimension
    x = torch.randn(dimension, generator=torch.Generator().manual_seed(job["target"]), dtype=torch.float64)
    full = second_order(objective.sample(hessian=True))
    ledger = Ledger()
    tape = _Tape(hessian=lambda v: full.hvp(x, v), ledger=ledger)
    began = time.perf_counter()
    candidate = _run(job, objective, x, ledger, tape)
    seconds = time.perf_counter() - began
    return {
        "data_name": name,
        "num_samples": objective.num_samples,
        "dimension": dimension,
        "status": candidate.status.name,
        "iterations": tape.iterations,
        "samples": tape.samples,
        "quotient": tape.quotient,
        "norm": tape.norm,
        "lowest": candidate.lowest,
        "gradients": ledger.gradients,
        "hessian_products": ledger.hessian_products,
        "found": None if candidate.vector is None else tape.quotient_of(candidate.vector),
        "ncfind": _ncfind(job, objective, x, tape) if job["method"] in ("neon+", "neon+-st") else None,
        "seconds": round(seconds, 3),
    }


def _start(job: harness.Job) -> torch.Generator:
    return torch.Generator().manual_seed(START_SEED + job["target"])


def _direction(job: harness.Job, x: Tensor) -> Tensor:
    """The direction of NEON's start."""
    u = vectors.random_in_ball(x, 1.0, _start(job))
    return u.div_(vectors.norm(u))


def _sampled(job: harness.Job, objective: Objective, ledger: Ledger) -> Any:
    """F, or F_S on the rows of this target: the same for NEONst, NEON⁺st and NCFind."""
    random = torch.Generator().manual_seed(2 * START_SEED + job["target"])
    return objective.sample(job["subsample"], random, ledger=ledger)


def _run(job: harness.Job, objective: Objective, x: Tensor, ledger: Ledger, tape: _Tape) -> Candidate:
    method, steps = job["method"], job["iterations"]
    if method == "power":
        generator = _start(job)
        torch.rand((), generator=generator, dtype=torch.float64)  # NEON draws its length first.
        f = second_order(objective.sample(hessian=True, ledger=ledger))
        settings = PowerSettings(step_size=job["step_size"], num_steps=steps, target=math.inf)
        return power(f, x, settings, generator, observer=tape.observer(0))
    if method == "lanczos":
        f = second_order(objective.sample(hessian=True, ledger=ledger))
        limits = LanczosSettings(num_steps=steps, target=math.inf)
        return lanczos(f, x, limits, _start(job), observer=tape.observer(1), start=_direction(job, x))
    f_hat = DisplacedFunction(_sampled(job, objective, ledger), x)
    if method == "krylov":
        return _krylov(job, f_hat, tape)
    if method.startswith("neon+"):
        return neon_plus(f_hat, _neon_plus_settings(job), _start(job), observer=tape.observer(0))
    plain = NeonSettings(step_size=job["step_size"], num_steps=steps, noise_radius=job["noise_radius"], target=math.inf)
    return neon(f_hat, plain, _start(job), observer=tape.observer(0))


def _neon_plus_settings(job: harness.Job) -> NeonPlusSettings:
    """Settings whose test never passes: nothing is below −∞. Without 𝓕 there is no NCFind."""
    return NeonPlusSettings(
        step_size=job["step_size"],
        num_steps=job["iterations"],
        noise_radius=job["noise_radius"],
        target=math.inf,
        momentum=job["momentum"],
    )


def _krylov(job: harness.Job, f_hat: DisplacedFunction, tape: _Tape) -> Candidate:
    """krylov with the defaults of `negative_curvature`: σ is measured first, and the certificate ends the run."""
    x, generator = f_hat.x, _start(job)
    near = noise.gradient_noise(f_hat.f.grad, x, f_hat.x_norm, f_hat.grad0, generator)
    eps = torch.finfo(x.dtype).eps
    settings = KrylovSettings(
        num_steps=job["iterations"],
        delta=0.05,
        noise=max(near.noise, 0.25 * eps * (f_hat.grad_norm + near.curvature * f_hat.x_norm)),
        noise_share=NOISE_SHARE[x.dtype],
        smallest_radius=10.0 * eps * f_hat.x_norm,
    )
    return krylov(f_hat, settings, generator, observer=tape.observer(1), start=_direction(job, x))


def _ncfind(job: harness.Job, objective: Objective, x: Tensor, tape: _Tape) -> dict[str, Any] | None:
    """At which τ NCFind ends NEON⁺ as printed, with its test on values, and with which curvature; None if never.

    `quotient` is that of the direction that is returned: of y_τ − u_τ, since 𝓕 = ∞. `iterate_quotient` is that of y_τ.
    """
    ledger = Ledger()
    f_hat = DisplacedFunction(_sampled(job, objective, ledger), x)
    settings = replace(_neon_plus_settings(job), gamma=job["gamma"], decrease=job["ncfind_decrease"])
    tau, y = 0, x

    def keep(step: int, iterate: Tensor) -> None:
        nonlocal tau, y
        tau, y = step, iterate

    found = neon_plus(f_hat, settings, _start(job), observer=keep)
    if found.vector is None:
        return None
    return {
        "iterations": tau,
        "samples": ledger.samples + ledger.value_samples,
        "quotient": tape.quotient_of(found.vector),
        "iterate_quotient": tape.quotient_of(y),
    }
