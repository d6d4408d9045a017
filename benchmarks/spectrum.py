"""The spectrum with gradients only: is it right, and what does it cost?

- *Eigenpairs*: the ten lowest and the ten highest eigenvalues of float32 networks that were trained for some hundred
  steps, and of the paper's function, beside `eigsh` on exact products in float64. Time beside plain gradients and, with
  `--peers`, beside other tools on the same task.
- *Morse index*: saddles of deep linear networks, spectra with clusters around −γ, trained networks with ReLU, and with
  `--molecules` structures at saddles (EMT, and GFN2-xTB of the extra `xtb`).
- *Density*: the L1 distance to the density of spectra that are known.
- *Errors*: whether the errors that `eigenpairs` states are large enough, against dense Hessians.

    python -m benchmarks.spectrum --peers --molecules --threads 1
"""

from __future__ import annotations

import copy
import math
import statistics
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import TensorDataset

from benchmarks import spectrum_peers as others
from benchmarks.environment import Report, options, table
from benchmarks.networks import in_double
from benchmarks.spectrum_cases import distance, index_cases, relu_network, spectra
from benchmarks.spectrum_errors import errors
from benchmarks.spectrum_peers import off_by, timed
from benchmarks.trained_networks import BATCH, Network, networks, trained
from unsaddle import (
    Eigenpairs,
    ModelObjective,
    MorseIndex,
    eigenpairs,
    morse_index,
    spectral_density,
    spectrum_by_layer,
)
from unsaddle.objective import Objective, SecondOrderFunction
from unsaddle.objectives.model.data import MICRO_BATCH
from unsaddle.problems import embedded_digits, prescribed_spectrum, sigmoid_least_squares

K = 10
WITHIN, GRADIENTS_A_PRODUCT, EXACT, L1 = 0.01, 1.2, 0.99, 0.02
NETWORKS = ("GPT-2", "TransformerEncoder, GELU", "GRU", "conv, GELU", "conv 28x28, GELU")
PAPERS = ((1797, 2000), (6000, 5000))
"""n and d of the paper's function."""
DELTA = 0.05


@dataclass(frozen=True)
class Case:
    """A point, and the truth there."""

    name: str
    objective: Objective
    x: torch.Tensor
    truth: np.ndarray
    network: Network | None = None
    rows: tuple[torch.Tensor, ...] = ()


def truth(f: SecondOrderFunction, x: torch.Tensor) -> np.ndarray:
    """The ends of the spectrum by eigsh on exact products in float64."""

    def product(v: np.ndarray) -> np.ndarray:
        with sdpa_kernel(SDPBackend.MATH):
            return f.hvp(x, torch.from_numpy(v.reshape(-1).copy())).numpy()

    operator = LinearOperator((x.numel(),) * 2, matvec=product, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=x.numel())
    found = eigsh(operator, k=2 * K, which="BE", tol=1e-5, ncv=100, v0=start, return_eigenvectors=False)
    return np.sort(found)


def network_case(name: str, make: Callable[[], Network], args: Namespace) -> Case:
    torch.manual_seed(args.seed)
    network = make()
    trained(network, args.steps, args.seed)
    rows = tuple(part[: args.rows] for part in network.rows)
    objective = ModelObjective(network.model, network.loss, TensorDataset(*rows))
    return Case(name, objective, objective.point, truth(*in_double(network, rows)), network, rows)


def paper_case(n: int, d: int, args: Namespace) -> Case:
    """On embedded digits. 6000 and 5000 are the sizes of the paper's data; rows are then drawn again, with noise."""
    generator = torch.Generator().manual_seed(args.seed)
    features, labels = embedded_digits(num_features=d)
    if n > len(labels):
        rows = torch.randint(len(labels), (n,), generator=generator)
        features, labels = features[rows], labels[rows]
        features += 0.1 * features.std() * torch.randn(features.shape, generator=generator, dtype=torch.float64)
    problem = sigmoid_least_squares(features, labels)
    x = torch.randn(d, generator=generator, dtype=torch.float64)
    exact = problem.objective.sample(hessian=True)
    assert isinstance(exact, SecondOrderFunction)
    return Case(f"the paper's function, n = {n}, d = {d}", problem.objective, x, truth(exact, x))


