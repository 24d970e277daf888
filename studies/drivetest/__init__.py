"""Study of a drive past access points: the signal decides when the station roams.

Terms: a *roam* is a change of the access point within one network (ESS). A *background scan* is a
scan of a station that is connected (wpa_supplicant's `bgscan`). The *drive* is the mobile node's
way, from the scenario's `mobility`.
"""
