"""The attempts of a careful search: how far from x each one probes, and which are left after one has failed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from unsaddle.curvature.krylov.certificate import LARGEST_NOISE_SHARE, KrylovCandidate, KrylovSettings
from unsaddle.curvature.krylov.runs import gradient_error, settings_for
from unsaddle.curvature.search import Search
from unsaddle.measure.between_kinks import GAP_GRADIENTS, gap
from unsaddle.measure.direction import Scale
from unsaddle.measure.survey import Survey

STEPS = 2000
"""The most steps of a search."""

STEPS_BETWEEN_KINKS = 100
"""The most steps of a search that excludes nothing: between kinks, or in narrow structure."""

NOISE_SHARE = {torch.float32: 0.1, torch.float64: 1e-4}
"""Rounding in a product as a share of γ, at the radius of the first attempt."""

CENTRAL_SHARE = 0.1
"""Rounding in a product as a share of γ if products are central and the radius follows the noise that was met."""

FARTHEST, FARTHER = 0.03, 0.5
"""Probes stay within these shares of ‖x‖: the second if no nearer ones decide. That the function is quadratic so far
out is checked, along both ends of the spectrum."""

NEAR = 3.0
"""The nearest radius of a search, in units of the smallest one."""

NEARER = 0.5
"""A curvature that is steady only nearer to x than this share of a search's radius tells where to search instead."""

SMOOTHER = 0.5
"""The asymmetry of products is that of truncation if it falls by this factor from one search to a nearer one."""

MET = 10.0
"""Jumps of the gradient that a search met count as jumps from this multiple of the noise on."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One Krylov search, and the noise that its result is checked against."""

    settings: KrylovSettings
    noise: float
    """σ of a gradient. The settings may name jumps that an earlier search met, or 0 to stay near to x."""
    near: bool = False
    """Whether it stays near to x, whatever the noise: kinks look like noise there."""
    between_kinks: bool = False
    """Whether it stays between the kinks next to x. The gap between them is measured when its turn has come. Beyond the
    kinks f may fall, so that "nothing" between them does not count."""
    doubtful: bool = False
    """Whether gradients next to x may be those of a staircase. Then a direction counts if f bends down along it farther
    out, too."""
    narrow: bool = False
    """Whether it looks at structure next to x that gradients farther out do not see. It may be an error of gradients,
    so a direction counts if values bend down along it, too."""
    met: float = 0.0
    """How far the gradient jumps nearer to x, at kinks or by noise, if the search goes so far out because of that."""

    @property
    def only_finds(self) -> bool:
        """Whether only a direction counts that it finds: "nothing" tells nothing, nor does its failure."""
        return self.between_kinks or self.narrow

    def scale(self, scale: Scale) -> Scale:
        """The constants for measuring what this search found."""
        at = scale.radius if self.settings.central else scale.measuring_radius
        return replace(scale, noise=self.noise, measuring_radius=at)


