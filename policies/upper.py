"""Layers above the network layer: end-to-end protection by programs of a study.

A study states which of them it runs, and refuses the others. Daemons are rendered only for
`kerberos` and `aaa`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)

from policies.aaa import AaaLayer
from policies.errors import make_fault
from policies.fields import Whole
from policies.kerberos import KerberosLayer

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)
_MOST_PACKETS = 1024
#: Packets that are signed together by default.
_BUNDLES = {"delayed": 3, "tree": 16}
_LONGEST_MS = 10_000
#: Bounds in bytes: the largest messages of a page and similar ones, and the limit of an IP
#: datagram.
_BOUNDS = (8192, 57_344)


_Percent = Annotated[int, Field(ge=0, le=100), Whole]
_Packets = Annotated[int, Field(ge=1, le=_MOST_PACKETS), Whole]


class StreamLayer(BaseModel):
    """Authentication of each packet of a stream, from its server to its receiver."""

    model_config = _CONFIG

    scheme: Literal["percentage", "delayed", "secret-key", "tree", "tesla"] = Field(
        description="What stands behind packets: a signature each, of which some are verified; "
        "one for a bundle; tags; one for a tree of packets; tags whose keys are told later.")
    bundle: _Packets | None = Field(
        default=None, description="Packets that are signed together, for delayed and tree. Left "
        "out: 3 and 16.")
    range: list[_Percent] = Field(
        default=[0, 100], description="Lowest and highest share of packets, in per cent, that is "
        "verified before they are used; the lowest is the floor.")
    level: _Percent | None = Field(
        default=None, description="The share that is verified at first, for percentage. Left out: "
        "the highest of the range.")
    controller: Literal["blend-1998", "delayed-first-1998", "bounded", "lyapunov"] | None = Field(
        default=None, description="What changes the setting while the stream runs; absent: "
        "nothing does.")
    limit_packets: _Packets | None = Field(
        default=None, description="How far a receiver may be behind before a controller of 1998 "
        "acts. Left out: what is asked of the run.")
    algorithm: Literal["DSA"] = Field(default="DSA", description="What signs packets.")

    @property
    def is_signed(self) -> bool:
        """Return whether a third party can be convinced, which needs signatures instead of tags."""
        return self.scheme in ("percentage", "delayed", "tree")

    @property
    def bundle_packets(self) -> int:
        """Return the number of packets that are signed together."""
        return self.bundle or _BUNDLES.get(self.scheme, 1)

    @model_validator(mode="after")
    def _range_is_one(self) -> Self:
        if len(self.range) != 2:
            raise make_fault("range: two levels belong there",
                             "write [lowest, highest], in per cent",
                             ("range",))
        low, high = self.range
        if low > high:
            raise make_fault(f"range: {low} to {high} % is upside down",
                             "write the lower level first",
                             ("range",))
        return self

    @model_validator(mode="after")
    def _level_fits(self) -> Self:
        if self.level is None:
            return self
        if self.scheme != "percentage":
            raise make_fault(f"{self.scheme} verifies every packet, so that it has no level",
                             "leave out level, or write scheme: percentage", ("level",),
                             ("scheme",))
        low, high = self.range
        if not low <= self.level <= high:
            what = f"is below the floor of {low} %" if self.level < low else \
                f"is above the range, which ends at {high} %"
            raise make_fault(f"level: {self.level} % {what}", "change it, or the range", ("level",))
        return self

    @model_validator(mode="after")
    def _rest_fits(self) -> Self:
        if self.bundle is not None and self.scheme not in _BUNDLES:
            raise make_fault(f"{self.scheme} has no bundles", "leave out bundle, or write scheme: "
                             "delayed or tree", ("bundle",), ("scheme",))
        if self.limit_packets is not None and not (self.controller or "").endswith("1998"):
            raise make_fault("limit_packets is for the controllers of 1998",
                             "leave it out, or write "
                             "controller: blend-1998", ("limit_packets",), ("controller",))
        if self.controller == "bounded" and self.scheme not in _BUNDLES:
            raise make_fault("controller: bounded chooses bundles, and "
                             f"{self.scheme} has none", "write scheme: delayed or tree",
                             ("controller",),
                             ("scheme",))
        return self


class ChannelLayer(BaseModel):
    """Protection of user messages from host to host, below transport.

    qop's own programs provide it.
    """

    model_config = _CONFIG

    protocol: Literal["adp", "adp-1987"] = Field(
        description="Today's means, or those of 1987.")
    scope: Literal["none", "trailer", "all"] = Field(
        default="all", description="How much of a message is encrypted.")
    trailer: Literal["sequence", "checksum"] | None = Field(
        default=None, description="What ends a message of 1987. Left out: its number alone.")
    timeout_ms: Annotated[int, Field(ge=0, le=_LONGEST_MS), Whole] = Field(
        default=40, description="How long messages that are not urgent wait for others; 0: no "
        "message does.")
    queue_bytes: Annotated[int, Field(ge=_BOUNDS[0], le=_BOUNDS[1]), Whole] = Field(
        default=24_576, description="User data that makes a queue full.")

    @model_validator(mode="after")
    def _means_fit(self) -> Self:
        if self.protocol == "adp" and self.scope == "none":
            raise make_fault("scope: adp always authenticates",
                             "write trailer or all, or protocol: "
                             "adp-1987", ("scope",), ("protocol",))
        if self.protocol == "adp" and self.trailer is not None:
            raise make_fault("trailer: a message of adp ends with a tag of its own", "leave out "
                             "trailer, or write protocol: adp-1987", ("trailer",), ("protocol",))
        return self


class UpperLayers(BaseModel):
    """The layers above the network layer. A layer that is absent or null is switched off."""

    model_config = _CONFIG

    stream: StreamLayer | None = Field(
        default=None, description="How a stream's packets are authenticated; absent: they are not.")
    kerberos: KerberosLayer | None = Field(
        default=None, description="Realms and logins; absent: none.")
    channel: ChannelLayer | None = Field(
        default=None, description="How messages are protected from host to host; absent: they are "
        "not.")
    aaa: AaaLayer | None = Field(
        default=None, description="Who decides on an authentication; absent: the home network's "
        "FreeRADIUS, by the name that is claimed.")

    @property
    def upper_names(self) -> list[str]:
        """Return the names of the layers that are switched on."""
        return [name for name in UpperLayers.model_fields if getattr(self, name) is not None]
