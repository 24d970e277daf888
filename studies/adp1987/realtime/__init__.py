"""Modern ADP beside WireGuard, ESP and no protection: the same messages, in real time."""
