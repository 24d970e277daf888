"""The worker process inside a guest: it builds the network, starts daemons and measures."""
