"""Extractors of negative curvature, one in each file, and `negative_curvature`, which runs and checks them."""

from unsaddle.curvature.extract import negative_curvature
from unsaddle.curvature.result import Curvature, Status
from unsaddle.measure.direction import Measurement

__all__ = ["Curvature", "Measurement", "Status", "negative_curvature"]
