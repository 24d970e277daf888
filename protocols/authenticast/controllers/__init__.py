"""Controllers, which choose a stream's setting from the reports of its receiver."""
