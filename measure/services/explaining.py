"""Add to a failure what the daemons that took part have said of why. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.daemons import Daemons

#: Services that may know why a stage failed; for other stages nobody is asked.
_OF_ASSOCIATION = ("wpa_supplicant", "hostapd", "radius_proxy", "freeradius", "eap_server")
_ASKED = {"testbed": _OF_ASSOCIATION, "link": _OF_ASSOCIATION, "dot1x": _OF_ASSOCIATION,
          "ike": ("charon",)}
_MOST_CAUSES = 3


@contextmanager
def explaining(services: Sequence[Daemons]) -> Iterator[None]:
    """Add to a MeasureError what daemons of services have said since of why it came about."""
    since = {daemon: daemon.position() for service in services
             for daemon in service.daemons.values()}
    try:
        yield
    except MeasureError as error:
        cause = "" if error.cause else _find_cause(services, error, since)
        if not cause:
            raise
        raise MeasureError(error.stage, error.reason, cause) from error


def _find_cause(services: Sequence[Daemons], error: MeasureError,
                since: Mapping[Daemon, int]) -> str:
    """Return what they have said of why; where all words are weak, those of the server."""
    names = _ASKED.get(error.stage, ())
    asked = [daemon for service in services if service.name in names
             for daemon in dict.fromkeys(service.daemons.values())]
    for takes_weak in (False, True):
        causes = [f"{daemon.name}: {cause}" for daemon in asked if (
            cause := daemon.cause_since(since.get(daemon, 0), takes_weak=takes_weak))
            and cause not in error.reason]
        if causes:
            return "; ".join(causes[-1:] if takes_weak else causes[:_MOST_CAUSES])
    return ""
