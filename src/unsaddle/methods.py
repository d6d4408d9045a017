"""`minimize`: goes to a second-order stationary point by any method, by name or one of your own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
"""First-order methods. Each runs alone under its name, and promoted as neon-NAME."""


class Rival(NamedTuple):
    """A method that NEON-A is compared with, and its settings, which check themselves."""

    settings: type
    minimize: Callable[[Run, Options], None]
    takes_extractor: bool = False
    """Whether it may look for negative curvature by another extractor than its own."""


RIVALS = {
    "noisy-sgd": Rival(noisy_sgd.NoisySgdSettings, noisy_sgd.minimize),
    "sgld": Rival(sgld.SgldSettings, sgld.minimize),
    "pgd": Rival(pgd.PgdSettings, pgd.minimize),
    "pagd": Rival(pagd.PagdSettings, pagd.minimize),
    "natasha2": Rival(natasha2.Natasha2Settings, natasha2.minimize, takes_extractor=True),
    "sncg": Rival(sncg.SncgSettings, sncg.minimize),
    "svrg-hessian": Rival(svrg_hessian.SvrgHessianSettings, svrg_hessian.minimize, takes_extractor=True),
}
"""The methods that NEON-A is compared with."""


def method_names() -> tuple[str, ...]:
    """Every name that `minimize` takes as its method."""
    return (*(f"neon-{name}" for name in FIRST_ORDER), *RIVALS, *FIRST_ORDER)


@checks.in_range
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
    """Goes down from x0 to an (ε, γ)-second-order stationary point: ‖∇F(x)‖ ≤ ε and λ_min(∇²F(x)) ≥ −γ.

    Args:
        objective: `Function`, `FiniteSum`, `Stream`, `numpy_function`, or anything with their `sample`.
        x0: where to start. It is not changed. Optional for an objective with a `point` of its own, such as a model,
            which is not changed either.
        method: one of `method_names()`, or your own callable (objective, x, generator) → (y, z), which is promoted.
        eps: ε. By default 1e-3·L1·max(1, ‖x‖) or less, as in `is_minimum`. L1 is measured where the run begins, after
            each escape, and at the end. With settings='theory', L1 is the one given, and x is x0.
        gamma: γ. By default a hundredth of L1, which the extraction measures.
        extractor: how to look for negative curvature: "auto", or an extractor of `negative_curvature`. For natasha2 and
            svrg-hessian "auto" is Oja and Lanczos. Methods that look for none refuse it, and so does sncg.
        settings: "practical" measures constants. "theory" takes them from Theorem 3 and its corollaries. It needs
            smoothness, hessian_lipschitz and the other constants of the method's corollary.
        delta: the probability that a verdict on the way is wrong.
        max_samples: a bound on component gradients, values and Hessian products together. At most one oracle call
            exceeds it.
        seed: of everything random.
        callback: called at every event with a `Snapshot`. A true answer stops the run.
        progress: whether to show a progress bar on a terminal. Needs rich, of the extra `progress`.
        **method_settings: settings of the method, such as step_size and batch_size, and `escape` and
            `hessian_lipschitz` of NEON-A.

    Returns:
        A `Solution`: the point, how the run ended, the gradient and the curvature there, the cost, and the trace of
        every check, extraction and escape.

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
    if isinstance(method, type):
        raise TypeError(f"method must be a name or a function, got the class {method.__name__}; pass an instance")
    checks.callback(callback, "a Snapshot")
    if (batch := method_settings.get("batch_size")) is not None:
        n = objective.num_samples
        if n is not None and checks.count(batch, "batch_size") > n:
            raise ValueError(f"batch_size must be at most n = {n}, got {batch}; leave it out to have it chosen")
    body = _body(method, name, objective, options)
    seed = checks.seed(seed)
    with shown(callback, max_samples, progress) as observer:
        run = Run(objective, x0, method=name, eps=options.eps, max_samples=max_samples, seed=seed, callback=observer)
        with run.until_ended():
            body(run)
    return run.finish()


def _eps(eps: float | None, theory: bool, given: Mapping[str, Any], x0: Tensor) -> float:
    """ε as given, or as it follows from a given L1 with settings='theory'. nan if L1 has to be measured."""
    if eps is not None:
        return checks.positive(eps, "eps", "leave it out to have it follow L1")
    if not theory or (smoothness := given.get("smoothness")) is None:
        return math.nan
    return stationary_gradient(smoothness=checks.positive(smoothness, "smoothness"), x_norm=vectors.norm(x0))


