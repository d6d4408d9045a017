"""One small instance of every problem, for tests that loop over all of them."""

from __future__ import annotations

from dataclasses import replace

import torch

from unsaddle.problems import spectra
from unsaddle.problems.arguments import generator, normal
from unsaddle.problems.dense import stationary_point
from unsaddle.problems.hadamard_regression import hadamard_regression
from unsaddle.problems.linear_network import linear_network
from unsaddle.problems.matrix_sensing import matrix_sensing
from unsaddle.problems.phase_retrieval import phase_retrieval
from unsaddle.problems.prescribed_spectrum import prescribed_spectrum
from unsaddle.problems.problem import Problem
from unsaddle.problems.saddle_chain import saddle_chain
from unsaddle.problems.sigmoid_least_squares import sigmoid_least_squares
from unsaddle.problems.symmetric_factorisation import symmetric_factorisation
from unsaddle.problems.tensor_decomposition import tensor_decomposition
from unsaddle.problems.two_dimensional_saddle import two_dimensional_saddle


def zoo(dtype: torch.dtype = torch.float64) -> tuple[Problem, ...]:
    """Problems of at most 60 dimensions, each with its own name and at least one known stationary point.

    >>> problems = zoo()
    >>> len({problem.name for problem in problems}) == len(problems)
    True
    """
    return (
        two_dimensional_saddle(dtype=dtype),
        *_spectra(dtype),
        symmetric_factorisation([4.0, 2.0, 1.0], size=10, rank=3, dtype=dtype),
        matrix_sensing(size=6, rank=2, measurements=60, dtype=dtype),
        phase_retrieval(dimension=10, measurements=100, dtype=dtype),
        tensor_decomposition(dimension=8, dtype=dtype),
        saddle_chain(length=10, dtype=dtype),
        linear_network([2.0, 1.0], layers=2, width=3, inputs=5, outputs=3, num_samples=16, dtype=dtype),
        linear_network([2.0, 1.0], layers=3, width=3, inputs=5, outputs=3, num_samples=16, dtype=dtype),
        hadamard_regression(num_weights=12, num_samples=60, nonzero=3, dtype=dtype),
        _balanced_sigmoid(dtype),
    )


def _spectra(dtype: torch.dtype) -> tuple[Problem, ...]:
    d = 30
    quartic = {
        "random spectrum": spectra.random_spectrum(d, lowest=-1.0, largest=4.0),
        "near-ties": spectra.near_ties(d, lowest=-1.0, largest=4.0),
        "just below −γ": spectra.around_threshold(d, gamma=0.5, side="below", largest=4.0),
        "just above −γ": spectra.around_threshold(d, gamma=0.5, side="above", largest=4.0),
        "rank-one negative part": spectra.rank_one_negative(d, lowest=-0.25, largest=4.0),
        "positive semi-definite": spectra.positive_semidefinite(d, largest=4.0, zeros=3),
        "positive definite": spectra.positive_semidefinite(d, largest=4.0, zeros=0),
    }
    cubic = spectra.random_spectrum(d, lowest=-1.0, largest=4.0, seed=1)
    return (
        *(replace(prescribed_spectrum(s, dtype=dtype), name=f"quartic, {name}") for name, s in quartic.items()),
        replace(prescribed_spectrum(cubic, power=3, dtype=dtype), name="cubic, random spectrum"),
    )


def _balanced_sigmoid(dtype: torch.dtype) -> Problem:
    """The paper's function on rows that each have both labels. So 0 is a minimum, with φ'' = 1/8 and h'' = 2."""
    n, d, penalty = 40, 20, 3.0
    rows = normal(n // 2, d, random=generator(0))
    features, labels = rows.repeat(2, 1), torch.arange(n) < n // 2
    eigenvalues = 2.0 + penalty / (8 * n) * torch.linalg.eigvalsh(features.T @ features)
    minimum = stationary_point(torch.zeros(d), "minimum", eigenvalues, dtype)
    problem = sigmoid_least_squares(features.to(dtype), labels, penalty=penalty)
    return replace(problem, name="sigmoid least squares, balanced", stationary_points=(minimum,))
