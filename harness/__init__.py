"""The top package of the program: commands, engine and cluster."""
