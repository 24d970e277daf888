"""What `ip -s xfrm state` says of SAs, for tests of what netlink says of them."""

from __future__ import annotations

import re
from typing import Any


def parse_xfrm_state(text: str) -> list[dict[str, Any]]:
    """`ip -s xfrm state` as dicts: src, dst, proto, mode, enc, auth or aead, bytes, packets.

    `enc_bits` and so on are the sizes of the keys, where they are shown.
    """
    states: list[dict[str, Any]] = []
    for line in text.splitlines():
        words = line.split()
        if line.startswith("src "):
            states.append({"src": words[1], "dst": words[3]})
        elif not states:
            continue
        elif words[:1] == ["proto"]:
            states[-1]["proto"] = words[1]
            states[-1]["mode"] = words[words.index("mode") + 1]
        elif words and words[0] in ("enc", "auth-trunc", "auth", "aead"):
            kind = "auth" if words[0].startswith("auth") else words[0]
            states[-1][kind] = words[1]
            if words[2:] and words[2].startswith("0x"):
                states[-1][f"{kind}_bits"] = 4 * len(words[2].removeprefix("0x"))
        else:
            match = re.match(r"\s*(\d+)\(bytes\), (\d+)\(packets\)", line)
            if match and "bytes" not in states[-1]:
                states[-1]["bytes"], states[-1]["packets"] = int(match[1]), int(match[2])
    return states
