"""List what a policy asks of daemons and no check shows: it could be otherwise than it says.

Beside what docs/proof.md says of the checks themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from measure.judging import MadeCheck
from policies import Dot1xLayer, Policy, TlsSettings
from policies.options import is_secret
from policies.proposals import GROUPS

#: The kind of key that the suite which goes with it tells; others pass encrypted, or are not read.
_TOLD_BY_SUITE = "p-384"


class Unchecked(NamedTuple):
    """A setting that no check covers: its path in the layers, in words, and what it is set to."""

    path: str
    said: str
    value: str

    @property
    def shown(self) -> str:
        """The setting with its value."""
        return f"{self.said} ({self.value})" if self.value else self.said


def settings(policy: Policy, evidence: Iterable[MadeCheck] | None = None) -> list[Unchecked]:
    """Return the settings of a policy that go to daemons, and that no check covers.

    Args:
        policy: What daemons are told.
        evidence: The checks that were made; a setting is covered by one that holds. None: those
            that a good repetition has.
    """
    layers = policy.layers
    holding = None if evidence is None else {check.check for check in evidence if check.ok}
    found = [*_options(policy, holding), *(_of_dot1x(layers.dot1x) if layers.dot1x else ())]
    if layers.link and layers.link.ocv:
        found.append(Unchecked("link.ocv.hostapd", "link.ocv at hostapd", ""))
    if layers.ipsec and layers.ipsec.esp_proposal.split("-")[-1] in GROUPS:
        found.append(Unchecked("ipsec.esp_proposal", "the group in ipsec.esp_proposal",
                               layers.ipsec.esp_proposal))
    return found


def _options(policy: Policy, holding: set[str] | None) -> Iterator[Unchecked]:
    """Yield the options that no check covers, by the table of what is known of options."""
    for setting in sorted(policy.layers.settings()):
        check = setting.group.check
        if not check or (holding is not None and check not in holding):
            secret = is_secret(setting.daemon, setting.name, setting.value)
            yield Unchecked(".".join(setting.path), f"{setting.daemon}'s {setting.name}",
                            "not shown" if secret else str(setting.value))


def _of_dot1x(layer: Dot1xLayer) -> Iterator[Unchecked]:
    if layer.tls is None:
        return
    usual = TlsSettings()
    for name in ("key", "chain", "realm", "fragment_bytes"):
        value = getattr(layer.tls, name)
        if value not in (getattr(usual, name), _TOLD_BY_SUITE):
            yield Unchecked(f"dot1x.tls.{name}", f"dot1x.tls.{name}", str(value))
