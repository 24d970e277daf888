"""Study of Debian releases: what an upgrade of the daemons changes for a security policy."""
