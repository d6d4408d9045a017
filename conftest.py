"""Adapters to packages that are not installed cannot be looked through for examples."""

from importlib.util import find_spec

collect_ignore = [
    f"src/unsaddle/interop/{package}.py" for package in ("lightning", "transformers") if find_spec(package) is None
]
