"""Problems whose answer is known: the paper's function, and a zoo of saddles with known spectra."""

from unsaddle.problems.embedded_digits import embedded_digits
from unsaddle.problems.hadamard_regression import hadamard_regression
from unsaddle.problems.linear_network import linear_network
from unsaddle.problems.matrix_sensing import matrix_sensing
from unsaddle.problems.phase_retrieval import phase_retrieval
from unsaddle.problems.prescribed_spectrum import prescribed_spectrum
from unsaddle.problems.problem import Constants, Problem, StationaryPoint
from unsaddle.problems.saddle_chain import saddle_chain
from unsaddle.problems.sigmoid_least_squares import sigmoid_least_squares
from unsaddle.problems.spectra import (
    around_threshold,
    near_ties,
    positive_semidefinite,
    random_spectrum,
    rank_one_negative,
)
from unsaddle.problems.symmetric_factorisation import symmetric_factorisation
from unsaddle.problems.tensor_decomposition import tensor_decomposition
from unsaddle.problems.two_dimensional_saddle import two_dimensional_saddle
from unsaddle.problems.zoo import zoo

__all__ = [
    "Constants",
    "Problem",
    "StationaryPoint",
    "around_threshold",
    "embedded_digits",
    "hadamard_regression",
    "linear_network",
    "matrix_sensing",
    "near_ties",
    "phase_retrieval",
    "positive_semidefinite",
    "prescribed_spectrum",
    "random_spectrum",
    "rank_one_negative",
    "saddle_chain",
    "sigmoid_least_squares",
    "symmetric_factorisation",
    "tensor_decomposition",
    "two_dimensional_saddle",
    "zoo",
]
