"""Thin adapters to other packages. Import each by its own name; only then its package is needed."""
