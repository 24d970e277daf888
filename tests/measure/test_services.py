"""Tests of measure.services: services start by their needs, and none is left on any way out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import wait_until
from measure.agent.errors import MeasureError
from measure.agent.workload import Site, load_workload
from measure.services import mobile_ip
from measure.services.daemons import DaemonService, ServiceStarter, order_services
from topologies.model import Interface, Network, Node


class Noted:
    """A service that notes what becomes of it."""

    def __init__(self, name: str, needs: Sequence[str], journal: list[str],
                 fails: str = "") -> None:
        self.name = name
        self.needs = needs
        self._journal = journal
        self._fails = fails

    def _note(self, what: str) -> None:
        self._journal.append(f"{what} {self.name}")
        if self._fails == what:
            raise MeasureError("testbed", f"{self.name} would not")

    def start(self) -> None:
        """Note it."""
        self._note("start")

    def wait_ready(self) -> None:
        """Note it."""
        self._note("ready")

    def stop(self) -> None:
        """Note it."""
        self._note("stop")


def test_those_without_needs_start_side_by_side() -> None:
    """All are started before any is waited for; who needs one starts when it is ready."""
    journal: list[str] = []
    services = [Noted("tunnel", ["charon"], journal), Noted("charon", [], journal),
                Noted("radius", [], journal)]
    with ServiceStarter(services):
        assert journal == ["start charon", "start radius", "ready charon", "ready radius",
                           "start tunnel", "ready tunnel"]
        del journal[:]
    assert journal == ["stop tunnel", "stop radius", "stop charon"]


@pytest.mark.parametrize("fails", ["start", "ready"])
def test_a_failure_leaves_nothing_running(fails: str) -> None:
    """Whichever step fails, all that was started is stopped, the last first, and no more begins."""
    journal: list[str] = []
    services = [Noted("a", [], journal), Noted("b", [], journal, fails), Noted("c", [], journal),
                Noted("d", ["a"], journal)]
    with pytest.raises(MeasureError, match="b would not"), ServiceStarter(services):
        pytest.fail("nothing may run")
    started = [line.split()[1] for line in journal if line.startswith("start")]
    stopped = [line.split()[1] for line in journal if line.startswith("stop")]
    assert stopped == started[::-1]
    assert "d" not in started


def test_what_is_withheld_does_not_run() -> None:
    """A negative control leaves a service out; who needs it starts without it."""
    journal: list[str] = []
    services = [Noted("radius", [], journal), Noted("client", ["radius"], journal)]
    with ServiceStarter(services, {"radius"}):
        assert journal == ["start client", "ready client"]


def test_withheld_service_that_does_not_exist_is_refused() -> None:
    with pytest.raises(MeasureError, match="leaves out diameter, which is no service"):
        ServiceStarter([Noted("radius", [], [])], {"diameter"})


@pytest.mark.parametrize(("needs", "reason"), [
    ({"a": ["b"], "b": ["a"]}, "services need each other: a, b"),
    ({"a": ["a"]}, "services need each other: a"),
    ({"a": ["z"]}, "service a needs z, which is no service of this study"),
])
def test_needs_that_cannot_be_met(needs: dict[str, list[str]], reason: str) -> None:
    """A circle and a name that nobody has are said in one line, before anything starts."""
    journal: list[str] = []
    with pytest.raises(MeasureError) as caught, ServiceStarter(
            [Noted(name, of, journal) for name, of in needs.items()]):
        pytest.fail("nothing may run")
    assert caught.value.reason == reason
    assert journal == []


def test_two_services_of_one_name() -> None:
    """A name stands for one service, or needs would be ambiguous."""
    with pytest.raises(MeasureError, match="two services are called a"):
        order_services([Noted("a", [], []), Noted("a", [], [])])


@given(st.dictionaries(st.integers(0, 9), st.sets(st.integers(0, 9), max_size=4), max_size=10))
def test_everybody_comes_after_what_it_needs(graph: dict[int, set[int]]) -> None:
    """Whatever needs what (without circles), each service is in a later wave than its needs."""
    services = [Noted(str(number), [str(need) for need in needs if need < number
                                    and need in graph], []) for number, needs in graph.items()]
    placed = {service.name: wave for wave, group in enumerate(order_services(services))
              for service in group}
    assert placed.keys() == {service.name for service in services}
    for service in services:
        assert all(placed[need] < placed[service.name] for need in service.needs)


class Here:
    """Stands in for a testbed whose nodes are this machine."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def node_command(self, _node: str, argv: Sequence[str]) -> list[str]:
        """As it is."""
        return list(argv)


