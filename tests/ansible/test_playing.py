"""Playbooks by copies of an Ansible that has loaded: as by any other; none outlives its player."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness import ansible_process, secrets
from harness.ansible_process import AnsibleProcess, AnsibleProcessLost
from harness.errors import UserError
from harness.render import ANSIBLE, render_policy
from policies import load_all
from studies.study import Fault
from topologies.loader import load_network

POLICIES = {policy.id: policy for policy in load_all()}
NETWORK = load_network("one-subnet")
DEADLINE_S = 60.0


def files(folder: Path) -> dict[str, bytes]:
    """All there is below a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*") if path.is_file()}


def has_ended(pid: int) -> bool:
    """Whether a process ends within the deadline; a zombie has."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def sleeping(folder: Path) -> list[str]:
    """Arguments of a playbook that says when it has begun, and then takes long."""
    (folder / "strategy_plugins").symlink_to(ANSIBLE / "strategy_plugins")
    (folder / "playbook.yml").write_text(json.dumps([{
        "hosts": "all", "gather_facts": False, "strategy": "in_process",
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "tasks": [{"ansible.builtin.shell": f"echo $$ >{folder}/begun; exec sleep 600"}]}]))
    return ["-i", "localhost,", "-c", "local", str(folder / "playbook.yml")]


def has_begun(folder: Path) -> int:
    """The process that the playbook has started."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        if (folder / "begun").exists() and (said := (folder / "begun").read_text()):
            return int(said)
        time.sleep(0.01)
    raise AssertionError("the playbook did not begin")


def test_a_copy_renders_what_ansible_of_its_own_renders(tmp_path: Path) -> None:
    """To the byte, and says the same; one after the other, and two at once."""
    made = secrets.make_secrets()
    temporary = set(Path(tempfile.gettempdir()).glob("ansible-local-*"))

    async def each() -> None:
        player = AnsibleProcess()
        try:
            for policy in (POLICIES["P12"], POLICIES["P8"]):
                folders = await asyncio.gather(*(
                    render_policy(policy, NETWORK, made, work=tmp_path, name=f"{policy.id}-{name}",
                                  mount="/mount", player=player) for name in ("first", "second")))
                alone = await render_policy(policy, NETWORK, made, work=tmp_path, mount="/mount",
                                            name=f"{policy.id}-alone")
                assert files(alone)
                assert files(alone) == files(folders[0]) == files(folders[1])
        finally:
            player.kill_process()

    asyncio.run(each())
    assert set(Path(tempfile.gettempdir()).glob("ansible-local-*")) <= temporary
    logs = [(tmp_path / "ansible" / f"P12-{name}.log").read_text() for name in ("second", "alone")]
    recaps = [log.partition("PLAY [Inputs]")[2].replace("changed: ", "ok: ") for log in logs]
    assert recaps[0].count("ok: ") == recaps[1].count("ok: ") > 20


def test_what_a_copy_refuses_is_the_same_line(tmp_path: Path) -> None:
    """Ansible's own complaint, with and without a player."""
    made = secrets.make_secrets(Fault("", {"gateway.peers": "strangers"}))

    async def complaint(player: AnsibleProcess | None, name: str) -> str:
        with pytest.raises(UserError) as caught:
            await render_policy(POLICIES["P12"], NETWORK, made, work=tmp_path, name=name,
                                mount="/mount",
                                player=player)
        return str(caught.value).replace(f"{name}.log", "log")

    async def both() -> tuple[str, str]:
        player = AnsibleProcess()
        try:
            return await complaint(player, "copy"), await complaint(None, "alone")
        finally:
            player.kill_process()

    said = asyncio.run(both())
    assert said[0] == said[1]
    assert "strangers" in said[0]


def test_closing_ends_what_is_played(tmp_path: Path) -> None:
    """And what that has started; who waits for it hears that the player is lost."""
    async def closed() -> int:
        player = AnsibleProcess()
        played = asyncio.create_task(player.run_playbook(
            sleeping(tmp_path), log=tmp_path / "log", temporary=tmp_path / "tmp"))
        begun = await asyncio.to_thread(has_begun, tmp_path)
        player.kill_process()
        player.kill_process()
        played.cancel()
        await asyncio.gather(played, return_exceptions=True)
        return begun

    assert has_ended(asyncio.run(closed()))


def test_a_player_that_is_killed_takes_its_copies_along(tmp_path: Path) -> None:
    """Who waits hears of it, as does who asks later."""
    async def killed() -> None:
        player = AnsibleProcess()
        try:
            played = asyncio.create_task(player.run_playbook(
                sleeping(tmp_path), log=tmp_path / "log", temporary=tmp_path / "tmp"))
            started = await asyncio.to_thread(has_begun, tmp_path)
            os.kill(player.pid, signal.SIGKILL)
            with pytest.raises(AnsibleProcessLost):
                await played
            with pytest.raises(AnsibleProcessLost):
                await player.run_playbook(["--version"], log=tmp_path / "log",
                                          temporary=tmp_path / "tmp")
            os.kill(started, signal.SIGKILL)  # Ansible's module, which is nobody's child any more
        finally:
            player.kill_process()

    asyncio.run(killed())


def test_without_the_player_policies_are_rendered_all_the_same(tmp_path: Path) -> None:
    """By an Ansible of their own."""
    async def without() -> Path:
        player = AnsibleProcess()
        os.kill(player.pid, signal.SIGKILL)
        try:
            return await render_policy(POLICIES["P1"], NETWORK, secrets.make_secrets(),
                                       work=tmp_path, name="P1-0",
                                       mount="/mount", player=player)
        finally:
            player.kill_process()

    assert files(asyncio.run(without()))


def test_the_player_ends_with_the_process_that_began_it() -> None:
    """Also where nobody has taken it yet, and where that process is killed."""
    program = ("import sys; from harness import ansible_process as ready\n"
               "ready.start_ansible_process()\n"
               "print(ready._preloaded_process.pid, flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True,
                          env=os.environ | {"PYTHONPATH": str(ANSIBLE.parent)}) as asking:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        asking.kill()
    assert has_ended(pid)


def test_player_killed_while_it_loads_leaves_its_folder_in_the_cache(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The next one removes the folder, once it is old."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("QOP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tmp").mkdir()
    (left := tmp_path / "cache/ansible/ansible-local-1left").mkdir(parents=True)
    AnsibleProcess().kill_process()
    assert left.exists()
    os.utime(left, (0, 0))
    player = AnsibleProcess()
    deadline = time.monotonic() + 5  # loading Ansible takes about a second
    while not list(tmp_path.rglob("ansible-local-*")) and time.monotonic() < deadline:
        time.sleep(0.001)
    player.kill_process()
    assert not left.exists()
    assert not list((tmp_path / "tmp").iterdir())


def test_who_leaves_ends_what_was_begun() -> None:
    """A command that ends before it needs one leaves none."""
    ansible_process.start_ansible_process()
    assert ansible_process._preloaded_process is not None
    pid = ansible_process._preloaded_process.pid
    ansible_process.end_unused_process()
    ansible_process.end_unused_process()
    assert ansible_process._preloaded_process is None
    assert has_ended(pid)
