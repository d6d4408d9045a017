"""What is measured with a few gradients: noise, curvature along a direction, sampling errors, L1."""
