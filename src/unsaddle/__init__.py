"""Is it a minimum or a saddle, and which way is down? Answered with gradients only."""

from unsaddle.objectives import FiniteSum, Function, Stream, numpy_function

__all__ = ["FiniteSum", "Function", "Stream", "numpy_function"]
__version__ = "0.1.0"
