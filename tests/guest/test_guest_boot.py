"""The guest, really booted: what goes in and comes out, how it ends, that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import tracing
from conftest import PATIENCE_S, PROJECT
from guest.boot import ExitStatus, GuestError, boot_guest, has_room_for, is_in_memory
from guest.image import GuestImage, ensure_image
from guest.processes import list_members, move_to_processor
from guest_bench import Bench

pytestmark = pytest.mark.shareable

SHELL = ("/bin/sh", "-c")


@pytest.fixture(scope="session")
def image() -> GuestImage:
    """The real image, built if this machine has none."""
    return ensure_image()


@pytest.fixture
def bench(image, tmp_path) -> Bench:
    """A place to boot guests at."""
    return Bench(image, tmp_path)


@pytest.mark.guest
async def test_runs_a_command(bench):
    """Output and status come back, standard error is on the console, files are shared."""
    script = "echo here; echo aside >&2; echo x >/host/left; uname -r; hostname; ulimit -n; exit 7"
    output, end = await bench.run(*SHELL, script)
    release = bench.image.manifest["kernel"]["version"].split("-")[0] + "-qop"
    assert output.splitlines() == ["here", release, "qop", "256"]
    assert end == ExitStatus(7, None)
    assert not end.ok
    assert "aside" in (bench.folder / "console.log").read_text()
    assert (bench.job / "left").read_text() == "x\n"


@pytest.mark.guest
async def test_worker_is_the_default(bench):
    """Without a command it is measure.agent.worker from the shared code, on the shared folder."""
    package = bench.job / "code/measure/agent"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "worker.py").write_text(
        "import sys, json, mininet.net, vici\n"
        "print(json.dumps([sys.argv[1:], sys.stdin.readline()]))\n"
    )
    guest = await boot_guest(
        bench.image,
        bench.job,
        console_log=bench.folder / "console.log",
        scratch=bench.folder / "scratch",
    )
    async with asyncio.timeout(PATIENCE_S), guest:
        guest.stdin.write(b"line\n")
        assert json.loads(await guest.stdout.readline()) == [["/host"], "line\n"]
        assert (await guest.wait()).ok


@pytest.mark.guest
async def test_memory_is_what_its_kernel_took(bench):
    """A guest that has just booted has taken a part of its memory from the host."""
    guest = await bench.boot("python3", "-c", "print('hello', flush=True); input()")
    async with asyncio.timeout(PATIENCE_S), guest:
        assert await guest.stdout.readline() == b"hello\n"
        assert 10 << 20 < guest.memory_bytes() < 200 << 20


@pytest.mark.guest
async def test_long_lines(bench):
    """Lines of any bytes and 500 KB ahead of a slow reader, 5 MB to a slow reader: nothing lost."""
    echo = "import sys, time; time.sleep(0.3); sys.stdout.buffer.write(sys.stdin.buffer.readline())"
    line = bytes(range(11, 256)) * 2000 + b"\n"
    guest = await bench.boot("python3", "-c", echo)
    async with asyncio.timeout(PATIENCE_S), guest:
        guest.stdin.write(line)
        assert await guest.stdout.readline() == line
    guest = await bench.boot("python3", "-c", "print(*range(700000), sep=',')")
    async with asyncio.timeout(PATIENCE_S), guest:
        await asyncio.sleep(1)
        got = await guest.stdout.readline()
        assert got.decode() == ",".join(map(str, range(700000))) + "\n"


@pytest.mark.guest
async def test_end_of_input(bench):
    """Closing its input ends the command's reading, not its writing."""
    guest = await bench.boot(*SHELL, "cat >/dev/null; echo bye")
    async with asyncio.timeout(PATIENCE_S), guest:
        guest.stdin.write(b"some\n")
        guest.stdin.close()
        assert await guest.stdout.read() == b"bye\n"
        assert (await guest.wait()).ok


@pytest.mark.guest
async def test_root_is_each_guests_own(bench):
    """A guest may write anywhere, and the next one sees none of it."""
    output, end = await bench.run(*SHELL, "rm /usr/sbin/hostapd; echo gone >/etc/hostname; sync")
    assert end.ok
    look = "ls /usr/sbin/hostapd; cat /etc/hostname; touch /mnt/usr/x"
    output, end = await bench.run(*SHELL, look)
    assert output.splitlines()[0] == "/usr/sbin/hostapd"
    assert "gone" not in output
    assert end.status != 0, "the shared root can be written"


