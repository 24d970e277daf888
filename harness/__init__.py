"""The `qop` program: command line, measurement engine and cluster."""
