"""Controllers: what a stream's setting should be, from what its receiver reports."""
