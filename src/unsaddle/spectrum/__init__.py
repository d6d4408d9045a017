"""The spectrum of the Hessian at a point, with gradients only: eigenpairs, Morse index, density."""
