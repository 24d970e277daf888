"""The channel over a policy on the air: the same messages, at home and through a handoff."""

#: Negative controls that are done while it is measured.
BESIDE, AROUND_THE_TUNNEL = "beside-channel", "messages-around-tunnel"
