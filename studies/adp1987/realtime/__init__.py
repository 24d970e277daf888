"""Comparison of modern ADP with WireGuard, ESP and no protection in real time."""

#: Ending of negative controls that also exist over wires, under the name without it.
IN_REAL_TIME = "-in-real-time"
#: Negative controls that exist only in real time.
BESIDE, LONGER_TIMEOUT = "beside-tunnel", f"longer-timeout{IN_REAL_TIME}"
