"""More machines: one plan, its policies shared out over the workers of a dask cluster."""
