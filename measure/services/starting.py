"""The starter brings services up by their needs, side by side, and takes them down in reverse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

from measure.errors import MeasureError
from measure.workload import Service


class Starter:
    """Running services. A context manager: they run inside it, and none is left after it.

    `withhold` names services that are left out on purpose (a negative control); who needs one of
    them starts without it. Raises MeasureError for a name that no service has.
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
            for wave in waves(self._services, self._withheld):
                for service in wave:
                    # First, so that what a failing start leaves behind goes, too.
                    self._stack.callback(service.stop)
                    service.start()
                for service in wave:
                    service.ready()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def waves(services: Sequence[Service], provided: Collection[str] = ()) -> list[list[Service]]:
    """Services in groups that may start side by side, each after all that it needs.

    `provided` are names that count as ready. Raises MeasureError for needs that cannot be met.
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
