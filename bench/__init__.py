"""Benchmarks of qop itself: speed, accuracy of emulation, and behaviour under faults."""
