"""`minimize`: any method by name, or one of your own, to a second-order stationary point."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsaddle import checks, vectors
from unsaddle.baselines import natasha2, noisy_sgd, pagd, pgd, sgld, sncg, svrg_hessian
from unsaddle.baselines.constants import with_eps
from unsaddle.curvature.registry import EXTRACTORS
from unsaddle.first_order.method import FirstOrderMethod, Plain, PlainMethod
from unsaddle.first_order.momentum import HeavyBall, Nesterov, Sgd
from unsaddle.first_order.msgd import Msgd
from unsaddle.first_order.natasha import Natasha
from unsaddle.first_order.premises import Premises, ProblemConstants
from unsaddle.first_order.scsg import Scsg
from unsaddle.first_order.svrg import Svrg
from unsaddle.framework import Plan, PracticalPlan, TheoryPlan, neon_a
from unsaddle.objective import Objective, point_of, with_its_ranks
from unsaddle.options import Options, refuse_impossible, refuse_unknown, setting_names
from unsaddle.progress import shown
from unsaddle.run import Callback, Ending, Run, RunEnded, Solution
from unsaddle.theory.quadratics import stationary_gradient

FIRST_ORDER: dict[str, type[FirstOrderMethod]] = {
    "sgd": Sgd,
    "shb": HeavyBall,
    "snag": Nesterov,
    "msgd": Msgd,
    "scsg": Scsg,
    "svrg": Svrg,
    "natasha": Natasha,
}
"""First-order methods. Each runs alone under this name and promoted as neon-NAME."""


@dataclass(frozen=True)
class Rival:
    """What NEON-A is compared with: its settings, which check themselves, and the method."""

    settings: type
    minimize: Callable[[Run, Options], None]


RIVALS = {
    "noisy-sgd": Rival(noisy_sgd.NoisySgdSettings, noisy_sgd.minimize),
    "sgld": Rival(sgld.SgldSettings, sgld.minimize),
    "pgd": Rival(pgd.PgdSettings, pgd.minimize),
    "pagd": Rival(pagd.PagdSettings, pagd.minimize),
    "natasha2": Rival(natasha2.Natasha2Settings, natasha2.minimize),
    "sncg": Rival(sncg.SncgSettings, sncg.minimize),
    "svrg-hessian": Rival(svrg_hessian.SvrgHessianSettings, svrg_hessian.minimize),
}
"""What NEON-A is compared with."""


def method_names() -> tuple[str, ...]:
    """Every name that `minimize` takes as its method."""
    return (*(f"neon-{name}" for name in FIRST_ORDER), *RIVALS, *FIRST_ORDER)


@with_its_ranks
def minimize(
    objective: Objective,
    x0: Tensor | None = None,
    *,
    method: str | Plain = "neon-scsg",
    eps: float | None = None,
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
        x0: where to start; it is not changed. May be left out for an objective that has a `point` of its own, such as a
            model, to which nothing is written.
        method: one of `method_names()`, or a callable (objective, x, generator) → (y, z) of your own, to be promoted.
        eps: ε. By default 1e-3·L1·max(1, ‖x‖), as in `is_minimum`, with L1 as measured where the run begins, after
            each escape, and at the end; with settings='theory', with L1 as given, at x0.
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
    x0 = point_of(objective, x0, "x0")
    if vectors.total([[torch.isfinite(x0).logical_not().sum()]]) != [0.0]:
        raise ValueError("x0 must be finite, got nan or inf in it; start elsewhere")
    name = checks.choice(method, "method", method_names()) if not callable(method) else "your method"
    theory = checks.choice(settings, "settings", ("practical", "theory")) == "theory"
    options = Options(
        eps=_eps(eps, theory, method_settings, x0),
        eps_follows_smoothness=eps is None and not theory,
        gamma=None if gamma is None else checks.positive(gamma, "gamma", "leave it out to take a hundredth of L1"),
        delta=checks.probability(delta, "delta"),
        extractor=checks.choice(extractor, "extractor", ("auto", *EXTRACTORS)),
        theory=theory,
        method_settings={key: value for key, value in method_settings.items() if value is not None},
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


def _eps(eps: float | None, theory: bool, given: Mapping[str, Any], x0: Tensor) -> float:
    """ε as given, or as it follows from the L1 that a theorem is given; nan where it has to be measured."""
    if eps is not None:
        return checks.positive(eps, "eps", "leave it out to have it follow L1")
    if not theory or (smoothness := given.get("smoothness")) is None:
        return math.nan
    return stationary_gradient(smoothness=checks.positive(smoothness, "smoothness"), x_norm=vectors.norm(x0))


def _words() -> list[str]:
    """What `minimize` takes with every method."""
    return [p.name for p in inspect.signature(minimize).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _body(method: str | Plain, name: str, objective: Objective, options: Options) -> Callable[[Run], None]:
    """What runs: a rival, or NEON-A around a first-order method. Every error in the settings is raised here."""
    given = options.method_settings
    if name in RIVALS:
        rival = RIVALS[name]
        refuse_unknown(given, setting_names(rival.settings), elsewhere=_words())
        refuse_impossible(rival.settings, given)
        return _until_small(lambda run: rival.minimize(run, with_eps(run, options)), options)
    base = name.removeprefix("neon-")
    if not callable(method) and FIRST_ORDER[base].needs_finite_sum and objective.num_samples is None:
        raise ValueError(f"{name} needs a finite sum, got a stream of samples; use {name.replace(base, 'scsg')}")
    plain, promoted = (method, True) if callable(method) else (None, base != name)
    if options.theory:
        constants = setting_names(ProblemConstants)
        takes = "with settings='theory' a method takes"
        free = () if plain else _free_settings(base)
        refuse_unknown(given, (*free, *constants), takes, _words())
        premises = Premises(
            options=options,
            constants=_constants({key: value for key, value in given.items() if key in constants}),
            num_samples=objective.num_samples,
        )
        plan: Plan = TheoryPlan(options=options, constants=premises.constants)
        if plain is None:
            theory = FIRST_ORDER[base].theory
            assert theory is not None
            plain = theory(premises, **{key: value for key, value in given.items() if key not in constants})
        made: FirstOrderMethod = PlainMethod(plain)
    else:
        of_method = () if plain else setting_names(FIRST_ORDER[base])
        of_theory = set(given) & set(setting_names(ProblemConstants)) - set(PLAN_SETTINGS)
        takes = "with settings='practical' this method takes" if of_theory else "this method takes"
        refuse_unknown(given, (*of_method, *PLAN_SETTINGS), takes, _words())
        if (lipschitz := given.get("hessian_lipschitz")) is not None:
            checks.positive(lipschitz, "hessian_lipschitz", "leave it out to have the step searched for")
        plan = PracticalPlan(
            options=options,
            escape_by=given.get("escape", "line search"),
            hessian_lipschitz=lipschitz,
            fixed_step="step_size" in given,
        )
        settings = {key: value for key, value in given.items() if key in of_method}
        made = PlainMethod(plain) if plain else FIRST_ORDER[base](**settings)
    if promoted:  # Its last extraction says what L1 is there.
        return lambda run: neon_a(run, made, plan)
    return _until_small(lambda run: neon_a(run, made, plan, promoted=False), options)


def _until_small(body: Callable[[Run], None], options: Options) -> Callable[[Run], None]:
    """The body, begun again where it ended as long as the gradient there is above ε as it follows from L1 there."""
    if not options.eps_follows_smoothness:
        return body

    def again(run: Run) -> None:
        while True:
            try:
                body(run)
            except RunEnded as ended:
                if ended.status not in (Ending.FIRST_ORDER_POINT, Ending.SECOND_ORDER_POINT):
                    raise
                run.smoothness = None
                with_eps(run, options)
                if math.hypot(run.gradient_norm, run.gradient_error) <= run.eps:
                    raise

    return again


PLAN_SETTINGS = ("escape", "hessian_lipschitz")
"""Settings of NEON-A itself where constants are measured."""


def _free_settings(base: str) -> tuple[str, ...]:
    """The settings that the theory of a method leaves free."""
    theory = FIRST_ORDER[base].theory
    if theory is None:
        known = ", ".join(name for name, kind in FIRST_ORDER.items() if kind.theory is not None)
        raise ValueError(
            f"settings='theory' needs a method that a theorem gives the constants of: {known}, alone or promoted; got "
            f"{base}; use settings='practical' with it"
        )
    parameters = inspect.signature(theory).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _constants(given: Mapping[str, Any]) -> ProblemConstants:
    for needed in ("smoothness", "hessian_lipschitz"):
        if needed not in given:
            raise ValueError(f"settings='theory' needs {needed}; give it, or use settings='practical'")
    return ProblemConstants(**given)
