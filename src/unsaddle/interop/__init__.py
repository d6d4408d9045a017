"""Thin adapters to other packages. Each is imported by its own name, and only then needs its package."""
