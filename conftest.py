"""Adapters to packages that are not installed cannot be looked through for examples."""

from importlib.util import find_spec

collect_ignore_glob = [
    f"src/unsaddle/interop/{package}*"
    for package in ("lightning", "transformers", "scipy", "jax", "ase")
    if find_spec(package) is None
]
