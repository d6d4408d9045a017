"""Objectives: a plain function, a finite sum, a stream of samples, NumPy callables."""

from unsaddle.objectives.finite_sum import FiniteSum
from unsaddle.objectives.function import Function
from unsaddle.objectives.numpy_function import numpy_function
from unsaddle.objectives.stream import Stream

__all__ = ["FiniteSum", "Function", "Stream", "numpy_function"]
