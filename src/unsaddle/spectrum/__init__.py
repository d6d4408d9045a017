"""The spectrum of the Hessian at a point, with gradients only: eigenpairs, Morse index, density."""

from unsaddle.spectrum.density import spectral_density
from unsaddle.spectrum.index import morse_index
from unsaddle.spectrum.layers import Layer, Layers, spectrum_by_layer
from unsaddle.spectrum.operator import HessianOperator, hessian_operator
from unsaddle.spectrum.pairs import eigenpairs
from unsaddle.spectrum.result import Density, Eigenpairs, MorseIndex, Status

__all__ = [
    "Density",
    "Eigenpairs",
    "HessianOperator",
    "Layer",
    "Layers",
    "MorseIndex",
    "Status",
    "eigenpairs",
    "hessian_operator",
    "morse_index",
    "spectral_density",
    "spectrum_by_layer",
]
