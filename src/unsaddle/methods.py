"""`minimize`: any method by name, or one of your own, to a second-order stationary point."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks
from unsaddle.baselines import natasha2, noisy_sgd, pagd, pgd, sgld, sncg, svrg_hessian
from unsaddle.curvature.extract import EXTRACTORS
from unsaddle.first_order.corollaries import THEORY_METHODS
from unsaddle.first_order.method import FirstOrderMethod, Plain, PlainMethod
from unsaddle.first_order.momentum import Momentum
from unsaddle.first_order.msgd import Msgd
from unsaddle.first_order.natasha import Natasha
from unsaddle.first_order.scsg import Scsg
from unsaddle.first_order.svrg import Svrg
from unsaddle.framework import PracticalPlan, TheoryPlan, neon_a
from unsaddle.framework.theory_plan import ProblemConstants
from unsaddle.objective import Objective
from unsaddle.options import Options, refuse_unknown
from unsaddle.progress import shown
from unsaddle.ranks import with_its_ranks
from unsaddle.run import Callback, Run, Solution


@dataclass(frozen=True)
class _FirstOrder:
    make: Callable[..., FirstOrderMethod]
    finite_sum_only: bool = False


FIRST_ORDER = {
    "sgd": _FirstOrder(functools.partial(Momentum, momentum=0.0, s=1.0)),
    "shb": _FirstOrder(functools.partial(Momentum, momentum=0.9, s=0.0)),
    "snag": _FirstOrder(functools.partial(Momentum, momentum=0.9, s=1.0)),
    "msgd": _FirstOrder(Msgd),
    "scsg": _FirstOrder(Scsg),
    "svrg": _FirstOrder(Svrg, finite_sum_only=True),
    "natasha": _FirstOrder(Natasha),
}
"""First-order methods. Each runs alone under this name and promoted as neon-NAME."""

RIVALS: dict[str, Callable[[Run, Options], None]] = {
    "noisy-sgd": noisy_sgd.minimize,
    "sgld": sgld.minimize,
    "pgd": pgd.minimize,
    "pagd": pagd.minimize,
    "natasha2": natasha2.minimize,
    "sncg": sncg.minimize,
    "svrg-hessian": svrg_hessian.minimize,
}
"""What NEON-A is compared with."""

METHODS = (*(f"neon-{name}" for name in FIRST_ORDER), *RIVALS, *FIRST_ORDER)


@with_its_ranks
def minimize(
    objective: Objective,
    x0: Tensor,
    *,
    method: str | Plain = "neon-scsg",
    eps: float = 1e-3,
    gamma: float | None = None,
    extractor: str = "auto",
    settings: str = "practical",
    delta: float = 0.05,
    max_samples: int | None = None,
    seed: int = 0,
    callback: Callback | None = None,
    progress: bool = False,
    **method_settings: Any,
) -> Solution:
    """Go down from x0 to an (ε, γ)-second-order stationary point: ‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ.

    Args:
        objective: `Function`, `FiniteSum`, `Stream`, `numpy_function`, or anything with their `sample`.
        x0: where to start; it is not changed.
        method: one of `METHODS`, or a callable (objective, x, generator) → (y, z) of your own, which is promoted.
        eps: ε.
        gamma: γ; by default a hundredth of L1 as the extraction sees it.
        extractor: how negative curvature is looked for: "auto", or a method of `negative_curvature`.
        settings: "practical" measures constants; "theory" takes them from Theorem 3 and its corollaries, and needs
            smoothness, hessian_lipschitz and what else the method's corollary uses.
        delta: the probability that a verdict on the way is wrong.
        max_samples: a bound on component gradients, values and Hessian products together. It is exceeded by no more
            than one oracle call.
        seed: of everything random.
        callback: called at every event with a `Snapshot`; a true answer stops the run.
        progress: show a progress bar on a terminal; needs rich, of the extra `progress`.
        **method_settings: of the method, such as step_size and batch_size; `escape` and `hessian_lipschitz` of NEON-A.

    Returns:
        A `Solution`: the point, how the run ended, what is known of the gradient and the curvature there, what it cost,
        and the trace of every check, extraction and escape.

    >>> from unsaddle import Function
    >>> f = Function(lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4)
    >>> solution = minimize(f, torch.zeros(2, dtype=torch.float64), method="neon-msgd")
    >>> solution.success, [round(abs(c), 2) for c in solution.x.tolist()], solution.escapes
    (True, [0.0, 1.41], 1)
    """
    if not isinstance(objective, Objective):
        raise TypeError(
            f"objective must be a Function, FiniteSum, Stream or the like, got {type(objective).__name__}; "
            "wrap a callable as unsaddle.Function(fun)"
        )
    x0 = checks.point(x0, "x0")
    if not bool(torch.isfinite(x0).all()):
        raise ValueError("x0 must be finite, got nan or inf in it; start elsewhere")
    name = checks.choice(method, "method", METHODS) if not callable(method) else "your method"
    options = Options(
        eps=checks.positive(eps, "eps", "1e-3 is the default"),
        gamma=None if gamma is None else checks.positive(gamma, "gamma", "leave it out to take a hundredth of L1"),
        delta=checks.probability(delta, "delta"),
        extractor=checks.choice(extractor, "extractor", ("auto", *EXTRACTORS)),
        theory=checks.choice(settings, "settings", ("practical", "theory")) == "theory",
        method_settings=method_settings,
    )
    if max_samples is not None:
        checks.count(max_samples, "max_samples")
    if (batch := method_settings.get("batch_size")) is not None:
        n = objective.num_samples
        if n is not None and checks.count(batch, "batch_size") > n:
            raise ValueError(f"batch_size must be at most n = {n}, got {batch}; leave it out to have it chosen")
    body = _body(method, name, objective, options)
    seed = checks.count(seed, "seed", at_least=0)
    with shown(callback, max_samples) if progress else nullcontext(callback) as observer:
        run = Run(objective, x0, method=name, eps=options.eps, max_samples=max_samples, seed=seed, callback=observer)
        with run.until_ended():
            body(run)
    return run.finish()


def _body(method: str | Plain, name: str, objective: Objective, options: Options) -> Callable[[Run], None]:
    """What runs: a rival, or NEON-A around a first-order method; all that can be wrong with its settings is, here."""
    if name in RIVALS:
        return lambda run: RIVALS[name](run, options)
    of_framework, of_method = _split(options.method_settings)
    base = name.removeprefix("neon-")
    if not callable(method) and FIRST_ORDER[base].finite_sum_only and objective.num_samples is None:
        raise ValueError(f"{name} needs a finite sum, got a stream of samples; use {name.replace(base, 'scsg')}")
    if options.theory:
        constants = _constants(of_framework)
        plan: PracticalPlan | TheoryPlan = TheoryPlan(options=options, constants=constants)
        if callable(method):
            made: FirstOrderMethod = PlainMethod(method)
        else:
            made = THEORY_METHODS[base](options, constants, objective.num_samples, of_method)
    else:
        refuse_unknown(of_framework, ("escape", "hessian_lipschitz"), "with settings='practical' a method takes")
        if (lipschitz := of_framework.get("hessian_lipschitz")) is not None:
            checks.positive(lipschitz, "hessian_lipschitz", "leave it out to have the step searched for")
        plan = PracticalPlan(
            options=options,
            escape_by=of_framework.get("escape", "line search"),
            hessian_lipschitz=of_framework.get("hessian_lipschitz"),
            fixed_step="step_size" in of_method,
        )
        if callable(method):
            refuse_unknown(of_method, ("escape", "hessian_lipschitz"))
            made = PlainMethod(method)
        else:
            made = _make(FIRST_ORDER[base].make, of_method)
    promoted = callable(method) or name.startswith("neon-")
    return lambda run: neon_a(run, made, plan, promoted=promoted)


FRAMEWORK_SETTINGS = ("escape", "hessian_lipschitz", "smoothness", "variance", "sub_gaussian")


def _split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    of_framework = {key: value for key, value in given.items() if key in FRAMEWORK_SETTINGS}
    return of_framework, {key: value for key, value in given.items() if key not in FRAMEWORK_SETTINGS}


def _constants(given: Mapping[str, Any]) -> ProblemConstants:
    for needed in ("smoothness", "hessian_lipschitz"):
        if needed not in given:
            raise ValueError(f"settings='theory' needs {needed}; give it, or use settings='practical'")
    refuse_unknown(given, tuple(ProblemConstants.__dataclass_fields__), "the constants of settings='theory' are")
    return ProblemConstants(**given)


def _make(make: Callable[..., FirstOrderMethod], given: Mapping[str, Any]) -> FirstOrderMethod:
    known = ("batch_size", "step_size", "num_steps", "anchor_size", "momentum", "sigma")
    kind = make.func if isinstance(make, functools.partial) else make
    names = [name for name in known if name in getattr(kind, "__dataclass_fields__", {})]
    if isinstance(make, functools.partial) and make.keywords.get("momentum") == 0.0:
        names.remove("momentum")  # With it, SGD would be Nesterov's method.
    refuse_unknown(given, (*names, "escape", "hessian_lipschitz"))
    for key, value in given.items():
        if key in ("step_size", "sigma"):
            checks.positive(value, key, "leave it out to have it follow L1")
        elif key != "momentum":
            checks.count(value, key)
    return make(**given)
