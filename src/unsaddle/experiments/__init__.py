"""Experiments: the paper's, as jobs that a harness turns into rows. They need the extra `cli`."""
