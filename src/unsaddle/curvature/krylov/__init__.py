"""Krylov methods: one process, and its clients."""
