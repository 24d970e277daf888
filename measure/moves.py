"""Moves say how a mobile node gets to another access point of its subnet.

Beside these there are the words of `link.roaming`: with keys that it has, or made of them.
"""

from __future__ import annotations

#: All is negotiated anew.
ANEW = "full"
#: To an access point that the mobile node has been at before, whose keys it still has.
BACK = "pmksa"
