"""What NEON-A is compared with in Table 1, and the perturbation methods it was modelled on, one a file."""
