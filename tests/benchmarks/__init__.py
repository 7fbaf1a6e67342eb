"""Benchmarks, side by side with peers and plain references: `python tests/benchmarks`. Not part of the test suite."""
