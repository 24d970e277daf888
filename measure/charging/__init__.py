"""Libraries preloaded into unmodified daemons: public-key work takes a device's time."""