def look(case: Case, args: Namespace, report: Report) -> list[str]:
    """The public call with its defaults, over several seeds; and its time in plain gradients, interleaved."""
    f, ratios, found, seconds = case.objective.sample(), list[float](), list[Eigenpairs](), list[float]()
    batches = list(zip(*(part.split(MICRO_BATCH) for part in case.rows), strict=True))

    def plain() -> None:
        for _ in range(10):
            if case.network is None:
                f.grad(case.x)
            else:  # By autograd alone.
                own = [p for p in case.network.model.parameters() if p.requires_grad]
                for batch in batches:
                    torch.autograd.grad(case.network.loss(case.network.model, batch), own)

    for seed in range(args.starts):
        before = timed(plain)
        call = partial(eigenpairs, case.objective, case.x, lowest=K, highest=K, seed=seed)
        spent = timed(lambda call=call: found.append(call()))
        after = timed(plain)
        seconds.append(spent)
        ratios.append(spent / found[-1].cost.gradients / ((before + after) / 20.0))
    off = max(off_by(pairs.values, case.truth) for pairs in found)
    stated = max(float((pairs.errors / np.abs(pairs.values)).max()) for pairs in found)
    covered = statistics.fmean(
        float((np.abs(p.values - case.truth) <= p.errors + 1e-5 * np.abs(case.truth)).mean()) for p in found
    )
    ratio, gradients = statistics.median(ratios), statistics.median(p.cost.gradients for p in found)
    kind = Counter(p.status.name for p in found).most_common(1)[0][0]
    report.row(
        settings={"case": case.name}, status=kind, off=off, stated=stated, covered=covered, gradients=gradients,
        ratio=ratio, truth=case.truth.tolist(), bounds=[p.bound for p in found],
    )  # fmt: skip
    report.want(f"{case.name}: twenty eigenvalues off by", off, WITHIN)
    report.want(f"{case.name}: gradients of time a product", ratio, GRADIENTS_A_PRODUCT)
    if args.peers and case.network is not None:
        compare(case, statistics.median(seconds), args, report)
    return [
        case.name, f"{case.x.numel()}", f"{case.truth[0]:.4g} … {case.truth[K - 1]:.4g}",
        f"{case.truth[K]:.4g} … {case.truth[-1]:.4g}", kind, f"{off:.1e}", f"{stated:.1e}", f"{covered:.2f}",
        f"{gradients:.0f}", f"{ratio:.2f}",
    ]  # fmt: skip


def compare(case: Case, ours: float, args: Namespace, report: Report) -> None:
    """Peers, each after one of our calls, so that both meet the same machine."""
    assert case.network is not None
    rows = []
    for peer in others.peers(case.network, case.rows, case.truth, K):
        faster = alike = math.nan
        if peer.run is not None:
            ratios = list[tuple[float, float]]()
            for seed in range(args.starts):
                own = partial(eigenpairs, case.objective, case.x, lowest=K, highest=K, seed=seed)
                theirs = timed(peer.run)
                ratios.append((theirs / timed(own), theirs / timed(partial(own, copies=False))))
            faster, alike = (statistics.median(column) for column in zip(*ratios, strict=True))
        status = "done" if peer.run is not None else "fails"
        report.row(
            settings={"case": case.name, "peer": peer.name},
            status=status,
            faster=faster,
            alike=alike,
            told=peer.told,
            why=peer.why,
        )
        rows.append([peer.name, peer.told or "fails", peer.why or f"{peer.off:.1e}", f"{faster:.2f}", f"{alike:.2f}"])
        if peer.run is not None and "highest only" not in peer.name:
            report.want(f"{case.name}: times faster than {peer.name}", faster, math.inf, 1.0)
    table(
        f"{case.name}: ours takes {ours:.1f} s",
        ["peer", "told", "off by", "ours is faster, times", "with copies=False"],
        rows,
    )


