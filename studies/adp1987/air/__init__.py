"""The channel over a policy on the air: the same messages, at home and through a handoff."""

#: Negative controls that go with it, and no others.
BESIDE, AROUND_THE_TUNNEL = "beside-channel", "messages-around-tunnel"
WITHOUT_WEP = "messages-without-wep"
#: As over wires, by what stands before the ending.
ON_AIR = "-on-air"
LONGER_TIMEOUT, UNVERIFIED = "longer-timeout-on-air", "unverified-owner-on-air"
SECOND_CHANNEL, FALSE_LOG = "second-channel-on-air", "false-log-on-air"
LATER_CHANNEL = "later-channel-on-air"
CONTROLS = (BESIDE, AROUND_THE_TUNNEL, WITHOUT_WEP, LONGER_TIMEOUT, UNVERIFIED, SECOND_CHANNEL,
            LATER_CHANNEL, FALSE_LOG)
