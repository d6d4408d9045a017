"""Measurements that back the project's claims; each is run as `python -m benchmarks.NAME` from the project's root."""
