"""Live page with a dial for each client, for a running or a recorded run."""
