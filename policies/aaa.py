"""The AAA layer of a policy: authentication server, its operator, and the station's identity."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

#: Programs of an authentication server.
AaaServer = Literal["freeradius", "hostapd"]


class AaaLayer(BaseModel):
    """The authentication server, if it is not the home network's FreeRADIUS."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    server: AaaServer = Field(
        default="freeradius", description="The server's program; EAP-AKA and EAP-AKA' are "
        "hostapd's alone.")
    authority: Literal["home", "visited"] = Field(
        default="home", description="Whose authority the server's certificate is of. The visited "
        "network's and the home network's have certified each other: either side knows its own "
        "root alone.")
    identity: Literal["permanent", "temporary"] = Field(
        default="permanent", description="What a station says it is: its subscriber's number "
        "(IMSI), or a temporary one (P-TMSI) that FreeRADIUS maps to it.")
