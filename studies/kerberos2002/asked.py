"""Settings of a repetition. Each value that the paper leaves open is a named assumption."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from studies import mobile
from studies.study import Asked as AnyAsked
from topologies.loader import medium_names


class Asked(AnyAsked):
    """Settings of the workload."""

    transactions: int = Field(480, ge=20, le=20000, description="Transactions of a repetition with "
                              "more than one customer, the first tenth of them (two of "
                              "every customer) a warm-up; with "
                              "several servers so many fewer.",
                              json_schema_extra={"option": "--transactions"})
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description=f"The air of policies: {', '.join(medium_names())}, a .yml "
                        "file, or none.")
    certificate_bytes: int = Field(1800, ge=0, le=8000, description="Size of a certificate: the "
                                   "paper's average (section 6.3), and here each.",
                                   json_schema_extra={"option": "--certificate-bytes"})
    chain_length: int = Field(2, ge=1, le=5, description="Certificates that prove a key, up to the "
                              "anchor, which is none of them: the paper's two, and here 1 to 5.",
                              json_schema_extra={"option": "--chain-length"})
    workstation_device: str = Field("", description="Device of the clients of PKCROSS and PKTAPP; "
                                    "none: they take no time, as the paper's simplified client.",
                                    json_schema_extra={"option": "--workstation-device"})
    mobile_device: str = Field("clio-c1000", description="Device of mobile clients.")
    server_device: str = Field("testbed-pc-2002", description="Device of KDCs, proxy and servers.")
    today_device: str = Field("celeron-850", description="Device of every node in suite today: the "
                              "paper's Table I is all that it says of RSA-2048.")
    xtkt_cache: bool = Field(
        default=False, description="Whether the local KDC keeps cross-realm tickets; the paper's "
        "model does not.")
    kdc_signs: bool = Field(
        default=False, description="Whether a KDC signs replies under a client's key, as the 2002 "
        "skeleton evidently did and draft 05 does not.",
        json_schema_extra={"option": "--kdc-signs"})
    spares_opening: bool = Field(
        default=False, description="Whether the private operation by which a client opens the "
        "KDC's temporary key is left out of its work, as the 2002 skeleton evidently did (its text "
        "has it).", json_schema_extra={"option": "--spares-opening"})
    own_proxy_key: bool = Field(
        default=False, description="Whether a trusted proxy is told a key of its own, and not the "
        "KDC's.")
    first_seed: int = Field(1, ge=1, le=1_000_000, description="Seed of the first repetition; the "
                            "next has the next.")

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings, with a medium's name instead of its local file path."""
        return {**super().to_stored_settings(), "medium": mobile.medium_name(self.medium)}
