"""Benchmarks and fault injection for the harness itself."""
