"""Start services in the order of their needs, in parallel where possible, and stop them.

Services stop in reverse order.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

from measure.errors import MeasureError
from measure.workload import Service


class Starter:
    """A context manager that runs services inside the context.

    No service is left running afterwards. `withhold` names services that are left out on purpose (a
    negative control). Services that need one of them start without it.

    Raises:
        MeasureError: `withhold` names a service that does not exist.
    """

    def __init__(self, services: Sequence[Service], withhold: Collection[str] = ()) -> None:
        names = [service.name for service in services]
        for name in withhold:
            if name not in names:
                raise MeasureError("testbed", f"the control leaves out {name}, which is no service "
                                   f"of this testbed; there are {', '.join(names)}")
        self._services = [service for service in services if service.name not in withhold]
        self._withheld = set(withhold)
        self._stack = ExitStack()

    def __enter__(self) -> Starter:
        with self._stack:
            for wave in order_by_needs(self._services, self._withheld):
                for service in wave:
                    # Before `start`, so that the rest of a failed start is stopped, too.
                    self._stack.callback(service.stop)
                    service.start()
                for service in wave:
                    service.wait_ready()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def order_by_needs(services: Sequence[Service],
                   provided: Collection[str] = ()) -> list[list[Service]]:
    """Group services into waves that can start in parallel, each after its needs.

    Args:
        services: The services to start.
        provided: Names of services that count as ready.

    Raises:
        MeasureError: Two services share a name, or needs cannot be met.
    """
    names = [service.name for service in services]
    for service in services:
        if names.count(service.name) > 1:
            raise MeasureError("testbed", f"two services are called {service.name}")
        for need in service.needs:
            if need not in names and need not in provided:
                raise MeasureError("testbed", f"service {service.name} needs {need}, which is no "
                                   "service of this study")
    ready, waiting, ordered = set(provided), list(services), []
    while waiting:
        wave = [service for service in waiting if ready.issuperset(service.needs)]
        if not wave:
            raise MeasureError("testbed", "services need each other: "
                               f"{', '.join(service.name for service in waiting)}")
        ordered.append(wave)
        ready.update(service.name for service in wave)
        waiting = [service for service in waiting if service not in wave]
    return ordered
