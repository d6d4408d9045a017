"""Extractors of negative curvature, one a file, and `negative_curvature`, which runs and checks them."""

from unsaddle.curvature.extract import negative_curvature
from unsaddle.curvature.result import Curvature, Measurement, Status

__all__ = ["Curvature", "Measurement", "Status", "negative_curvature"]