def indices(args: Namespace, report: Report) -> None:
    tally, spent = defaultdict(Counter), defaultdict(list)

    def count(family: str, found: MorseIndex, true: int) -> None:
        inside = found.lower <= true <= found.upper
        tally[family]["exact" if inside and found.decided else "open" if inside else "outside"] += 1
        spent[family].append(found.cost.gradients / found.dimension)

    relu = (relu_network(seed, args.steps) for seed in range(args.seed, args.seed + args.relu))
    for i, case in enumerate(chain(index_cases(args.indices, args.seed), chain.from_iterable(relu))):
        found = morse_index(case.objective, case.x, gamma=case.gamma, delta=DELTA, seed=i)
        count(case.family, found, case.truth)
    if args.molecules:
        from benchmarks.spectrum_molecules import structures
        from unsaddle.interop import ase

        for family, atoms, true in structures(args.cache):
            count(family, ase.morse_index(atoms), true)
    rows = []
    for family, counts in tally.items():
        n = sum(counts.values())
        rows.append(
            [
                family,
                f"{n}",
                *(f"{counts[key]}" for key in ("exact", "open", "outside")),
                f"{statistics.median(spent[family]):.2f}",
            ]
        )
        report.want(f"Morse index, {family}: share outside of the bounds", counts["outside"] / n, DELTA)
    table("Morse index", ["", "cases", "exact", "open", "outside of the bounds", "gradients/d, median"], rows)
    total = sum(tally.values(), Counter())
    report.want(f"Morse index, exact of {total.total()}", total["exact"] / max(1, total.total()), 1.0, EXACT)


def densities(args: Namespace, report: Report) -> None:
    rows = []
    for name, spectrum in spectra(args.seed).items():
        for dtype in (torch.float64, torch.float32):
            problem = prescribed_spectrum(torch.from_numpy(spectrum), dtype=dtype)
            found = spectral_density(problem.objective, torch.zeros(len(spectrum), dtype=dtype), seed=args.seed)
            how = "all" if found.exact else f"{found.probes} × {found.steps}"
            off = distance(found, spectrum)
            trace = f"{found.trace:.4g} ± {found.trace_error:.1g} ({spectrum.sum():.4g})"
            rows.append([f"{name}, {dtype}".replace("torch.", ""), how, f"{found.cost.gradients}", f"{off:.4f}", trace])
            report.want(f"density, {name}, {dtype}: L1 distance", off, L1)
    table("density", ["", "probes × steps", "gradients", "L1 distance", "trace (truth)"], rows)


def draw(args: Namespace) -> int:
    """A conv net, layer by layer: extremes and densities."""
    torch.manual_seed(args.seed)
    network = networks()["conv, GELU, mean pooling"]()
    trained(network, args.steps, args.seed)
    rows = TensorDataset(*(part[:BATCH] for part in network.rows))
    found = spectrum_by_layer(ModelObjective(network.model, network.loss, rows), lowest=3, highest=3, seed=args.seed)
    print(found)
    found.plot().savefig(args.figure)
    return 0


def main() -> int:
    parser = options(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--rows", type=int, default=BATCH, help="of the frozen batch, for pairs")
    parser.add_argument("--starts", type=int, default=3, help="seeds of each case")
    parser.add_argument("--indices", type=int, default=600, help="cases of the Morse index")
    parser.add_argument("--relu", type=int, default=10, help="trained ReLU networks among them, in addition")
    parser.add_argument(
        "--peers", action="store_true", help="install other tools into a folder of their own, and compare"
    )
    parser.add_argument("--molecules", action="store_true", help="the Morse index of structures, too")
    parser.add_argument(
        "--cache", type=Path, default=Path("out/ase"), metavar="DIR", help="where relaxed molecules are kept"
    )
    parser.add_argument("--figure", type=Path, default=None, metavar="FILE", help="draw a conv net, layer by layer")
    parser.add_argument("--only", nargs="*", default=["pairs", "index", "density", "errors"], help="parts to run")
    parser.add_argument("--families", type=int, default=40, help="cases of each family of errors")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), metavar="PART", help="with this in their name")
    parser.add_argument("--networks-only", action="store_true", help="without the paper's function")
    args = parser.parse_args()
    report = Report.begin("spectrum", args)
    if args.figure is not None:
        return draw(args)
    if "pairs" in args.only:
        papers = [] if args.networks_only else PAPERS
        rows = [look(paper_case(n, d, args), args, report) for n, d in papers]
        for name, make in networks().items():
            if any(part in name for part in args.networks):
                rows.append(look(network_case(name, copy.copy(make), args), args, report))
        heads = ["", "d", "lowest", "highest", "status", "off by", "error stated", "covered", "gradients"]
        table("ten lowest, ten highest", [*heads, "gradients of time each"], rows)
    if "index" in args.only:
        indices(args, report)
    if "density" in args.only:
        densities(args, report)
    if "errors" in args.only:
        errors(args.families, args.seed, args.steps, report)
    return report.end(args.out)


if __name__ == "__main__":
    raise SystemExit(main())
