"""First-order stochastic methods, one a file. Each maps (F, x, generator) to (y, z), as Algorithm 4 needs it."""
