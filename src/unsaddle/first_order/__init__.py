"""First-order stochastic methods, one a file: each takes (F, x, generator) to (y, z), as Algorithm 4 wants it."""
