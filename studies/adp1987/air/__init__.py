"""The channel under a policy on the air, at home and through a handoff."""

#: Negative controls that exist only on the air.
BESIDE, AROUND_THE_TUNNEL = "beside-channel", "messages-around-tunnel"
WITHOUT_WEP = "messages-without-wep"
#: Ending of controls that also exist over wires, under the name without it.
ON_AIR = "-on-air"
LONGER_TIMEOUT, UNVERIFIED = "longer-timeout-on-air", "unverified-owner-on-air"
SECOND_CHANNEL, FALSE_LOG = "second-channel-on-air", "false-log-on-air"
LATER_CHANNEL = "later-channel-on-air"
CONTROLS = (BESIDE, AROUND_THE_TUNNEL, WITHOUT_WEP, LONGER_TIMEOUT, UNVERIFIED, SECOND_CHANNEL,
            LATER_CHANNEL, FALSE_LOG)
