"""List policy settings for daemons that no check can verify.

docs/proof.md states further limits of the checks themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from measure.judging import MadeCheck
from policies import Dot1xLayer, Policy, TlsSettings
from policies.options import is_secret
from policies.proposals import GROUPS

#: The key type that its cipher suite shows. Other key types are sent encrypted, or are not parsed.
_TOLD_BY_SUITE = "p-384"


class Unchecked(NamedTuple):
    """A setting that no check covers: path in the layers, description, and value."""

    path: str
    said: str
    value: str

    @property
    def description(self) -> str:
        """Return the description with the value."""
        return f"{self.said} ({self.value})" if self.value else self.said


def unchecked_settings(policy: Policy,
                       evidence: Iterable[MadeCheck] | None = None) -> list[Unchecked]:
    """Return the policy settings for daemons that no check covers.

    Args:
        policy: The policy of the cell.
        evidence: The checks that were made; a check that holds covers its settings. None stands for
            the checks of a good repetition.
    """
    layers = policy.layers
    holding = None if evidence is None else {check.check for check in evidence if check.ok}
    found = [*_unchecked_options(policy, holding),
             *(_unchecked_dot1x(layers.dot1x) if layers.dot1x else ())]
    if layers.link and layers.link.ocv:
        found.append(Unchecked("link.ocv.hostapd", "link.ocv at hostapd", ""))
    if layers.ipsec and layers.ipsec.esp_proposal.split("-")[-1] in GROUPS:
        found.append(Unchecked("ipsec.esp_proposal", "the group in ipsec.esp_proposal",
                               layers.ipsec.esp_proposal))
    return found


def _unchecked_options(policy: Policy, holding: set[str] | None) -> Iterator[Unchecked]:
    """Yield the options without a check, by the table of known options."""
    for setting in sorted(policy.layers.option_settings()):
        check = setting.group.check
        if not check or (holding is not None and check not in holding):
            secret = is_secret(setting.daemon, setting.name, setting.value)
            yield Unchecked(".".join(setting.path), f"{setting.daemon}'s {setting.name}",
                            "not shown" if secret else str(setting.value))


def _unchecked_dot1x(layer: Dot1xLayer) -> Iterator[Unchecked]:
    if layer.tls is None:
        return
    usual = TlsSettings()
    for name in ("key", "chain", "realm", "fragment_bytes"):
        value = getattr(layer.tls, name)
        if value not in (getattr(usual, name), _TOLD_BY_SUITE):
            yield Unchecked(f"dot1x.tls.{name}", f"dot1x.tls.{name}", str(value))
