"""Words for how a mobile node moves to another access point of its subnet.

Further words are those of `link.roaming`: with cached keys, or with keys derived from them.
"""

from __future__ import annotations

#: Full authentication at the new access point.
ANEW = "full"
#: Return to an access point whose PMKSA the mobile node has cached.
BACK = "pmksa"
