"""Measure a plan on several machines: the workers of a dask cluster share its testbeds."""
