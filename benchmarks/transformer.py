"""Krylov on a trained character transformer: how near to the exact λ_min, with how many gradients, and how fast.

    python -m benchmarks.transformer --text FILE [--peer]

Trains a small transformer (default attention kernel) on the text for a few hundred steps. On one frozen batch it then
compares, all in one run:

- accuracy: `krylov` in float32, gradients only, against Lanczos in float64 with exact Hessian products (which need the
  slow MATH attention kernel): how many gradients and how many products until λ_min is within 2 %, with the basis that
  `negative_curvature` takes for such a vector, and for comparison with the 20 vectors that a larger one would get. The
  same for the paper's function on the embedded digits at x ~ N(0, I);
- time: one step over one gradient of the same model on the same batch, interleaved, for `krylov` and, with `--peer`,
  for hessian-eigenthings 1.0.0a5 by finite differences and by autograd on the MATH kernel. `--peer` installs that
  package into a folder of its own.
"""

from __future__ import annotations

import copy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.environment import ROOT, Report, options
from unsaddle import Function, vectors
from unsaddle.curvature import auto
from unsaddle.curvature.displaced import DisplacedFunction
from unsaddle.curvature.krylov.certificate import KrylovSettings, krylov
from unsaddle.curvature.krylov.extractor import FARTHEST, NOISE_SHARE
from unsaddle.curvature.krylov.lanczos import LanczosSettings, lanczos
from unsaddle.curvature.power import second_order
from unsaddle.measure import noise
from unsaddle.objective import Objective
from unsaddle.problems import embedded_digits, sigmoid_least_squares

CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 64, 96, 4, 3, 32
WITHIN = 0.02
EXTRA_GRADIENTS = 3
STEP_OVER_GRADIENT = 1.15
PEER = "hessian-eigenthings==1.0.0a5"


