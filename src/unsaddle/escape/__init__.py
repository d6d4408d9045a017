"""Escape from a saddle: steps along a direction of negative curvature, and searches for their length."""

from unsaddle.escape.steps import against_gradient, at_random, better_sign, by_line_search

__all__ = ["against_gradient", "at_random", "better_sign", "by_line_search"]
