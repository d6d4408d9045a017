"""Is it a minimum or a saddle, and which way is down? Answered with gradients only."""

from unsaddle.cost import Cost
from unsaddle.curvature import Curvature, Measurement, NeonPlusSettings, NeonSettings, Status, negative_curvature
from unsaddle.judgement import Kind, Verdict, is_minimum
from unsaddle.methods import minimize
from unsaddle.objectives import FiniteSum, Function, ModelObjective, Stream, numpy_function
from unsaddle.run import Ending, Solution
from unsaddle.torch_optim import Event, Neon

__all__ = [
    "Cost",
    "Curvature",
    "Ending",
    "Event",
    "FiniteSum",
    "Function",
    "Kind",
    "Measurement",
    "ModelObjective",
    "Neon",
    "NeonPlusSettings",
    "NeonSettings",
    "Solution",
    "Status",
    "Stream",
    "Verdict",
    "is_minimum",
    "minimize",
    "negative_curvature",
    "numpy_function",
]
__version__ = "0.1.0"
