"""The negative controls by name, with what is wrong in each."""

from __future__ import annotations

from collections.abc import Mapping

FAULTS: Mapping[str, str] = {
    "wrong-user": "the client shows another user's certificate",
    "no-purpose": "the client's certificate does not say what its key is for",
    "unfitting-key": "the client signs with a key that does not fit its certificate",
    "rogue-authority": "the client's certificate is by an authority of its own",
    "expired-certificate": "the client's certificate has expired",
    "clock-skew": "the client's clock is 20 minutes ahead",
    "weak-client-key": "the client makes a weak key (client session key)",
    "password-instead": "the client uses its password where PKINIT is asked for (mobile)",
    "replayed-ap-request": "the client's last request is sent again",
    "wrong-pkcross-key": "the remote KDC has lost its secret PKCROSS key (PKCROSS)",
    "beyond-policy": "the local KDC issues longer tickets than the remote one allows (PKCROSS)",
    "proxy-with-another-key": "the proxy has another key than the client knows (trusted, assist)",
    "stale-chain": "the proxy adds a chain that has expired (assist)",
}
