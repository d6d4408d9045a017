"""Objectives: a plain function, a finite sum, a stream of samples, a torch model, NumPy callables."""

from unsaddle.objectives.finite_sum import FiniteSum
from unsaddle.objectives.function import Function
from unsaddle.objectives.model.objective import ModelObjective
from unsaddle.objectives.numpy_function import numpy_function
from unsaddle.objectives.stream import Stream

__all__ = ["FiniteSum", "Function", "ModelObjective", "Stream", "numpy_function"]
