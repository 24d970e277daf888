"""The emulated network: nodes, links, media and scenarios as data, and what builds them."""