@pytest.mark.guest
async def test_confined(bench):
    """A guest reaches no folder of the host but its own, and no network but its own."""
    (bench.folder / "secret").write_text("secret")
    script = (
        "mkdir /tmp/m; mount -t hostfs -o / none /tmp/m && ls /tmp/m; cat /tmp/m/../secret;"
        "ls /sys/class/net"
    )
    output, _ = await bench.run(*SHELL, script)
    assert "secret" not in output
    assert set(output.split()) <= {"code", "command", "lo", "hwsim0", "tunl0", "gre0", "gretap0",
                                   "erspan0", "ip6tnl0", "wlan0", "wlan1", "ifb0", "ifb1", "dummy0"}


@pytest.mark.guest
async def test_root_file_system(bench):
    """What the worker needs is there and compiled; Ansible, and daemons of their own, are not."""
    script = (
        "ls -d /qop /opt/qop/venv/lib/python3*/site-packages/ansible /root/.ansible 2>/dev/null;"
        "readlink /etc/systemd/system/hostapd.service;"
        "ls /opt/qop/venv/lib/python3*/site-packages/vici/__pycache__ | wc -l;"
        "pgrep -c hostapd"
    )
    output, _ = await bench.run(*SHELL, script)
    mask, compiled, running = output.split()
    assert mask == "/dev/null"
    assert int(compiled) > 3
    assert running == "0"


@pytest.mark.guest
async def test_hung_guest_is_killed(bench):
    """A guest that does nothing any more ends when it is killed, with the reason given."""
    guest = await bench.boot(*SHELL, "echo up; trap '' TERM INT; while :; do sleep 9; done")
    async with asyncio.timeout(PATIENCE_S):
        await guest.stdout.readline()
        assert list_members(guest.pid)
        end = await guest.kill("no answer for 30 s")
    assert end == ExitStatus(None, "no answer for 30 s")
    assert not list_members(guest.pid)
    assert not list((bench.folder / "scratch").iterdir())


@pytest.mark.guest
async def test_killed_from_outside(bench):
    """kill -9 of its kernel leaves no process, and the exit says so."""
    guest = await bench.boot(*SHELL, "echo up; sleep 99 & sleep 99")
    async with asyncio.timeout(PATIENCE_S):
        await guest.stdout.readline()
        assert len(list_members(guest.pid)) > 1
        os.kill(guest.pid, signal.SIGKILL)
        end = await guest.wait()
    assert end.status is None
    assert end.reason is not None
    assert "by signal SIGKILL" in end.reason
    assert not list_members(guest.pid)


@pytest.mark.guest
async def test_crash_is_explained(bench):
    """A kernel panic ends the guest, and its last console lines are in the reason."""
    _, end = await bench.run(*SHELL, "echo c >/proc/sysrq-trigger; sleep 9")
    assert end.status is None
    assert end.reason is not None
    assert "sysrq triggered crash" in end.reason


#: A program that boots a guest in a folder, says its process when it is up, and passes a line on.
BOOTS = """
import asyncio, sys
from pathlib import Path
from guest.boot import boot_guest
from guest.image import find_image


async def main():
    here = Path(sys.argv[1])
    guest = await boot_guest(find_image(), here / "job", console_log=here / "c", scratch=here / "s",
                       command=["sh", "-c", "echo up; read line; sleep 99 & sleep 99"])
    await guest.stdout.readline()
    print(guest.pid, flush=True)
    guest.stdin.write((await asyncio.to_thread(sys.stdin.readline)).encode())
    await guest.wait()


asyncio.run(main())
"""


def booting(folder: Path) -> subprocess.Popen[str]:
    """That program, begun."""
    return subprocess.Popen([sys.executable, "-c", BOOTS, str(folder)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, cwd=PROJECT)


@pytest.mark.guest
async def test_parent_killed(bench, tmp_path):
    """kill -9 of the program that booted a guest leaves no process."""
    with booting(tmp_path) as parent:
        assert parent.stdout is not None
        group = int(await asyncio.to_thread(parent.stdout.readline))
        assert list_members(group)
        parent.kill()
    async with asyncio.timeout(PATIENCE_S):
        while list_members(group):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.02)


