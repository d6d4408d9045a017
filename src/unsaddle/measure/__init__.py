"""Measurements from a few gradients: rounding noise, curvature along a direction, sampling errors, L1."""
