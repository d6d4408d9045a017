"""Objectives and points of which the right verdict is known, for `benchmarks.verdicts`.

Every case carries its truth in float64: λ_min of the Hessian at x, the curvature along any direction, and ‖∇F(x)‖. A
family makes the case of an index and a precision; the same index gives the same problem in every precision.

In bf16 the tensors that the library sees are float32, and what the objective computes with is bfloat16: dense families
round the point, the matrix and the product (as a linear layer under autocast does), the networks run under
`torch.autocast`, and the others round the point that goes in and the gradient that comes out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unsaddle import FiniteSum, Function
from unsaddle.objective import Objective, SecondOrderFunction
from unsaddle.problems import (
    Problem,
    StationaryPoint,
    around_threshold,
    linear_network,
    matrix_sensing,
    near_ties,
    phase_retrieval,
    positive_semidefinite,
    prescribed_spectrum,
    random_spectrum,
    rank_one_negative,
    saddle_chain,
    symmetric_factorisation,
    tensor_decomposition,
    zoo,
)

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bf16": torch.float32}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A question, and what is true."""

    objective: Objective
    x: Tensor
    lowest: float
    """λ_min(∇²F(x))."""
    largest: float
    """max |λ(∇²F(x))|."""
    curvature: Callable[[Tensor], float]
    """v ↦ vᵀ∇²F(x)v for a unit v in float64."""
    gradient_norm: float = 0.0
    """‖∇F(x)‖, of the function that was meant, without rounding."""
    gamma: float | None = None
    samples: int | None = None
    seed: int = 0


def _random(family: str, index: int) -> torch.Generator:
    """The same in every precision, and another for every family."""
    return torch.Generator().manual_seed(1000003 * (index + 1) + sum(family.encode()))


def _uniform(g: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=g, dtype=torch.float64))


def _integer(g: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high + 1, (), generator=g))


def _dimension(g: torch.Generator, low: int = 2, high: int = 500) -> int:
    return round(math.exp(_uniform(g, math.log(low), math.log(high))))


