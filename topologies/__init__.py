"""The emulated network as data, and code that builds it."""
