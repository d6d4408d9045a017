"""Is it a minimum or a saddle, and which way is down? Answered with gradients only."""

from unsaddle.cost import Cost
from unsaddle.curvature import Curvature, Measurement, NeonPlusSettings, NeonSettings, Status, negative_curvature
from unsaddle.judgement import Kind, Verdict, is_minimum
from unsaddle.measure.where import Where, where
from unsaddle.methods import minimize
from unsaddle.objectives import FiniteSum, Function, ModelObjective, Stream, numpy_function
from unsaddle.run import Ending, Solution
from unsaddle.spectrum import (
    Density,
    Eigenpairs,
    Layers,
    MorseIndex,
    eigenpairs,
    morse_index,
    spectral_density,
    spectrum_by_layer,
)
from unsaddle.torch_optim import CurvatureMonitor, CurvatureRow, Event, Neon

__all__ = [
    "Cost",
    "Curvature",
    "CurvatureMonitor",
    "CurvatureRow",
    "Density",
    "Eigenpairs",
    "Ending",
    "Event",
    "FiniteSum",
    "Function",
    "Kind",
    "Layers",
    "Measurement",
    "ModelObjective",
    "MorseIndex",
    "Neon",
    "NeonPlusSettings",
    "NeonSettings",
    "Solution",
    "Status",
    "Stream",
    "Verdict",
    "Where",
    "eigenpairs",
    "is_minimum",
    "minimize",
    "morse_index",
    "negative_curvature",
    "numpy_function",
    "spectral_density",
    "spectrum_by_layer",
    "where",
]
__version__ = "0.2.0"
