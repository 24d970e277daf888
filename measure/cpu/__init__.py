"""CPU time of nodes, clocks, and scheduling priorities on host and guest."""
