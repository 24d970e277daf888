"""What a policy asks of daemons and no check shows: it could be otherwise than the policy says.

Beside what docs/proof.md says of the checks themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies import DaemonOptions, Dot1xLayer, Policy, TlsSettings
from policies.proposals import GROUPS

#: The kind of key that the suite which goes with it tells; others pass encrypted, or are not read.
_TOLD_BY_SUITE = "p-384"


def settings(policy: Policy) -> list[str]:
    """Settings of a policy that go to daemons, and that nothing captured or counted tells."""
    layers = policy.layers
    found = [*(_options(layers.link.options) if layers.link else ()),
             *(_of_dot1x(layers.dot1x) if layers.dot1x else ())]
    if layers.link and layers.link.ocv:
        found.append("that hostapd insists on link.ocv")
    if layers.ipsec and layers.ipsec.esp_proposal.split("-")[-1] in GROUPS:
        found.append(f"the group in ipsec.esp_proposal ({layers.ipsec.esp_proposal})")
    return found


def _options(options: DaemonOptions) -> Iterator[str]:
    """All of them: they go to the daemon unread."""
    for daemon in ("hostapd", "wpa_supplicant"):
        for name, value in sorted(getattr(options, daemon).items()):
            yield f"{daemon}'s option {name} ({value})"


def _of_dot1x(layer: Dot1xLayer) -> Iterator[str]:
    yield from _options(layer.options)
    if layer.tls is None:
        return
    usual = TlsSettings()
    for name in ("key", "chain", "realm", "fragment_bytes"):
        value = getattr(layer.tls, name)
        if value not in (getattr(usual, name), _TOLD_BY_SUITE):
            yield f"dot1x.tls.{name} ({value})"
