"""Experiments: the paper's problem on embedded data. They need the extra `demo`."""
