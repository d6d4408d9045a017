"""NEON-A, Algorithm 4: promotes any first-order method to second-order stationary points."""

from unsaddle.framework.neon_a import neon_a
from unsaddle.framework.plan import Evidence, Plan
from unsaddle.framework.practical_plan import PracticalPlan
from unsaddle.framework.theory_plan import TheoryPlan

__all__ = ["Evidence", "Plan", "PracticalPlan", "TheoryPlan", "neon_a"]
