"""The composition root: command line, matrix, machines, and the flow of a run."""
