"""More machines: one plan, its testbeds shared out over the workers of a dask cluster."""
