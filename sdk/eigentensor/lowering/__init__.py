"""Kernels over expressions → a valid program: what every front end goes through. Nothing here imports tinygrad."""