@pytest.mark.guest
def test_killed_while_it_begins_a_program(bench, tmp_path):
    """A kernel that is killed as it has just forked leaves no process of that program either.

    It is held where it forks: the new process goes on when nobody is its parent any more, and
    either ends, or waits in its filter of system calls, for good.
    """
    with booting(tmp_path) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        kernel = int(parent.stdout.readline())
        with tracing.Traced(kernel) as traced:
            parent.stdin.write("begin\n")
            parent.stdin.flush()
            made = traced.child()
            assert os.getpgid(made) == kernel
            parent.kill()
            traced.end()
    while (state := tracing.state_of(made)) and state["Seccomp"] != tracing.FILTERED:
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(made, signal.SIGKILL)
    assert not state, "a process of the guest's waits for a kernel that has ended"


@pytest.mark.guest
async def test_extra_terminal(bench):
    """A pair of descriptors is a terminal in the guest, for a shell to look around with."""
    there, here = os.pipe(), os.pipe()
    script = "setsid -c sh -i </dev/ttyS2 >/dev/ttyS2 2>&1 & echo up; read x"
    guest = await bench.boot(*SHELL, script, extra_tty=(there[0], here[1]))
    async with asyncio.timeout(PATIENCE_S), guest:
        await guest.stdout.readline()
        os.write(there[1], b"echo $((6 * 7)); tty\n")
        seen = b""
        while b"/dev/ttyS2" not in seen or b"42" not in seen:
            seen += await asyncio.to_thread(os.read, here[0], 1000)
    for descriptor in (*there, *here):
        os.close(descriptor)


@pytest.mark.guest
async def test_virtual_time(bench):
    """In virtual time a month of waiting passes in a test."""
    wait = "sleep 2592000; cat /proc/uptime"
    output, end = await bench.run(*SHELL, wait, clock="virtual")
    assert end.ok
    assert float(output.split()[0]) > 2592000


#: Set the ticks of a clock read, and print the mean time between two reads in ns.
READS = """
import time, pathlib
pathlib.Path("/sys/module/time/parameters/clock_read_ticks").write_text("{ticks}")
begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
for _ in range(9999):
    time.clock_gettime_ns(time.CLOCK_MONOTONIC)
print((time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin) / 10000)
"""


@pytest.mark.guest
@pytest.mark.parametrize("ticks", [20, 1])
async def test_clock_read_takes_as_many_ticks_as_set(bench, ticks):
    """In virtual time a read takes ticks of 256 ns: 20 as usual, 1 for media with aggregates."""
    output, end = await bench.run("python3", "-c", READS.format(ticks=ticks), clock="virtual")
    assert end.ok
    assert float(output) == pytest.approx(ticks * 256, rel=0.02)


