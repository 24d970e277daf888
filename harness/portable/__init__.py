"""Pack and unpack results folders, and merge, verify and prune them."""
