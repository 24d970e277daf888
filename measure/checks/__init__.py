"""Check from captures and kernel state that the nodes really apply a policy."""
