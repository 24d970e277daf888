"""Define the settings that a user can give for a run of the study krb5today.

`Settings` has the default, limits and help text of each, such as number of logins, key lengths and
radio medium. The study measures logins by MIT krb5.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from studies import policy_factors
from studies.study import Settings as StudySettings
from topologies.loader import medium_names


class Settings(StudySettings):
    """Settings of a run: logins, realms and radio medium."""

    logins: int = Field(5, ge=2, le=1000, description="Log in this often in a repetition with one "
                        "user.", json_schema_extra={"option": "--logins"})
    logins_each: int = Field(6, ge=2, le=1000, description="Log in this often for each user in "
                             "a repetition with several users.",
                             json_schema_extra={"option": "--logins-each"})
    medium: str = Field("802.11b-short", json_schema_extra={"option": "--medium"},
                        description="Use this radio medium for policies: "
                        f"{', '.join(medium_names())}, a .yml file, or none.")
    realm_rsa_bits: Literal[2048, 3072, 4096] = Field(
        2048, description="Use RSA keys of this many bits in certificates.",
        json_schema_extra={"option": "--rsa-bits"})
    realm_dh_bits: Literal[2048, 4096] = Field(
        2048, description="Use a Diffie-Hellman group of this many bits in PKINIT.",
        json_schema_extra={"option": "--dh-bits"})

    def to_stored_settings(self) -> dict[str, Any]:
        """Return the settings as a results folder stores them.

        The path of a medium file is replaced by the medium's name.
        """
        return {**super().to_stored_settings(), "medium": policy_factors.medium_name(self.medium)}
