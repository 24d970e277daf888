"""Define the settings that a user can give for a run of the study kerberos2002.

`Settings` has the default, limits and help text of each: number of logins, certificates, device
models (times of a slow processor), radio medium and others. The paper is Harbitter and Menascé
(2002) on Kerberos with public keys.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from studies import policy_factors
from studies.study import Settings as StudySettings
from topologies.loader import medium_names


class Settings(StudySettings):
    """Settings of a run: device models, certificates, radio medium and number of logins."""

    transactions: int = Field(480, ge=20, le=20000, description="Log in this often in a repetition "
                              "with more than one customer (user). The first tenth of the logins, "
                              "and at least two per user, are a warm-up. With n servers, the "
                              "number is divided by n.",
                              json_schema_extra={"option": "--transactions"})
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description="Use this radio medium for policies: "
                        f"{', '.join(medium_names())}, a .yml file, or none.")
    certificate_bytes: int = Field(1800, ge=0, le=8000, description="Make each certificate this "
                                   "many bytes long. 1800 is the paper's average (section 6.3).",
                                   json_schema_extra={"option": "--certificate-bytes"})
    chain_length: int = Field(2, ge=1, le=5, description="Prove a key by this many certificates, "
                              "not counting the root certificate. The paper has 2.",
                              json_schema_extra={"option": "--chain-length"})
    workstation_device: str = Field("", description="Take computing times of the clients of "
                                    "PKCROSS and PKTAPP from this device. By default, their "
                                    "computing takes no time, as with the paper's simplified "
                                    "client.",
                                    json_schema_extra={"option": "--workstation-device"})
    mobile_device: str = Field("clio-c1000", description="Let mobile clients be this device.")
    server_device: str = Field("testbed-pc-2002", description="Let KDCs, proxy and servers be this "
                               "device.")
    today_device: str = Field("celeron-850", description="Let every node in suite today be this "
                              "device. The paper has times of RSA-2048 only for this device (Table "
                              "I).")
    xtkt_cache: bool = Field(
        default=False, description="Let the local KDC cache cross-realm tickets. The KDC of the "
        "paper's model does not.")
    kdc_signs: bool = Field(
        default=False, description="Let a KDC also sign its reply where the client makes the "
        "session key, as the paper's prototype evidently did. Draft 05 does not.",
        json_schema_extra={"option": "--kdc-signs"})
    spares_opening: bool = Field(
        default=False, description="Do not charge the client for the private-key operation that "
        "decrypts the KDC's temporary key. The paper's text has this operation, but its prototype "
        "evidently did not charge it.", json_schema_extra={"option": "--spares-opening"})
    own_proxy_key: bool = Field(
        default=False, description="Give a trusted proxy a key of its own instead of the KDC's.")
    first_seed: int = Field(1, ge=1, le=1_000_000, description="Use this seed for the first "
                            "repetition. Each next repetition has the next number.")

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings as a results folder stores them.

        The path of a medium file is replaced by the medium's name.
        """
        return {**super().to_stored_settings(), "medium": policy_factors.medium_name(self.medium)}
