"""Negative curvature on samples: on more and more of them until they decide, or on as many as Lemma 2 asks for.

NEON-A extracts so, and so do the rivals that take an `extractor`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unsaddle import vectors
from unsaddle.curvature.extract import answer
from unsaddle.curvature.question import Question
from unsaddle.curvature.registry import EXTRACTORS
from unsaddle.curvature.result import Status
from unsaddle.first_order.anchor import at_most
from unsaddle.first_order.premises import ProblemConstants
from unsaddle.framework.plan import Evidence, weighed
from unsaddle.judgement.judge import Kind, judge
from unsaddle.judgement.minimum import SAMPLE_MARGIN
from unsaddle.judgement.sampling_error import hessian_error, look_again
from unsaddle.measure.rest import small_gradient
from unsaddle.options import Options
from unsaddle.run import Ending, Run, RunEnded
from unsaddle.theory import extraction
from unsaddle.theory.quadratics import stationary_gradient

FIRST_EXTRACTION, GROWTH, LARGEST_EXTRACTION = 128, 4, 128 * 4**6
"""|S2| of the first extraction, its factor after one that does not decide, and its bound on a stream."""

EXTRACTIONS = 100
"""δ is divided by this number of extractions, as each may take a saddle for a minimum."""


def until_decided(run: Run, y: Tensor, options: Options) -> Evidence:
    """Extracts on 128 samples, then on four times as many until they decide, at last on everything.

    Directions are confirmed on fresh batches. "Nothing" counts if independent samples, as many as δ asks for, or
    everything, show nothing as well (`judgement.sampling_error.look_again`).
    """
    n = run.num_samples
    size: int | None = FIRST_EXTRACTION
    while True:
        if n is not None and size is not None and 2 * size > n:
            size = None
        question = Question(
            gamma=options.gamma,
            sample_margin=SAMPLE_MARGIN,
            extractor=options.extractor,
            samples=size,
            delta=options.delta / (2.0 * EXTRACTIONS),
            seed=_seed(run),
        )
        found, slack = answer(run.objective, y, question, run.ledger), 0.0
        if size is not None and found.status is Status.NOTHING_FOUND:
            found = look_again(run.objective, y, found, question, size, options.delta / 2.0, run.generator, run.ledger)
        if size is not None and found.status is Status.NOTHING_FOUND:
            slack = hessian_error(run.objective, y, found, size, options.delta / 2.0, run.generator).slack
        eps = math.nan
        if options.eps_follows_smoothness:
            eps = stationary_gradient(smoothness=found.smoothness, x_norm=vectors.norm(y))
        judgement = judge(found)
        if options.eps_follows_smoothness and judgement.kind is Kind.MINIMUM and n is not None:
            eps = min(eps, small_gradient(run.objective.sample(), y, radius=found.radius, eps=eps))
        evidence = weighed(found, judgement, size, slack, eps)
        if evidence.decided or size is None or size >= LARGEST_EXTRACTION:
            return evidence
        size *= GROWTH


def by_lemma_2(run: Run, y: Tensor, options: Options, constants: ProblemConstants) -> Evidence:
    """Extracts with the settings of the extractor's theorem, on Lemma 2's |S2|, or on everything if that is less.

    δ is at most cγ/(2(cγ + L1)), so that the step cγ/L2 gains in expectation (proof of Theorem 3). On samples it is
    split as in Lemma 2. "auto" is NEON⁺. An extractor without a theorem keeps its usable constants.
    """
    name = "neon+" if options.extractor == "auto" else options.extractor
    unbounded, theory = math.isinf(run.ledger.limit), EXTRACTORS[name].has_theory
    if theory and unbounded:
        raise ValueError(f"settings='theory' gives {name} more steps than can be waited for; pass max_samples")
    assert options.gamma is not None
    gamma, L1, dimension = options.gamma, constants.smoothness, vectors.dimension(y)
    delta = constants.extraction_delta(dimension=dimension, gamma=gamma, delta=options.delta)
    needed = extraction.sample_size(dimension=dimension, smoothness=L1, gamma=gamma, delta=delta)
    size = at_most(needed, run.num_samples)
    question = Question(
        gamma=gamma,
        extractor=name,
        samples=size,
        delta=delta,
        smoothness=L1,
        hessian_lipschitz=constants.hessian_lipschitz,
        max_gradients=None if unbounded else max(1, int(run.ledger.left)),
        seed=_seed(run),
        theory=theory,
    )
    found = answer(run.objective, y, question, run.ledger)
    if found.status is Status.BUDGET_SPENT:
        raise RunEnded(Ending.BUDGET_SPENT)
    return weighed(found, judge(found), size)


def _seed(run: Run) -> int:
    return int(torch.randint(2**31, (), generator=run.generator))