class Block(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class CharacterModel(nn.Module):
    """A causal transformer over characters."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, text: Tensor) -> Tensor:
        x = self.tokens(text) + self.places.weight[: text.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


Batch = tuple[Tensor, Tensor]


def loss(model: nn.Module, batch: Batch) -> Tensor:
    logits = model(batch[0])
    return functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten())


def batches(text: Tensor, generator: torch.Generator) -> Batch:
    starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=generator)
    windows = torch.stack([text[s : s + CONTEXT + 1] for s in starts])
    return windows[:, :-1], windows[:, 1:]


def trained(text: Tensor, characters: int, steps: int, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = CharacterModel(characters)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, batches(text, generator)).backward()
        optimizer.step()
    return model


def flat_objective(model: nn.Module, batch: Batch) -> tuple[Function, Tensor]:
    """The loss as a function of one flat vector, and the vector that the model is at."""
    parameters = dict(model.named_parameters())
    sizes = [p.numel() for p in parameters.values()]

    def fun(x: Tensor) -> Tensor:
        pieces = zip(parameters.items(), x.split(sizes), strict=True)
        views = {name: piece.view(p.shape) for (name, p), piece in pieces}
        logits = torch.func.functional_call(model, views, (batch[0],))
        return functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten())

    return Function(fun), torch.cat([p.detach().flatten() for p in parameters.values()])


def settings(f_hat: DisplacedFunction, near: noise.GradientNoise, steps: int, basis: int) -> KrylovSettings:
    """As `negative_curvature` makes them in float32, but with nothing to stop at before `steps`."""
    return KrylovSettings(
        num_steps=steps,
        delta=1e-100,
        accuracy=0.0,
        noise=near.noise,
        noise_share=NOISE_SHARE[torch.float32],
        smallest_radius=10.0 * torch.finfo(torch.float32).eps * f_hat.x_norm,
        largest_radius=FARTHEST * f_hat.x_norm,
        first_curvature=near.curvature,
        basis=basis,
    )


def until_within(curve: Sequence[float], truth: float) -> int | None:
    return next((i + 1 for i, q in enumerate(curve) if abs(q - truth) <= WITHIN * abs(truth)), None)


def accuracy(
    report: Report, name: str, exact: Objective, approximate: Objective, x: Tensor, steps: int, seed: int
) -> None:
    """λ_min at x by exact products in float64 and by gradients in float32, from the same start.

    What counts is the exact curvature along krylov's direction, not what its own Ritz value claims.
    """
    random = torch.Generator().manual_seed(seed)
    start = vectors.random_direction(x.double(), random)
    f = second_order(exact.sample(hessian=True))

    def curvature(v: Tensor) -> float:
        v = v.double()
        with sdpa_kernel(SDPBackend.MATH):
            return float(v @ f.hvp(x.double(), v)) / float(v @ v)

    with sdpa_kernel(SDPBackend.MATH):
        endless = LanczosSettings(num_steps=steps, target=float("inf"))
        reference = lanczos(f, x.double(), endless, random, keep_history=True, start=start)
    truth = reference.lowest
    products = until_within([q for _, q in reference.history], truth)
    print(f"{name}: λ_min by {steps} exact products in float64 {truth:.4f}; {products} products to within {WITHIN:.0%}")
    assert products is not None
    default = auto.basis_size(x, auto.free_memory(x.device))
    for basis in dict.fromkeys((default, auto.BASIS)):
        f_hat = DisplacedFunction(approximate.sample(), x)
        noise_seed = torch.Generator().manual_seed(seed + 1)
        near = noise.gradient_noise(f_hat.f.grad, x, f_hat.x_norm, f_hat.grad0, noise_seed)
        last: list[Tensor] = []
        found = krylov(
            f_hat,
            settings(f_hat, near, products + EXTRA_GRADIENTS - f_hat.f.ledger.gradients, basis),
            random,
            start=start.float(),
            observer=lambda _, v, last=last: last.__setitem__(slice(None), [v]),
        )
        gradients, along = f_hat.f.ledger.gradients, curvature(last[0])
        print(
            f"  krylov in float32, basis {basis}: after {gradients} gradients, ∇f(x) and two for the noise included, "
            f"{along:.4f}, by its own account {found.lowest:.4f} (radius {found.scale.radius:.1e}, "
            f"‖x‖ {f_hat.x_norm:.1f}, σ {near.noise:.1e}, L1 {found.scale.smoothness:.2f})"
        )
        report.row(
            settings={"function": name, "steps": steps, "basis": basis},
            status="done",
            truth=truth,
            krylov=along,
            ritz=found.lowest,
            products=products,
            gradients=gradients,
        )
        if basis != default:
            continue  # For comparison.
        report.want(
            f"{name}: distance from λ_min after {EXTRA_GRADIENTS} gradients more than products",
            abs(along / truth - 1.0),
            at_most=WITHIN,
        )


def paper_function(dtype: torch.dtype) -> Objective:
    features, labels = embedded_digits(dtype=dtype)
    return sigmoid_least_squares(features, labels, penalty=3.0).objective


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def speed(report: Report, model: nn.Module, batch: Batch, steps: int, rounds: int, peer: bool) -> None:
    objective, x = flat_objective(model, batch)
    f_hat = DisplacedFunction(objective.sample(), x)
    near = noise.gradient_noise(f_hat.f.grad, x, f_hat.x_norm, f_hat.grad0, torch.Generator().manual_seed(0))
    chosen = settings(f_hat, near, steps, auto.basis_size(x, auto.free_memory(x.device)))
    parameters = list(model.parameters())
    runs: dict[str, tuple[int, Callable[[], object]]] = {
        "gradient": (1, lambda: torch.autograd.grad(loss(model, batch), parameters)),
        "krylov": (steps, lambda: krylov(f_hat, chosen, torch.Generator().manual_seed(0))),
    }
    if peer:
        runs |= peer_runs(model, batch, steps)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (count, run) in runs.items():
            # Several gradients, so that the unit is measured over as long a time as what it measures.
            repeats = steps if name == "gradient" else 1
            times[name].append(sum(timed(run) for _ in range(repeats)) / (repeats * count))
    unit = statistics.median(times["gradient"])
    print(f"one gradient: {unit * 1e3:.1f} ms; {steps} Lanczos steps, median of {rounds} rounds")
    for name, values in times.items():
        ratio = statistics.median(values) / unit
        spread = (min(values) / unit, max(values) / unit)
        print(f"  {name:32} {ratio:5.2f} gradients a step   ({spread[0]:.2f} … {spread[1]:.2f})")
        report.row(settings={"steps": steps, "method": name}, status="done", ratio=ratio, spread=spread)
    report.want(
        "krylov, gradients of time a step", statistics.median(times["krylov"]) / unit, at_most=STEP_OVER_GRADIENT
    )


def peer_runs(model: nn.Module, batch: Batch, steps: int) -> dict[str, tuple[int, Callable[[], object]]]:
    """The peer's Lanczos with as many steps, by finite differences and by autograd."""
    folder = Path(tempfile.gettempdir()) / "unsaddle-peer"
    if not folder.exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(folder),
            PEER,
            "tqdm",
        ]
        subprocess.run(command, check=True)
    sys.path.append(str(folder))
    from hessian_eigenthings import HessianOperator
    from hessian_eigenthings import lanczos as their_lanczos

    def run(method: str) -> object:
        operator = HessianOperator(model, [batch], loss, method=method)
        return their_lanczos(operator, k=1, max_iter=steps, which="SA", seed=0, reorthogonalize=True)

    def by_autograd() -> object:
        with sdpa_kernel(SDPBackend.MATH):
            return run("autograd")

    return {
        f"{PEER}, differences": (steps, lambda: run("finite_difference")),
        f"{PEER}, autograd (MATH)": (steps, by_autograd),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=ROOT.parent / "shared" / "data" / "tinyshakespeare.txt")
    parser.add_argument("--training", type=int, default=300, help="steps of training")
    parser.add_argument("--steps", type=int, default=30, help="Lanczos steps that are timed")
    parser.add_argument("--reference", type=int, default=60, help="Lanczos steps of the exact reference")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--time-only", action="store_true", help="leave the accuracy out")
    parser.add_argument("--peer", action="store_true", help=f"install and time {PEER}, too")
    chosen = parser.parse_args(arguments)
    report = Report.begin("transformer", chosen)
    raw = chosen.text.read_text()
    alphabet = sorted(set(raw))
    text = torch.tensor([alphabet.index(c) for c in raw[:200_000]])
    model = trained(text, len(alphabet), chosen.training, chosen.seed)
    batch = batches(text, torch.Generator().manual_seed(chosen.seed + 1))
    count = sum(p.numel() for p in model.parameters())
    print(f"{count} parameters, loss {float(loss(model, batch).detach()):.3f} after {chosen.training} steps")
    if not chosen.time_only:
        exact, _ = flat_objective(copy.deepcopy(model).double(), batch)
        approximate, x = flat_objective(model, batch)
        accuracy(report, "transformer", exact, approximate, x, chosen.reference, chosen.seed)
        for seed in range(3):
            x = torch.randn(5000, generator=torch.Generator().manual_seed(seed))
            exact, approximate = paper_function(torch.float64), paper_function(torch.float32)
            accuracy(
                report, f"paper's function, x of seed {seed}", exact, approximate, x, chosen.reference, chosen.seed
            )
    speed(report, model, batch, chosen.steps, chosen.rounds, chosen.peer)
    return report.end(chosen.out)


if __name__ == "__main__":
    raise SystemExit(main())
