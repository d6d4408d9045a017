"""The formulas of theorems, one file for each source. Nothing here evaluates a function."""
