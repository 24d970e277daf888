"""Moves say how a mobile node gets to another access point of its subnet, besides as its policy says.

Words of `link.roaming` are the others: keys that it has, or that are made of them.
"""

from __future__ import annotations

#: All is negotiated anew.
ANEW = "full"
#: To an access point that the mobile node has been at before, whose keys it still has.
BACK = "pmksa"
