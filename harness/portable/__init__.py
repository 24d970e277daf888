"""A results folder to take along: packed into one archive, unpacked, merged, checked, pruned."""
