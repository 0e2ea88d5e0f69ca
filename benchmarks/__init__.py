"""Benchmarks: programs that measure, on the reader's own mail."""
