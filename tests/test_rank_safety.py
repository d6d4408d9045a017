"""On several ranks a vector is this rank's part of it: what is true of the whole comes from `vectors`.

In the rooms where algorithms work on vectors, `x.numel()` is no dimension, `torch.randn` no noise that ranks agree on,
and `u @ v` no inner product. What does not concern a part of a vector is allowed by name, with its reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.source import files

ROOMS = (
    "curvature/",
    "judgement/",
    "spectrum/",
    "measure/",
    "metric/",
    "escape/",
    "first_order/",
    "framework/",
    "baselines/",
    "theory/",
    "torch_optim/",
)

POINTS = {"x", "y", "z", "u", "v", "w", "grad", "gradient", "direction", "point"}
"""Names that vectors go by: `len` of anything else is taken for the length of a list."""

RANDOM = {"rand", "randn", "normal", "rand_like", "randn_like", "normal_", "uniform_"}
PRODUCTS = {"dot", "vdot", "inner", "mv", "matmul", "mm", "bmm", "einsum", "tensordot"}
REDUCTIONS = {"norm", "vector_norm", "sum", "mean", "std", "var", "max", "min", "amax", "amin", "argmax", "any", "all"}

SCALAR = "one number, from a generator that all ranks have alike"
BLOCKS = "parts of a block, which `vectors.total` sums over blocks and ranks"
HERE = "the room that this rank's part needs"
SMALL = "the small matrix, which all ranks hold alike"
VALUES = "eigenvalues, which all ranks hold alike"
SUMMED = "handed to `vectors.summed` in the same line or the next"
WHOLE = "a matrix, which is refused where ranks hold parts"
COUNT = "how many vectors a basis holds"
COMBINED = "a combination of basis vectors: this rank's rows of it"

ALLOWED = {
    ("curvature/auto.py", "basis_size", "numel"): f"{HERE}; the smallest over ranks is taken",
    ("curvature/krylov/process.py", "__init__", "numel"): HERE,
    ("curvature/krylov/process.py", "ritz_vectors", "@"): COMBINED,
    ("curvature/krylov/process.py", "restart", "@"): COMBINED,
    ("curvature/krylov/process.py", "_products", "mv"): SUMMED,
    ("curvature/krylov/process.py", "_products", "sum"): SUMMED,
    ("curvature/krylov/process.py", "_column_blocks", "shape"): HERE,
    ("curvature/krylov/process.py", "_purify", "@"): SUMMED,
    ("curvature/krylov/projection.py", "log_missed_at", "@"): SMALL,
    ("curvature/krylov/projection.py", "log_missed_at", "any"): SMALL,
    ("curvature/neon.py", "_sweep", "dot"): BLOCKS,
    ("curvature/neon_plus.py", "_sweep", "dot"): BLOCKS,
    ("measure/noise.py", "is_low_precision", "sum"): BLOCKS,
    ("measure/noise.py", "off_grid", "sum"): BLOCKS,
    ("measure/where.py", "_not_finite_in", "sum"): BLOCKS,
    ("measure/where.py", "_shares", "sum"): BLOCKS,
    ("metric/given.py", "as_map", "shape"): WHOLE,
    ("metric/given.py", "_of_inverse_hessian", "all"): WHOLE,
    ("metric/given.py", "_of_inverse_hessian", "max"): WHOLE,
    ("metric/given.py", "_of_inverse_hessian", "shape"): WHOLE,
    ("metric/given.py", "_of_two_maps", "max"): WHOLE,
    ("metric/given.py", "_of_two_maps", "numel"): WHOLE,
    ("metric/given.py", "_answered", "all"): WHOLE,
    ("metric/given.py", "_sizes_of", "all"): "a wrong part is raised on all ranks",
    ("metric/maps.py", "diagonal", "numel"): HERE,
    ("metric/maps.py", "diagonal", "min"): "of this rank's part; the smallest over ranks is taken",
    ("metric/maps.py", "diagonal", "max"): "of this rank's part; the largest over ranks is taken",
    ("metric/maps.py", "diagonal", "amin"): "over ranks",
    ("metric/maps.py", "apply", "@"): WHOLE,
    ("metric/maps.py", "solve", "@"): WHOLE,
    ("spectrum/pairs.py", "worst", "argmax"): VALUES,
    ("spectrum/result.py", "__str__", "max"): VALUES,
    ("spectrum/result.py", "__str__", "min"): VALUES,
    ("spectrum/result.py", "__str__", "sum"): VALUES,
    ("spectrum/density.py", "_gaussians", "@"): VALUES,
    ("spectrum/density.py", "_checked_density", "@"): SMALL,
    ("spectrum/density.py", "_is_outside", "max"): VALUES,
    ("spectrum/density.py", "_is_outside", "min"): VALUES,
    ("spectrum/density.py", "_smoothed", "@"): VALUES,
    ("spectrum/density.py", "_smoothed", "max"): VALUES,
    ("spectrum/density.py", "_smoothed", "mean"): VALUES,
    ("spectrum/density.py", "_smoothed", "min"): VALUES,
    ("spectrum/density.py", "_smoothed", "std"): VALUES,
    ("spectrum/density.py", "_trace_error", "@"): VALUES,
    ("spectrum/ends.py", "_lacking", "any"): VALUES,
    ("spectrum/ends.py", "_lacking", "max"): VALUES,
    ("spectrum/ends.py", "errors", "min"): VALUES,
    ("spectrum/ends.py", "wanted", "sum"): VALUES,
    ("spectrum/index.py", "_index", "sum"): VALUES,
    ("spectrum/index.py", "run", "sum"): VALUES,
    ("spectrum/measured.py", "combined", "@"): COMBINED,
    ("spectrum/measured.py", "is_finite", "all"): VALUES,
    ("spectrum/measured.py", "_ritz", "@"): SMALL,
    ("spectrum/measured.py", "_ritz", "all"): SMALL,
    ("spectrum/measured.py", "measured", "all"): VALUES,
    ("spectrum/pairs.py", "basis_size", "numel"): f"{HERE}; the smallest over ranks is taken",
    ("spectrum/answer.py", "answer", "all"): VALUES,
    ("spectrum/refined.py", "refined", "max"): VALUES,
    ("spectrum/refined.py", "_ritz_pairs", "all"): VALUES,
    ("spectrum/refined.py", "_ritz_pairs", "any"): VALUES,
    ("spectrum/space.py", "project", "@"): SUMMED,
    ("first_order/scsg.py", "epoch_length", "rand"): SCALAR,
    ("baselines/svrg_hessian.py", "minimize", "rand"): SCALAR,
    ("torch_optim/state.py", "check_direction", "numel"): "compared with this rank's part of the parameters",
    ("torch_optim/flatness.py", "flat_tensors", "numel"): "parameters: of a sharded one this is the whole",
    ("torch_optim/monitor_limit.py", "sizes", "min"): "of this rank's part; the smallest over ranks is taken",
    ("torch_optim/monitor_limit.py", "sizes", "numel"): HERE,
    ("torch_optim/plateau.py", "record", "numel"): "a loss, not a vector",
    ("torch_optim/prober.py", "advance", "numel"): "this rank's part of the direction against that of the parameters",
    ("torch_optim/callers.py", "before", "any"): "heeded in one process only",
}
"""By file, function and construct: why it is right on a part."""


class Finder(ast.NodeVisitor):
    """Notes what would be this rank's part only, with the function that it stands in."""

    def __init__(self) -> None:
        self.function = "<module>"
        self.found: list[tuple[str, str, ast.expr]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.function = self.function, node.name
        self.generic_visit(node)
        self.function = outer

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.MatMult):
            self.note("@", node)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            self.note("shape", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        if isinstance(called, ast.Attribute) and self._is_tensor(called.value):
            if called.attr in {"numel", "nelement", "size"} | RANDOM | PRODUCTS | REDUCTIONS:
                self.note(called.attr, node)
        elif isinstance(called, ast.Name) and called.id == "len" and node.args:
            measured = node.args[0]
            name = getattr(measured, "attr", getattr(measured, "id", ""))
            if name in POINTS:
                self.note("len", node)
        self.generic_visit(node)

    def note(self, construct: str, node: ast.expr) -> None:
        self.found.append((self.function, construct, node))

    @staticmethod
    def _is_tensor(owner: ast.expr) -> bool:
        """Not a module of ours, nor a group of ranks, whose sums are over all."""
        return not (isinstance(owner, ast.Name) and owner.id in {"vectors", "ranks", "team", "statistics", "math"})


def suspects(tree: ast.Module) -> Iterator[tuple[str, str, ast.expr]]:
    finder = Finder()
    finder.visit(tree)
    yield from finder.found


WHAT_TO_DO = {
    "numel": "take `vectors.dimension(x)`",
    "len": "take `vectors.dimension(x)`",
    "shape": "take `vectors.dimension(x)`",
    **dict.fromkeys(RANDOM, "draw with `vectors.random_direction` or `vectors.random_in_ball`"),
    **dict.fromkeys(PRODUCTS | {"@"}, "take `vectors.dots`"),
    **dict.fromkeys(REDUCTIONS, "take `vectors.norm`, or sum products with `vectors.total`"),
}


def in_rooms() -> list[str]:
    return [path for path in files() if path.startswith(ROOMS)]


@pytest.mark.parametrize("path", in_rooms())
def test_nothing_true_of_a_part_is_taken_for_the_whole(path: str) -> None:
    wrong = [
        f"src/unsaddle/{path}:{node.lineno} in {function}: {ast.unparse(node)}: {WHAT_TO_DO.get(construct, '')}"
        for function, construct, node in suspects(files()[path])
        if (path, function, construct) not in ALLOWED
    ]
    assert not wrong, "\n".join(["on several ranks this is of a part of the vector:", *wrong])


def test_what_is_listed_is_there() -> None:
    there = {(path, function, what) for path in in_rooms() for function, what, _ in suspects(files()[path])}
    assert not ALLOWED.keys() - there, "unlist these in ALLOWED"


@pytest.mark.parametrize(
    ("line", "construct"),
    [
        ("d = run.x.numel()", "numel"),
        ("d = len(x)", "len"),
        ("d = self.point.shape[0]", "shape"),
        ("d = x.size(0)", "size"),
        ("w = torch.randn(3)", "randn"),
        ("w = torch.empty(3).normal_()", "normal_"),
        ("q = v @ f.hvp(x, v)", "@"),
        ("q = torch.dot(u, v)", "dot"),
        ("n = torch.linalg.vector_norm(u)", "vector_norm"),
        ("n = u.norm()", "norm"),
        ("n = u.square().sum()", "sum"),
    ],
)
def test_it_is_noticed(line: str, construct: str) -> None:
    assert [(f, what) for f, what, _ in suspects(ast.parse(f"def f(x):\n    {line}"))] == [("f", construct)]


@pytest.mark.parametrize(
    "line", ["n = vectors.norm(u)", "n = len(losses)", "d = vectors.dimension(x)", "m = max(1, 2)"]
)
def test_it_is_let_pass(line: str) -> None:
    assert not list(suspects(ast.parse(f"def f(x):\n    {line}")))