@pytest.mark.guest
async def test_held_guest_does_nothing_until_released(image, tmp_path):
    """What is sent meanwhile is answered afterwards; in virtual time commands come by file."""
    place = {"console_log": tmp_path / "console", "scratch": tmp_path / "scratch"}
    (tmp_path / "job").mkdir()
    async with await boot_guest(image, tmp_path / "job", command=["cat"], **place) as guest:
        guest.stdin.write(b"one\n")
        assert await guest.stdout.readline() == b"one\n"
        guest.suspend()
        guest.stdin.write(b"two\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await guest.stdout.readline()
        guest.resume()
        assert await guest.stdout.readline() == b"two\n"


@pytest.mark.guest
async def test_moves_to_another_processor(bench):
    """All of a running guest moves: its kernel, its programs, and those they start later."""
    # Beside other tests this one is kept on a processor, but the one that started it is not.
    first, *_, last = sorted(os.sched_getaffinity(os.getppid()))
    programs = "sleep 60 & echo started; read line; sleep 60 & cat"
    async with await bench.boot(*SHELL, programs, cpu=first) as guest:
        assert await guest.stdout.readline() == b"started\n"
        move_to_processor(guest.pid, last)
        guest.stdin.write(b"go\nthere\n")
        assert await guest.stdout.readline() == b"there\n"
        tasks = [task for pid in list_members(guest.pid) for task
                 in Path(f"/proc/{pid}/task").iterdir()]
        assert len(tasks) > 3
        assert {core for task in tasks for core in os.sched_getaffinity(int(task.name))} == {last}


@pytest.mark.guest
async def test_awkward_names(image, tmp_path):
    """Blanks, commas and colons in folder names are only characters."""
    folder = tmp_path / "a b,c:d=e"
    folder.mkdir()
    output, end = await Bench(image, folder).run("echo", "it's here", "$HOME")
    assert (output, end) == ("it's here $HOME\n", ExitStatus(0, None))


@pytest.mark.guest
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_unprivileged(image, tmp_path):
    """A user without any privilege boots a guest, and is root inside it."""
    with TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        for source in (image.kernel, image.root):
            shutil.copy(source, folder)
        shutil.copytree(PROJECT / "guest", folder / "guest")
        program = (
            "import asyncio, sys\n"
            "from pathlib import Path\n"
            "from guest.boot import boot_guest\n"
            "from guest.image import GuestImage\n"
            "async def main():\n"
            "    here = Path.cwd()\n"
            "    files = here / 'linux', here / 'root.squashfs'\n"
            f"    image = GuestImage(*files, {image.seccomp}, '', {{}})\n"
            "    script = 'id -u; ip link add name d9 type dummy && echo made'\n"
            "    guest = await boot_guest(image, here / 'job', console_log=here / 'c',\n"
            "        scratch=here,\n"
            "        command=['sh', '-c', script])\n"
            "    async with guest:\n"
            "        print((await guest.stdout.read()).decode(), await guest.wait())\n"
            "asyncio.run(main())\n"
        )
        (folder / "job").mkdir()
        for path in (folder, folder / "job"):
            shutil.chown(path, "nobody", "nogroup")
        nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        command = [*nobody, "--bounding-set=-all", "/usr/bin/python3", "-c", program]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.stdout == "0\nmade\n ExitStatus(status=0, reason=None)\n", done.stderr


async def test_too_little_memory(tmp_path):
    """A guest that could not boot is refused in a line."""
    image = GuestImage(Path("linux"), Path("root"), True, "", {})
    with pytest.raises(GuestError, match="64 MB"):
        await boot_guest(image, tmp_path, memory_mb=8, console_log=tmp_path / "c", scratch=tmp_path)
    with pytest.raises(GuestError, match="can hold a guest"):
        await boot_guest(image, tmp_path, memory_mb=1 << 30, console_log=tmp_path / "c",
                         scratch=tmp_path)


@pytest.mark.parametrize(("manifest", "reason"), [
    ({}, "the guest's kernel is from before it"),
    ({"kernel": {"version": "6.12.1", "processor_clock": False,
                 "patches_left_out": ["50-processor-clock"]}},
     "the guest's kernel is 6.12.1, to which 50-processor-clock cannot be applied"),
])
async def test_kernel_without_processor_clock(tmp_path, manifest, reason):
    """A kernel that lacks the clock is refused in one line with the reason, and nothing starts."""
    image = GuestImage(Path("linux"), Path("root"), True, "", manifest)
    with pytest.raises(GuestError, match=reason) as caught:
        await boot_guest(image, tmp_path / "job", clock="processor", console_log=tmp_path / "c",
                         scratch=tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "job").exists()


def test_where_memory_may_go(tmp_path):
    """What lies on a tmpfs, as stat(1) says it; what cannot hold a guest's memory is no place."""
    for place in (Path("/dev/shm"), Path("/proc"), Path("/"), tmp_path):
        said = subprocess.run(["stat", "--file-system", "--format=%T", str(place)],
                              capture_output=True, text=True, check=True).stdout
        assert is_in_memory(place) == (said.strip() == "tmpfs")
    assert not is_in_memory(tmp_path / "nowhere")
    assert has_room_for(tmp_path, 1)
    assert not has_room_for(tmp_path, 1 << 40)
    assert not has_room_for(tmp_path / "nowhere", 1)
