"""One repetition: configure, drive the daemons, capture, verify, record."""
