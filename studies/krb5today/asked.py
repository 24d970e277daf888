"""Settings of a repetition."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from studies import mobile
from studies.study import Asked as AnyAsked
from topologies.loader import medium_names


class Asked(AnyAsked):
    """Settings of the workload and of the realms."""

    logins: int = Field(5, ge=2, le=1000, description="Logins of a repetition with one customer, "
                        "one after the other.", json_schema_extra={"option": "--logins"})
    logins_each: int = Field(6, ge=2, le=1000, description="Logins of each customer where there "
                             "are several.", json_schema_extra={"option": "--logins-each"})
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description=f"The air of policies: {', '.join(medium_names())}, a .yml "
                        "file, or none.")
    realm_rsa_bits: Literal[2048, 3072, 4096] = Field(
        2048, description="Length of the keys in certificates.",
        json_schema_extra={"option": "--rsa-bits"})
    realm_dh_bits: Literal[2048, 4096] = Field(
        2048, description="Group of PKINIT's key agreement.",
        json_schema_extra={"option": "--dh-bits"})

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings with the medium's own name instead of its file's path.

        A path is valid on this host only.
        """
        return {**super().to_stored_settings(), "medium": mobile.medium_name(self.medium)}
