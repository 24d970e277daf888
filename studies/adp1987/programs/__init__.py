"""Programs of adp1987 for nodes of the test network: senders, receivers and an attacker."""