def _keywords(function: Callable[..., Any]) -> list[str]:
    """The names of the keyword-only parameters."""
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _body(method: str | Plain, name: str, objective: Objective, options: Options) -> Callable[[Run], None]:
    """What runs: a rival, or NEON-A around a first-order method. Every error in the settings is raised here."""
    looks = RIVALS[name].takes_extractor if name in RIVALS else callable(method) or name.startswith("neon-")
    if options.extractor != "auto" and not looks:
        takers = ", ".join(rival for rival in RIVALS if RIVALS[rival].takes_extractor)
        raise ValueError(
            f"{name} takes no extractor, got extractor={options.extractor!r}; leave it out, or use a method that takes "
            f"one: neon-NAME, {takers}"
        )
    if name in RIVALS:
        rival = RIVALS[name]
        refuse_unknown(options.method_settings, setting_names(rival.settings), elsewhere=_keywords(minimize))
        refuse_impossible(rival.settings, options.method_settings)
        return _until_small(lambda run: rival.minimize(run, with_eps(run, options)), options)
    base = name.removeprefix("neon-")
    if not callable(method) and FIRST_ORDER[base].needs_finite_sum and objective.num_samples is None:
        raise ValueError(f"{name} needs a finite sum, got a stream of samples; use {name.replace(base, 'scsg')}")
    given = method if callable(method) else base
    made, plan = _by_theory(given, objective.num_samples, options) if options.theory else _measured(given, options)
    if callable(method) or base != name:  # It is promoted, so its last extraction measures L1 there.
        return lambda run: neon_a(run, made, plan)
    return _until_small(lambda run: neon_a(run, made, plan, promoted=False), options)


def _by_theory(method: str | Plain, num_samples: int | None, options: Options) -> tuple[FirstOrderMethod, Plan]:
    """The method and NEON-A with the constants of the theorems."""
    given, names = options.method_settings, setting_names(ProblemConstants)
    theory: Callable[..., Plain] = (lambda premises: method) if callable(method) else _theory_of(method)
    free = _keywords(theory)  # What the corollary leaves to the caller.
    refuse_unknown(given, (*free, *names), "with settings='theory' a method takes", _keywords(minimize))
    for needed in ("smoothness", "hessian_lipschitz"):
        if needed not in given:
            raise ValueError(f"settings='theory' needs {needed}; give it, or use settings='practical'")
    constants = ProblemConstants(**{name: given[name] for name in names if name in given})
    plan = TheoryPlan(options=options, constants=constants)
    premises = Premises(options=options, constants=constants, num_samples=num_samples)
    return PlainMethod(theory(premises, **{name: given[name] for name in free if name in given})), plan


def _theory_of(base: str) -> Callable[..., Plain]:
    """The constructor of a first-order method with the constants of its corollary."""
    if (theory := FIRST_ORDER[base].theory) is not None:
        return theory
    known = ", ".join(name for name, kind in FIRST_ORDER.items() if kind.theory is not None)
    raise ValueError(
        f"settings='theory' needs a method that a theorem gives the constants of: {known}, alone or promoted; got "
        f"{base}; use settings='practical' with it"
    )


def _measured(method: str | Plain, options: Options) -> tuple[FirstOrderMethod, Plan]:
    """The method and NEON-A with measured constants."""
    given, of_plan = options.method_settings, ("escape", "hessian_lipschitz")
    of_method = () if callable(method) else setting_names(FIRST_ORDER[method])
    of_theory = set(given) & set(setting_names(ProblemConstants)) - set(of_plan)
    takes = "with settings='practical' this method takes" if of_theory else "this method takes"
    refuse_unknown(given, (*of_method, *of_plan), takes, _keywords(minimize))
    if (lipschitz := given.get("hessian_lipschitz")) is not None:
        checks.positive(lipschitz, "hessian_lipschitz", "leave it out to have the step searched for")
    escape, fixed = given.get("escape", "line search"), "step_size" in given
    plan = PracticalPlan(options=options, escape_by=escape, hessian_lipschitz=lipschitz, fixed_step=fixed)
    if callable(method):
        return PlainMethod(method), plan
    return FIRST_ORDER[method](**{name: given[name] for name in of_method if name in given}), plan


def _until_small(body: Callable[[Run], None], options: Options) -> Callable[[Run], None]:
    """Repeats the body from where it ended, until the gradient there is at most the ε that follows from L1 there."""
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
