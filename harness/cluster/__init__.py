"""Measure a run on several machines, which are the workers of a dask cluster."""
