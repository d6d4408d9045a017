"""Extractors of negative curvature, one in each file, and `negative_curvature`, which runs and checks them."""

from unsaddle.curvature.extract import negative_curvature
from unsaddle.curvature.neon_settings import NeonPlusSettings, NeonSettings
from unsaddle.curvature.result import Curvature, Status
from unsaddle.measure.direction import Measurement

__all__ = ["Curvature", "Measurement", "NeonPlusSettings", "NeonSettings", "Status", "negative_curvature"]
