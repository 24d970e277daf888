"""The engine: from a plan of any study to its records."""
