"""The rivals of NEON-A, one a file: the methods of Table 1, and the perturbation methods that NEON is modelled on."""
