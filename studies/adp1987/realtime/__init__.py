"""Modern ADP beside WireGuard, ESP and no protection: the same messages, in real time."""

#: What ends the names of negative controls that are as over wires by what stands before it.
IN_REAL_TIME = "-in-real-time"
#: Negative controls that go with it, and no others.
BESIDE, LONGER_TIMEOUT = "beside-tunnel", f"longer-timeout{IN_REAL_TIME}"
