"""Libraries preloaded into unmodified daemons: their public-key work as a device does it."""
