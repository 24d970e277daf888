"""Add the cause from the daemons' logs to a failure. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from measure.errors import MeasureError
from measure.process import Daemon
from measure.services.daemons import Daemons

#: Services whose logs can explain a failure, by stage; other stages have none.
_OF_ASSOCIATION = ("wpa_supplicant", "hostapd", "radius_proxy", "freeradius", "eap_server")
_ASKED = {"testbed": _OF_ASSOCIATION, "link": _OF_ASSOCIATION, "dot1x": _OF_ASSOCIATION,
          "ike": ("charon",)}
_MOST_CAUSES = 3


@contextmanager
def explain_failures(services: Sequence[Daemons]) -> Iterator[None]:
    """Add the cause from these services' logs to a MeasureError raised inside the context."""
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
    """Return the causes that the daemons' logs state since the context began.

    If only weak statements are found, the last one counts: the server's.
    """
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