class Attempts:
    """The attempts that are left, the most promising one first.

    | attempt | radius | products |
    |---|---|---|
    | narrow | next to x, if products are far longer there | central |
    | plain | rounding is a small share of γ | forward |
    | coarse | rounding is a third of γ | forward |
    | near | next to x, whatever the noise | forward |
    | from both sides | rounding is a tenth of γ, if the ones before met truncation | central |
    | between kinks | next to x, where its two sides agree | central |
    | far out | rounding is a tenth of γ | central |
    | farther, coarse | rounding is a third of γ, up to ‖x‖/2 | central |
    | farther | rounding is a tenth of γ, up to ‖x‖/2 | central |

    Which ones come first depends on the survey: where the noise leads too far from x, plain and coarse are left out;
    where gradients have memory, or half precision is inside, those next to x as well. Where no two radii agree, the
    first one is between kinks, and doubtful. Where the caller or the oracle sets the radius, none is between kinks.
    """

    def __init__(self, search: Search, around: Survey, *, radius_is_open: bool) -> None:
        plain = _plain(search, around)
        coarse = replace(plain, noise_share=LARGEST_NOISE_SHARE)
        far_out = replace(plain, central=True, noise_share=CENTRAL_SHARE)
        near = replace(plain, noise=0.0, smallest_radius=NEAR * plain.smallest_radius)
        farthest = FARTHER * (search.f_hat.x_norm or 1.0)
        largest = max(farthest, plain.largest_radius)
        noisy = plain.wanted_radius(plain.relative_gamma * around.curvature) > plain.largest_radius
        first = [plain, coarse] if not noisy else []
        last = [far_out] if noisy or around.has_memory else []

        self.noise, self._plain, self._coarse, self._farthest = plain.noise, plain, coarse, farthest
        farther = [replace(settings, central=True, largest_radius=largest) for settings in (coarse, far_out)]
        self._far = [self._attempt(settings) for settings in farther]
        inside = replace(plain, central=True, num_steps=STEPS_BETWEEN_KINKS)
        between = [Attempt(settings=inside, noise=self.noise, near=True, between_kinks=True)] if radius_is_open else []
        next_to_x = [Attempt(settings=near, noise=0.0, near=True), *between]
        trusted = not (around.has_memory or (noisy and around.suspicious))
        self.left = [self._attempt(s) for s in first] + next_to_x if trusted else []
        self.left += [self._attempt(s) for s in last] + self._far
        if around.broken:
            self.left = [replace(attempt, doubtful=True) for attempt in between] + self.left
        if around.narrow > 0.0 and radius_is_open:
            inside = replace(inside, noise=0.0, smallest_radius=around.narrow, largest_radius=around.nearest)
            self.left.insert(0, Attempt(settings=inside, noise=0.0, near=True, narrow=True))
        self._central = Attempt(settings=far_out, noise=self.noise, near=True)
        self._learned_at = self._asymmetry = math.inf

    def _attempt(self, settings: KrylovSettings) -> Attempt:
        return Attempt(settings=settings, noise=self.noise, met=self.noise if settings.central else 0.0)

    def allow(self, earlier: KrylovCandidate) -> bool:
        """Whether an earlier search is as good as the next attempt."""
        return self._coarse.allows(earlier.scale.gamma, earlier.scale.radius)

    def learn(self, failed: KrylovCandidate) -> None:
        """Changes what is left by how an attempt failed, if none nearer to x has told before.

        Where the curvature along its direction was steady nearer to x, a search from both sides is made there. Where
        the gradient jumps, only searches next to x may do, or those so far out that jumps do not count. Products that
        become more symmetric nearer to x show truncation, not kinks: half of it cancels in those from both sides.
        """
        if not self.left or failed.scale.radius >= self._learned_at:
            return
        truncated = failed.asymmetry < SMOOTHER * self._asymmetry < math.inf
        self._learned_at, self._asymmetry = failed.scale.radius, failed.asymmetry
        met, seen = failed.jump / math.sqrt(2.0), failed.measured
        if met > MET * self.noise:
            far = [replace(a, settings=replace(a.settings, noise=met), met=failed.jump) for a in self._far]
            self.left = [a for a in self.left if a.near] + far
        if truncated:
            self.left.insert(0, self._central)
        if seen is not None and seen.consistent and seen.radius <= NEARER * failed.scale.radius:
            there = replace(self._plain, central=True, noise=0.0, smallest_radius=seen.radius)
            self.left.insert(0, self._attempt(there))

    def keep_between_kinks(self) -> None:
        """Leaves those attempts only that stay between the kinks next to x."""
        self.left = [attempt for attempt in self.left if attempt.between_kinks]

    @property
    def are_between_kinks(self) -> bool:
        """Whether one that is left stays between kinks."""
        return any(attempt.between_kinks for attempt in self.left)

    def too_coarse(self, gamma: float) -> bool:
        """Whether rounding hides γ at every radius."""
        return self._coarse.wanted_radius(gamma) > self._farthest


def opened(search: Search, attempt: Attempt) -> Attempt | None:
    """The attempt, with the gap between kinks measured if it is to stay there; None if there is no gap, or no budget.

    Where f proves to be smooth so near to x, it is a search from both sides at the radius that truncation allows.
    """
    if not attempt.between_kinks:
        return attempt
    if not search.affords(GAP_GRADIENTS):
        return None
    f_hat = search.f_hat
    found = gap(f_hat.f, f_hat.x, f_hat.x_norm, f_hat.grad0, search.generator)
    if found is None:
        return None
    if found.smooth and not attempt.doubtful:
        there = replace(attempt.settings, noise=0.0, smallest_radius=found.radius, num_steps=STEPS)
        return Attempt(settings=there, noise=found.noise)
    return replace(attempt, settings=replace(attempt.settings, gap=found, noise=found.noise), noise=found.noise)


def _plain(search: Search, around: Survey) -> KrylovSettings:
    """The settings of the first attempt."""
    f_hat, x_norm, eps = search.f_hat, search.f_hat.x_norm, torch.finfo(search.x.dtype).eps
    # In few dimensions the measured noise can be small by accident. The rounding is always there.
    rounding = 0.25 * eps * (f_hat.grad_norm + around.curvature * x_norm)
    sigma = max(around.noise, rounding, gradient_error(f_hat))
    smallest = search.question.smallest_radius or around.nearest
    farthest = max(FARTHEST * x_norm if x_norm > 0.0 else FARTHEST, smallest)
    if not smallest:  # If the noise is zero, that is an accident; at x = 0 it is not, and nothing tells the scale.
        smallest = math.sqrt(eps) * x_norm if x_norm > 0.0 == sigma else 10.0 * eps * (x_norm or 1.0)
    return settings_for(
        search,
        num_steps=STEPS,
        noise=sigma,
        noise_share=NOISE_SHARE[search.x.dtype],
        smallest_radius=smallest,
        largest_radius=farthest,
        first_curvature=around.curvature,
    )
