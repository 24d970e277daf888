"""Export, import, verify and prune results folders."""
