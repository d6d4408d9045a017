"""A torch model, its loss and its data as an objective."""

from unsaddle.objectives.model.objective import ModelObjective

__all__ = ["ModelObjective"]