def _normal(g: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def rounded(x: Tensor) -> Tensor:
    """To bfloat16 and back."""
    return x.bfloat16().to(x.dtype)


# --- Dense Hessians -------------------------------------------------------------------------------------------------


def dense(
    g: torch.Generator,
    spectrum: Tensor,
    precision: str,
    *,
    slope: float = 0.0,
    scaled: bool = False,
    gamma: float | None = None,
) -> Case:
    """f(x) = ½yᵀHy − bᵀy + Σ(c₃y³/6 + c₄y⁴/4)(y − y₀) with y = Dx: rotated, shifted, and not quadratic away from y₀.

    A third of the points are 0, the others anywhere. Hy − b is computed by a product and a difference, so its rounding
    is that of a gradient far from zero.
    """
    d, dtype = spectrum.numel(), DTYPES[precision]
    rotation, _ = torch.linalg.qr(_normal(g, d, d))
    hessian = rotation @ torch.diag(spectrum) @ rotation.T
    hessian = (hessian + hessian.T) / 2.0
    scale = 10.0 ** (12.0 * torch.rand(d, generator=g, dtype=torch.float64) - 6.0) if scaled else torch.ones(d).double()
    at_zero = _uniform(g, 0.0, 1.0) < 1.0 / 3.0
    size = 0.0 if at_zero else 10.0 ** _uniform(g, -1.0, 1.0)
    y0 = size * _normal(g, d)
    third, fourth = 10.0 ** _uniform(g, -2.0, 0.0), 10.0 ** _uniform(g, -2.0, 0.0)
    push = _normal(g, d)
    # What is stored is what is true: the matrix and the point as the precision has them.
    if precision == "bf16":
        hessian, scale = rounded(hessian), rounded(scale)
        x = rounded((y0 / scale).float())
    else:
        hessian, scale = hessian.to(dtype).double(), scale.to(dtype).double()
        x = (y0 / scale).to(dtype)
    y0 = scale * x.double()
    push *= slope / float((scale * push).norm()) if slope else 0.0
    b = hessian @ y0 - push
    h, D, b_low, y_low = hessian.to(dtype), scale.to(dtype), b.to(dtype), y0.to(dtype)

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        y = rounded(x * D) if precision == "bf16" else x * D
        z = y - y_low
        product = (h.bfloat16() @ y.bfloat16()).to(dtype) if precision == "bf16" else h @ y
        value = 0.5 * torch.dot(y, product) - torch.dot(b_low, y) + (third / 6.0 * z**3 + fourth / 4.0 * z**4).sum()
        return value, D * (product - b_low + z * z * (0.5 * third + fourth * z))

    truth = scale[:, None] * hessian * scale
    eigenvalues = torch.linalg.eigvalsh(truth)

    def curvature(v: Tensor) -> float:
        w = scale * v
        return float(w @ hessian @ w)

    return Case(
        objective=Function(value_and_grad, gradient=True),
        x=x,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=curvature,
        gradient_norm=float((scale * push).norm()),
        gamma=gamma,
    )


def random_spectra(index: int, precision: str) -> Case:
    """λ_min from −L1 to +L1/10, the rest uniform; d from 2 to 500."""
    g = _random("random_spectra", index)
    d, largest = _dimension(g), 10.0 ** _uniform(g, -3.0, 3.0)
    if index % 2:
        s = random_spectrum(d, lowest=-largest * 10.0 ** _uniform(g, -2.5, 0.0), largest=largest, seed=index)
    else:
        zeros = min(d - 1, _integer(g, 0, d // 2))
        s = positive_semidefinite(d, largest=largest, zeros=zeros, seed=index)
    return dense(g, s, precision)


def ties(index: int, precision: str) -> Case:
    """Up to 20 eigenvalues within a thousandth of each other at the bottom, or at zero."""
    g = _random("ties", index)
    count = _integer(g, 2, 20)
    d = _dimension(g, count + 1, 300)
    lowest = -(10.0 ** _uniform(g, -2.0, 0.0)) if index % 2 else 0.0
    if lowest < 0.0:
        s = near_ties(d, lowest=lowest, largest=1.0, ties=count, gap=-lowest * 1e-3 / count, seed=index)
    else:
        s = positive_semidefinite(d, largest=1.0, zeros=count, seed=index)
        s[:count] = 1e-6 * torch.arange(count, dtype=torch.float64)
    return dense(g, s, precision)


def threshold(index: int, precision: str) -> Case:
    """λ_min = −γ(1 ± 0.1), γ given, from 0.003 to 0.3 of L1."""
    g = _random("threshold", index)
    gamma = 10.0 ** _uniform(g, -2.5, -0.5)
    side = "below" if index % 2 else "above"
    s = around_threshold(_dimension(g, 2, 400), gamma=gamma, side=side, largest=1.0, seed=index)
    return dense(g, s, precision, gamma=gamma)


def badly_scaled(index: int, precision: str) -> Case:
    """Every variable in units of its own, from 1e-6 to 1e6."""
    g = _random("badly_scaled", index)
    d = _dimension(g, 2, 200)
    if index % 2:
        s = random_spectrum(d, lowest=-(10.0 ** _uniform(g, -2.0, 0.0)), largest=1.0, seed=index)
    else:
        s = positive_semidefinite(d, largest=1.0, zeros=0, seed=index)
    return dense(g, s, precision, scaled=True)


def steep(index: int, precision: str) -> Case:
    """‖∇f‖ from 0.01 to 1000 times L1·max(1, ‖x‖): not stationary, whatever the curvature."""
    g = _random("steep", index)
    d = _dimension(g, 2, 300)
    s = random_spectrum(d, lowest=-_uniform(g, 0.05, 1.0) if index % 2 else 0.01, largest=1.0, seed=index)
    case_size = 10.0 ** _uniform(g, -2.0, 3.0)
    state = g.get_state()
    x = dense(g, s, precision).x
    g.set_state(state)
    return dense(g, s, precision, slope=case_size * max(1.0, float(x.double().norm())))


# --- Problems with formulas -----------------------------------------------------------------------------------------


def low_precision(objective: Objective) -> Function:
    """The point and the gradient rounded to bfloat16."""
    f = objective.sample()

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = f.value_and_grad(rounded(x))
        return value, rounded(grad)

    return Function(value_and_grad, gradient=True)


def _hessian(objective: Objective, x: Tensor) -> Callable[[Tensor], float]:
    f = objective.sample(hessian=True)
    assert isinstance(f, SecondOrderFunction)
    return lambda v: float(torch.dot(v, f.hvp(x, v)))


def known(make: Callable[[torch.dtype], Problem], which: int, precision: str, *, seed: int = 0) -> Case:
    """A stationary point of a problem, in this precision, with the truth from the problem in float64."""
    exact, problem = make(torch.float64), make(DTYPES[precision])
    here, there = (p.stationary_points[which % len(p.stationary_points)] for p in (exact, problem))
    return Case(
        objective=low_precision(problem.objective) if precision == "bf16" else problem.objective,
        x=there.point,
        lowest=here.lowest_curvature,
        largest=here.largest_curvature,
        curvature=_hessian(exact.objective, there.point.double()),
        seed=seed,
    )


def needle(index: int, precision: str) -> Case:
    """One negative eigenvalue among 10 000: −0.011 to −0.3 of L1; every fourth problem has none."""
    g = _random("needle", index)
    d = 10_000
    lowest = -(10.0 ** _uniform(g, math.log10(0.011), math.log10(0.3)))
    s = (
        positive_semidefinite(d, largest=1.0, zeros=d // 4, seed=index)
        if index % 4 == 0
        else rank_one_negative(d, lowest=lowest, largest=1.0, seed=index)
    )
    power, size = _integer(g, 3, 4), 10.0 ** _uniform(g, -1.0, 0.5)
    exact, problem = (
        prescribed_spectrum(s, power=power, rotation_seed=index, dtype=t) for t in (torch.float64, DTYPES[precision])
    )
    # Half of the points at 0, and half shifted away from it.
    shift = (size * _normal(g, d) / 100.0 if index % 2 else torch.zeros(d).double()).to(DTYPES[precision])
    f = problem.objective.sample()
    objective: Objective = Function(lambda x: f.value_and_grad(x - shift), gradient=True)
    if precision == "bf16":
        shift = rounded(shift)
        objective = low_precision(objective)
    return Case(
        objective=objective,
        x=shift,
        lowest=float(s[0]),
        largest=1.0,
        curvature=_hessian(exact.objective, torch.zeros(d, dtype=torch.float64)),
    )


def symmetric(index: int, precision: str) -> Case:
    """Saddles and minima that a symmetry makes exact: factors, chains, tensors, two-layer linear networks."""
    g = _random("symmetric", index)
    which = _integer(g, 0, 30)
    seed = _integer(g, 0, 10**6)
    values = (0.5 + 4.0 * torch.rand(3, generator=g, dtype=torch.float64)).sort(descending=True).values
    size, length = _integer(g, 4, 12), _integer(g, 2, 20)

    def factors(dtype: torch.dtype) -> Problem:
        return symmetric_factorisation(values, size=size, rank=3, seed=seed, dtype=dtype)

    def chain(dtype: torch.dtype) -> Problem:
        return saddle_chain(length=length, dtype=dtype)

    def tensor(dtype: torch.dtype) -> Problem:
        return tensor_decomposition(dimension=size, rotation_seed=seed, dtype=dtype)

    def layers(dtype: torch.dtype) -> Problem:
        return linear_network(values[:2], width=3, inputs=size, outputs=4, num_samples=2 * size, seed=seed, dtype=dtype)

    return known((factors, chain, tensor, layers)[index % 4], which, precision)


def blocks(index: int, precision: str) -> Case:
    """Equal blocks side by side, f(x) = Σ_k f₀(x_k): every eigenvalue as often as there are blocks.

    All blocks at the saddle of f₀, all at its minimum, or one at the saddle and the others at the minimum.
    """
    g = _random("blocks", index)
    copies, size, seed = _integer(g, 2, 12), _integer(g, 3, 6), _integer(g, 0, 10**6)

    def make(dtype: torch.dtype) -> Problem:
        return tensor_decomposition(dimension=size, rotation_seed=seed, dtype=dtype)

    exact, problem = make(torch.float64), make(DTYPES[precision])
    saddle = _integer(g, 0, len(exact.saddles) - 1)
    at_saddle = [index % 3 == 0 or (index % 3 == 1 and k == 0) for k in range(copies)]

    def points(of: Problem) -> list[StationaryPoint]:
        return [of.saddles[saddle] if s else of.minima[0] for s in at_saddle]

    f = problem.objective.sample()

    def value_and_grad(x: Tensor) -> tuple[Tensor, Tensor]:
        answers = [f.value_and_grad(part) for part in x.view(copies, size)]
        return torch.stack([value for value, _ in answers]).sum(), torch.cat([grad for _, grad in answers])

    objective: Objective = Function(value_and_grad, gradient=True)
    x = torch.cat([p.point for p in points(problem)])
    parts = [_hessian(exact.objective, part) for part in x.double().view(copies, size)]
    return Case(
        objective=low_precision(objective) if precision == "bf16" else objective,
        x=x,
        lowest=min(p.lowest_curvature for p in points(exact)),
        largest=max(p.largest_curvature for p in points(exact)),
        curvature=lambda v: sum(q(part) for q, part in zip(parts, v.view(copies, size), strict=True)),
    )


# --- Equal hidden units ---------------------------------------------------------------------------------------------

UNITS_DATA, UNITS_INPUTS, UNITS_NETS = 24, 3, 40


def _network_loss(x: Tensor, inputs: Tensor, targets: Tensor, width: int, autocast: bool = False) -> Tensor:
    w, a = x[: width * UNITS_INPUTS].view(width, UNITS_INPUTS), x[width * UNITS_INPUTS :].view(1, width)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        outputs = torch.nn.functional.linear(torch.tanh(torch.nn.functional.linear(inputs, w)), a)
    return 0.5 * (outputs.to(x.dtype)[:, 0] - targets).square().mean() + 0.005 * x.square().sum()


@functools.cache
def _narrow_network(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Data of two units, and a stationary point of a network with one, by Newton's method to the last digit."""
    for attempt in range(100):
        g = torch.Generator().manual_seed(1000 * seed + attempt)
        inputs = _normal(g, UNITS_DATA, UNITS_INPUTS)
        targets = torch.tanh(inputs @ _normal(g, UNITS_INPUTS, 2)) @ _normal(g, 2)
        x = _normal(g, UNITS_INPUTS + 1)

        def loss(x: Tensor, inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
            return _network_loss(x, inputs, targets, 1)

        x.requires_grad_(True)
        lbfgs = torch.optim.LBFGS([x], max_iter=200, line_search_fn="strong_wolfe")

        def closure(x: Tensor = x, lbfgs: torch.optim.LBFGS = lbfgs) -> Tensor:
            lbfgs.zero_grad()
            value = loss(x)
            value.backward()
            return value

        lbfgs.step(closure)
        x = x.detach()
        for _ in range(4):
            x = x - torch.linalg.solve(torch.func.hessian(loss)(x), torch.func.grad(loss)(x))
        if float(torch.func.grad(loss)(x).norm()) < 1e-13 and abs(float(x[-1])) > 0.1:
            return inputs, targets, x
    raise RuntimeError(f"no stationary point found for network {seed}")


def equal_units(index: int, precision: str) -> Case:
    """A trained tanh unit copied into 2 to 4 equal ones: stationary by symmetry, most often a saddle.

    With k equal units, w_j = w and a_j = a/k in front of a penalty that is weighted so that the gradient stays zero.
    """
    g = _random("equal_units", index)
    inputs, targets, narrow = _narrow_network(index % UNITS_NETS)
    copies, dtype = _integer(g, 2, 4), DTYPES[precision]
    w, a = narrow[:UNITS_INPUTS], narrow[UNITS_INPUTS:]
    exact = torch.cat([w.repeat(copies), (a / copies).repeat(copies)])
    # The penalty 0.005‖(w, a)‖² of one unit becomes 0.005(Σ‖w_j‖²/k + kΣa_j²): the same slope along equal units.
    penalty = torch.cat([torch.full((copies * UNITS_INPUTS,), 1.0 / copies), torch.full((copies,), float(copies))])

    def loss(x: Tensor, autocast: bool, rows: Tensor, labels: Tensor) -> Tensor:
        plain = _network_loss(x, rows, labels, copies, autocast) - 0.005 * x.square().sum()
        return plain + 0.005 * (penalty.to(x.dtype) * x.square()).sum()

    x = exact.to(dtype)
    rows, labels = inputs.to(dtype), targets.to(dtype)
    low = precision == "bf16"

    def truth(x: Tensor) -> Tensor:
        return loss(x, False, inputs, targets)

    hessian = torch.func.hessian(truth)(x.double())
    eigenvalues = torch.linalg.eigvalsh(hessian)
    return Case(
        objective=Function(lambda x: loss(x, low, rows, labels)),
        x=x,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ hessian @ v),
        gradient_norm=float(torch.func.grad(truth)(x.double()).norm()),
        seed=index,
    )


# --- Finite sums, of which a part is drawn ---------------------------------------------------------------------------


def _sampled_quadratics(family: str, index: int, precision: str, *, negative: bool) -> Case:
    """F = (1/n) Σ ½zᵀ(H + N_i)z + b_iᵀz with z = x − x₀, random N_i and b_i that sum to zero, and m of the n drawn.

    ‖(1/m)ΣN_i‖ is 0.03 to 2 times the distance of λ_min(H) from zero: from samples that tell the sign to samples that
    have the wrong one as often as not.
    """
    g = _random(family, index)
    d, n, m = _integer(g, 2, 12), 512, (32, 64, 128)[index % 3]
    size = _uniform(g, 0.05, 0.3)
    s = torch.rand(d, generator=g, dtype=torch.float64)
    s[0], s[-1] = (-size if negative else size), 1.0
    if not negative:
        s.clamp_(min=size)
    rotation, _ = torch.linalg.qr(_normal(g, d, d))
    hessian = rotation @ torch.diag(s) @ rotation.T
    noise = _normal(g, n, d, d)
    noise = noise + noise.transpose(1, 2)
    noise -= noise.mean(0)
    of_sample = float(torch.linalg.eigvalsh(noise[:m].mean(0)).abs().max())
    noise *= size * 10.0 ** _uniform(g, -1.5, 0.3) / of_sample
    slopes = _normal(g, n, d)
    slopes = (slopes - slopes.mean(0)) * 10.0 ** _uniform(g, -5.0, -2.0)
    dtype, low = DTYPES[precision], precision == "bf16"
    x0 = (torch.zeros(d).double() if index % 2 else _normal(g, d)).to(dtype)
    if low:
        x0 = rounded(x0)

    def value_and_grad(x: Tensor, hessians: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
        z = (rounded(x) if low else x) - x0
        slope, hz = slopes.mean(0), hessians.mean(0) @ z
        grad = rounded(hz + slope) if low else hz + slope
        return 0.5 * torch.dot(z, hz) + torch.dot(slope, z), grad

    total = (hessian + noise).mean(0)
    eigenvalues = torch.linalg.eigvalsh(total)
    return Case(
        objective=FiniteSum(value_and_grad, (hessian + noise).to(dtype), slopes.to(dtype), gradient=True),
        x=x0,
        lowest=float(eigenvalues[0]),
        largest=float(eigenvalues.abs().max()),
        curvature=lambda v: float(v @ total @ v),
        gamma=(0.8 * size if negative else size) if index % 4 else None,
        samples=m,
        seed=index,
    )


def sample_negative(index: int, precision: str) -> Case:
    """F is positive definite, and the m samples drawn often are not."""
    return _sampled_quadratics("sample_negative", index, precision, negative=False)


def sample_positive(index: int, precision: str) -> Case:
    """F has λ_min below −γ, and the m samples drawn often have not."""
    return _sampled_quadratics("sample_positive", index, precision, negative=True)


@functools.cache
def _sensing(kind: int, seed: int, dtype: torch.dtype) -> Problem:
    if kind:
        return phase_retrieval(dimension=6, measurements=400, seed=seed, dtype=dtype)
    return matrix_sensing(size=4, rank=2, measurements=400, seed=seed, dtype=dtype)


def sensing(index: int, precision: str) -> Case:
    """Phase retrieval and matrix sensing from a quarter of the measurements: components with heavy tails."""
    g = _random("sensing", index)
    kind, seed = index % 2, _integer(g, 0, 9)
    case = known(lambda dtype: _sensing(kind, seed, dtype), _integer(g, 0, 5), "float64")
    dtype = DTYPES[precision]
    objective: Objective = _sensing(kind, seed, dtype).objective
    if precision == "bf16":
        objective = _RoundedSum(objective)
    return Case(
        objective=objective,
        x=case.x.to(dtype),
        lowest=case.lowest,
        largest=case.largest,
        curvature=case.curvature,
        samples=100,
        seed=index,
    )


class _RoundedSum:
    """A finite sum whose samples compute in bfloat16."""

    def __init__(self, inner: Objective) -> None:
        self._inner, self.num_samples = inner, inner.num_samples

    def sample(self, size=None, generator=None, *, replacement=False, hessian=False, ledger=None):  # type: ignore[no-untyped-def]
        from unsaddle.objective import freeze

        f = self._inner.sample(size, generator, replacement=replacement)
        return freeze(low_precision(_Frozen(f))._oracle, f.size, hessian, ledger)


class _Frozen:
    num_samples = 1

    def __init__(self, f: object) -> None:
        self._f = f

    def sample(self, *_: object, **__: object):  # type: ignore[no-untyped-def]
        return self._f


# --- Every problem of the zoo ----------------------------------------------------------------------------------------

ZOO_SEEDS = 50


@functools.cache
def _zoo(dtype: torch.dtype) -> tuple[Problem, ...]:
    return zoo(dtype)


@functools.cache
def zoo_points() -> tuple[tuple[int, int], ...]:
    """(problem, stationary point) of the zoo, without the degenerate one, which has no right answer but "undecided"."""
    return tuple(
        (i, j)
        for i, problem in enumerate(_zoo(torch.float64))
        for j, point in enumerate(problem.stationary_points)
        if point.kind != "degenerate"
    )


def whole_zoo(index: int, precision: str) -> Case:
    """Every stationary point of every problem of the zoo, 50 seeds each."""
    problem, point = zoo_points()[index // ZOO_SEEDS]
    return known(lambda dtype: _zoo(dtype)[problem], point, precision, seed=index % ZOO_SEEDS)


FAMILIES: dict[str, Callable[[int, str], Case]] = {
    "random spectra": random_spectra,
    "near-ties": ties,
    "-gamma(1±0.1)": threshold,
    "needle, d=1e4": needle,
    "symmetric": symmetric,
    "equal units": equal_units,
    "equal blocks": blocks,
    "sample negative": sample_negative,
    "sample positive": sample_positive,
    "sensing, sampled": sensing,
    "badly scaled": badly_scaled,
    "large gradient": steep,
    "zoo": whole_zoo,
}
