"""Charges unmodified daemons for their public-key work, as a device says, in virtual time."""