class Sleepers(DaemonService):
    """A real process for every node that has the file."""

    name = "sleeper"
    file = "sleeper.conf"

    def launch_on(self, node: str) -> Any:
        """Say that it is ready, and stay."""
        return self.run_daemon(node, ["sh", "-c", "echo ready; exec sleep 60"], "ready")


def site(folder: Path) -> Site:
    """A site of two nodes on this machine."""
    nodes = {name: Node(["client"], {"eth0": Interface()}) for name in ("one", "two")}
    (folder / "logs").mkdir()
    testbed: Any = Here(Network("here", nodes, []))
    return Site(testbed, {}, {}, {}, frozenset(), folder / "mount", folder / "logs")


def test_a_daemon_runs_where_its_file_is(tmp_path: Path) -> None:
    """Only nodes with the rendered file run the daemon; it logs, and is gone afterwards."""
    here = site(tmp_path)
    (here.mount / "two").mkdir(parents=True)
    (here.mount / "two" / "sleeper.conf").touch()
    sleepers = Sleepers(here)
    with ServiceStarter([sleepers]):
        assert list(sleepers.daemons) == ["two"]
        process = sleepers.daemons["two"].process
        assert process.poll() is None
        assert here.log_path("sleeper", "two").read_text() == "ready\n"
    assert process.poll() is not None
    assert sleepers.daemons == {}


def test_a_registrations_key_is_for_its_user_only(tmp_path: Path) -> None:
    """As the files of other daemons that hold secrets are."""
    path = mobile_ip._write_json(site(tmp_path), "one", {"key_hex": "00"})
    assert json.loads(path.read_text()) and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("named", "states"), [
    (("one",), {"one": "T", "two": "S"}), (("one", "two"), {"one": "T", "two": "T"}),
    (("three",), {"one": "S", "two": "S"}), ((), {"one": "S", "two": "S"})])
def test_a_daemon_is_held_still(named: tuple[str, ...], states: dict[str, str],
                                tmp_path: Path) -> None:
    """On the nodes that are named, and on no others; afterwards it goes on."""
    here = site(tmp_path)
    for name in ("one", "two"):
        (here.mount / name).mkdir(parents=True)
        (here.mount / name / "sleeper.conf").touch()
    sleepers = Sleepers(here)

    def become(wanted: dict[str, str]) -> bool:
        return wanted == {node: Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(") ")[2][0]
                          for node, daemon in sleepers.daemons.items()}

    with ServiceStarter([sleepers]):
        with sleepers.suspend_daemon(named):
            wait_until(lambda: become(states))
        wait_until(lambda: become(dict.fromkeys(states, "S")))


def test_files_are_looked_for_by_duty(tmp_path: Path) -> None:
    """`having` may ask for the nodes of one duty only."""
    here = site(tmp_path)
    for name in ("one", "two"):
        (here.mount / name).mkdir(parents=True)
        (here.mount / name / "x.conf").touch()
    here.network.nodes["two"].duties.append("gateway")
    assert here.nodes_with_file("x.conf") == ["one", "two"]
    assert here.nodes_with_file("y.conf") == []


@pytest.mark.parametrize(("code", "says"), [
    ('LIMIT = int("many")', "ValueError: invalid literal"), ("import nowhere", "No module named"),
    ("class Workloat: pass", "has no attribute 'Workload'"), ("x = [\n", "SyntaxError")])
def test_a_workload_that_cannot_be_loaded_is_the_studys(
        code: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its module raises is the reason for the record, on one line, and no lost machine."""
    name = f"inside_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MeasureError) as raised:
        load_workload(name)
    said = str(raised.value)
    assert said.startswith(f"{name} cannot be loaded (") and says in said and "\n" not in said
    assert said.endswith("; correct the study")
