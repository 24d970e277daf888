"""The channel over a policy on the air: the same messages, at home and through a handoff."""

#: Negative controls that go with it, and no others.
BESIDE, AROUND_THE_TUNNEL = "beside-channel", "messages-around-tunnel"
WITHOUT_WEP = "messages-without-wep"
CONTROLS = (BESIDE, AROUND_THE_TUNNEL, WITHOUT_WEP)
