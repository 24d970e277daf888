"""List the values that an end of a link or tunnel accepts besides the agreed value.

A policy may give an end several key managements, SAE groups or IPsec proposals. The measured
authentications show the value on which both ends agree. `list_alternatives` takes the layers of a
policy, and returns the other values. A study proves each of these values by an extra attempt, in
which the other end has only this value (`measure.mobile_node.alternatives`). The list also has the
threshold of anti-clogging tokens, which only many stations reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from policies.layers import IpsecLayer, Layers
from policies.link import LinkLayer
from policies.proposals import GROUPS

ACCEPTED = "link.accepted"
STATION_GROUPS, ACCESS_POINT_GROUPS = "link.station_groups", "link.access_point_groups"
#: The number of unfinished exchanges at which access points ask for a token. One station does not
#: reach this number.
ANTI_CLOGGING = "link.anti_clogging"
ESP_OFFERED, ESP_ACCEPTED, IKE_ACCEPTED = (
    "ipsec.esp_offered", "ipsec.esp_accepted", "ipsec.ike_accepted")
#: The group in `esp_proposal`, with which the keys of ESP are renewed (perfect forward secrecy).
ESP_GROUP = "ipsec.esp_proposal"
#: Names of the checks that prove the values, by field.
CHECKS = {ACCEPTED: "station accepts further key managements",
          STATION_GROUPS: "ends use further SAE groups",
          ACCESS_POINT_GROUPS: "ends use further SAE groups",
          ANTI_CLOGGING: "access point asks for SAE tokens",
          ESP_OFFERED: "ends agree on further proposals",
          ESP_ACCEPTED: "ends agree on further proposals",
          IKE_ACCEPTED: "ends agree on further proposals",
          ESP_GROUP: "ESP keys are renewed in the group"}


class Alternative(NamedTuple):
    """A value that an end accepts besides the agreed one, and the policy's field that has it."""

    field: str
    value: str


def list_alternatives(layers: Layers) -> list[Alternative]:
    """Return the values in a policy that no measured authentication uses."""
    return [*(_list_link(layers.link) if layers.link else ()),
            *(_list_ipsec(layers.ipsec) if layers.ipsec else ())]


def _list_link(link: LinkLayer) -> Iterator[Alternative]:
    for name in link.accepted or ():
        if name != link.key_management:
            yield Alternative(ACCEPTED, name)
    for field, groups in ((STATION_GROUPS, link.station_groups),
                          (ACCESS_POINT_GROUPS, link.access_point_groups)):
        for group in groups or ():
            if group not in link.tried_groups:
                yield Alternative(field, str(group))
    if link.anti_clogging is not None:
        yield Alternative(ANTI_CLOGGING, str(link.anti_clogging))


def list_tried_alternatives(layers: Layers) -> list[Alternative]:
    """Return the values that an attempt can show.

    With IKEv1, charon does not name the group of renewed keys.
    """
    is_ike_1 = layers.ipsec is not None and layers.ipsec.ike == 1
    return [each for each in list_alternatives(layers)
            if not (is_ike_1 and each.field == ESP_GROUP)]


def _list_ipsec(ipsec: IpsecLayer) -> Iterator[Alternative]:
    for field, names, agreed in (
            (IKE_ACCEPTED, ipsec.ike_accepted, ipsec.ike_proposal),
            (ESP_OFFERED, ipsec.esp_offered, ipsec.esp_proposal),
            (ESP_ACCEPTED, ipsec.esp_accepted, ipsec.esp_proposal)):
        for name in names or ():
            if name != agreed:
                yield Alternative(field, name)
    group = ipsec.esp_proposal.split("-")[-1]
    if group in GROUPS:
        yield Alternative(ESP_GROUP, group)
