"""Sums on arrays, the one place that is tuned for speed: JAX, and in `host` sparse matrices that need no compiling.

Kernels know array layouts and nothing of engines or of any particular model. All of them run in float64 (inside
`double_precision`), so that sums over millions of labels stay exact to 1e-6 relative without tricks.
"""
