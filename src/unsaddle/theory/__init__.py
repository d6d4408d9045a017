"""Formulas of theorems, one file a source. Nothing here evaluates a function."""
