"""`qop radio`: a command runs on the caller's root file system in a machine with radios."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]

import shared
from conftest import PATIENCE_S, PROJECT, Qop
from guest import debian, radio, root
from guest import image as guest_image
from guest.build import BuildCommands
from harness.commands.radio import format_key, read_callers_environment

guest = pytest.mark.guest
shareable = pytest.mark.shareable

#: Programs of Debian's that the tests run in machines with radios.
PACKAGES = ("dbus", "hostapd", "iproute2", "iputils-ping", "iw", "iwd", "mount", "wpasupplicant")


def debian_root() -> Path:
    """A root file system with hostapd and wpa_supplicant, made once in a test run."""

    def make() -> Path:
        folder = shared.folder("radio-root")
        commands = BuildCommands("root", shared.folder("radio-log") / "log")
        commands.run(debian.build_mmdebstrap_command(
            root.SUITE, str(folder / "debian"), debian.find_mirrors().source_lines(root.SUITE),
            PACKAGES, []))
        return folder / "debian"

    return shared.once("radio-debian", make)


def run_radio(arguments: Sequence[str | Path], stdin: bytes = b"", *, folder: Path | None = None,
              environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run `qop radio` with these arguments to its end."""
    return subprocess.run(
        [sys.executable, "-m", "harness", "radio", *arguments], input=stdin, capture_output=True,
        check=False, timeout=PATIENCE_S, cwd=folder,
        env={**Qop.environment(), **(environment or {})})


# --- Without a machine ---


def test_frame_is_read_as_it_was_encoded() -> None:
    """A frame of the machine's C code has type, stream, padding, length."""
    frame = radio.Frame("D", radio.Stream.ERRORS, b"text")
    assert frame.to_bytes() == b"D\x02\0\0\4\0\0\0text"
    assert radio.Frame.from_number("A", 513, 1).to_bytes() == b"A\x01\0\0\4\0\0\0\1\2\0\0"


def test_machines_of_several_processes_use_different_cores(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores that no host has: nothing else claims them. With all in use, one is used twice."""
    cores = {1_000_001, 1_000_002}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: cores)
    claims: list[socket.socket] = []
    monkeypatch.setattr(radio, "_CLAIMS", claims)
    claimed = [radio.claim_core.__wrapped__() for _ in range(3)]
    for claim in claims:
        claim.close()
    assert claimed[:2] == [1_000_001, 1_000_002] and claimed[2] in cores


def test_settings_are_words_that_end_with_zero() -> None:
    """Blanks, commas and equal signs in words and values stay."""
    encoded = radio.RadioSettings(
        ["echo", "a b"], {"X": "1=2"}, Path("/w"), binds=[Path("/b,c")], namespaces=["sta1"],
        host_name="h", terminals=[radio.Stream.INPUT]).to_bytes()
    assert encoded.split(b"\0") == [
        b"r/", b"d/w", b"hh", b"m22", b"t0", b"w24 80", b"b/b,c", b"s/b,c", b"nsta1", b"aecho",
        b"aa b", b"eX=1=2", b""]


def test_folder_below_the_root_has_its_path_there() -> None:
    """The host's root in a container is a folder, and paths in the machine are the host's."""
    words = radio.RadioSettings(["true"], {}, Path("/host/home/me"), Path("/host"),
                                binds=[Path("/host/home/me"), Path("/results")]).to_bytes()
    assert words.split(b"\0")[:2] == [b"r/host", b"d/home/me"]
    assert b"b/home/me\0s/host/home/me\0b/results\0s/results\0" in words


def test_step_is_a_word_with_its_namespace() -> None:
    assert radio.SetupStep("ap1", "ip link").to_word() == "xap1 ip link"
    assert radio.SetupStep("", device="air1", request=b"\1\xff").to_word() == "q air1 01ff"


@pytest.mark.parametrize(("text", "line"), [
    ("CCMP 00ff", b'"tk","00ff"\n'), ("WEP-104 0a", b'"wep","0a"\n'), ("AES-128-CMAC 0a", b"")])
def test_key_is_a_line_for_wireshark(text: str, line: bytes) -> None:
    assert format_key(text) == line


def test_callers_environment_has_no_variable_of_the_harness() -> None:
    """./qop changes PYTHONPATH for itself, and the command gets the caller's."""
    own = b"HOME=/h\0PYTHONPATH=/qop\0QOP_CALLERS_=1\0"
    assert read_callers_environment(own) == {"HOME": "/h"}
    assert read_callers_environment(own + b"QOP_CALLERS_PYTHONPATH=src\0") == {
        "HOME": "/h", "PYTHONPATH": "src"}
    assert read_callers_environment(b"PYTHONPATH=/x\0") == {"PYTHONPATH": "/x"}


@pytest.mark.parametrize(("arguments", "text"), [
    (["-n", "101", "true"], "101 is not in the range 1<=x<=100"),
    (["-n", "40", "--memory", "100", "true"], "--memory 100: is too little for 40 radios"),
    (["-n", "1", "--namespaces", "a,b", "true"], "--namespaces has 2 names; give at least as many"),
    (["--namespaces", "a/b", "true"], "'a/b' is no name of a network namespace"),
    (["--medium", "nosuch", "true"], "--medium nosuch: no such file in topologies/media"),
    (["--medium", "802.11b-positions", "true"], "needs the position of each of the 2 radios"),
    (["--keys", "keys", "true"], "--keys keys: keys are read while frames are captured"),
    (["--capture", "nowhere/air.pcap", "true"], "--capture nowhere/air.pcap: cannot be written"),
    (["--medium", "802.11g", "--channels", "1,1", "--namespaces", "a,b", "true"],
     "the access points on channel 1 are in several namespaces"),
    (["--medium", "802.11g", "--channels", "1,6,11", "true"],
     "--channels: 3 access points need as many radios, and there are only 2; give -n 3"),
    (["--hwsim", "radios=3", "true"], "--hwsim radios=3: is no parameter of mac80211_hwsim"),
    (["--hwsim", "channels=0", "true"], "--hwsim channels=0: is no parameter of mac80211_hwsim"),
    (["--hwsim", f"channels={10 ** 20}", "true"], f"--hwsim channels={10 ** 20}: is no parameter"),
    (["--hwsim", "mlo=2", "true"], "--hwsim mlo=2: is no parameter of mac80211_hwsim"),
    (["--channels", "36", "true"], "--channels 36: is no list of channels"),
    (["--position", "1", "true"], "--position 1: is no position"),
    (["--position", "nan,0", "true"], "--position nan,0: is no position"),
    (["--position", "0,0", "true"], "--position: belongs to a medium, and there is none"),
    (["--channels", "1,6", "true"], "--channels: belongs to a medium, and there is none"),
    (["--medium", "802.11g", "--position", "0,0", "--position", "9,0", "true"],
     "--position: the medium 802.11g has no signal that falls with distance"),
    (["--capture", "air", "--keys", "./air", "true"], "--keys air: is the file of --capture"),
    (["--root", "nowhere", "true"], "--root nowhere: there is no such folder"),
    (["--root", "file", "true"], "--root file: is not a folder; name one that exists"),
    (["--bind", "file", "true"], "--bind file: is not a folder; name one that exists"),
    ([""], "radio: COMMAND is empty; name a program, or leave COMMAND out for a shell"),
    (["--root", "empty"], "there is no /bin/sh"),
    (["--bind", "nowhere", "true"], "--bind nowhere: there is no such folder"),
    (["--bind", "/", "true"], "--bind /: the whole system would be writable"),
])
def test_bad_input_is_one_line(qop: Qop, arguments: list[str], text: str) -> None:
    (qop.folder / "empty").mkdir()
    (qop.folder / "file").touch()
    done = qop("radio", *arguments)
    assert done.returncode in {1, 2}
    assert text in done.stderr
    assert done.stderr.startswith("qop: ") and done.stderr.count("\n") == 1, done.stderr


def test_missing_command_is_named_before_a_machine_is_built(
        qop: Qop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QOP_CACHE", str(qop.folder / "cache"))
    done = qop("radio", "no-such-command")
    assert done.returncode == 127
    assert done.stderr == "qop: no-such-command: command not found; install it or give its path\n"
    assert not (qop.folder / "cache/kernels").exists()


# --- In a machine ---


@guest
@shareable
def test_command_has_its_exit_status_and_its_streams() -> None:
    """Output and errors stay apart, and every byte is there."""
    done = run_radio(["--", "sh", "-c", "cat; echo problem >&2; exit 7"], bytes(range(256)) * 4000)
    assert done.returncode == 7
    assert done.stderr == b"problem\n"
    assert done.stdout == bytes(range(256)) * 4000


@guest
@shareable
def test_rest_of_a_file_is_left_to_the_next_command(tmp_path: Path) -> None:
    """A command that reads nothing takes nothing of the file on standard input."""
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    radio_line = f"{shlex.join(Qop(tmp_path).argv('radio'))} true"
    done = subprocess.run(
        ["sh", "-c", f'while read -r line; do echo "$line"; {radio_line}; done <lines'],
        cwd=tmp_path, env=Qop.environment(), capture_output=True, check=False)
    assert done.stdout == b"one\ntwo\nthree\n"


@guest
@shareable
def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*Qop(PROJECT).argv("radio"), "echo", "text"], stdout=full,
                              stderr=subprocess.PIPE, env=Qop.environment(), check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"qop: radio: standard output: cannot be written (No space")


@guest
@shareable
def test_command_sees_radios_and_the_callers_circumstances(tmp_path: Path) -> None:
    """As many radios as asked for; working folder, variables, umask, host name and argument."""
    script = 'ls /sys/class/ieee80211; pwd; echo "$QOP_WORD"; umask; hostname; tty; echo "$1"'
    done = run_radio(["-n", "3", "--", "sh", "-c", script, "sh", "a  b"], folder=tmp_path,
                     environment={"QOP_WORD": "x\ny"})
    mask = os.umask(0o022)
    os.umask(mask)
    assert done.stdout.decode().splitlines() == [
        "phy0", "phy1", "phy2", str(tmp_path.resolve()), "x", "y", f"{mask:04o}",
        os.uname().nodename, "not a tty", "a  b"]
    assert done.stderr == b""


@guest
@shareable
def test_parameters_of_the_radios_are_set() -> None:
    done = run_radio(["--hwsim", "channels=2", "--hwsim", "support_p2p_device=0", "--", "sh", "-c",
                      "cd /sys/module/mac80211_hwsim/parameters; cat channels support_p2p_device"])
    assert done.stdout == b"2\nN\n", done.stderr


@guest
@shareable
def test_only_bound_folders_are_written(tmp_path: Path) -> None:
    """A file in a bound folder is the caller's own. A file elsewhere is gone with the machine."""
    bound, other = tmp_path / "bo und,=x", tmp_path / "other"
    for folder in (bound, other):
        folder.mkdir()
        (folder / "old").write_text("old")
    script = ('for folder; do echo new >"$folder/new"; echo changed >"$folder/old"; done; '
              'cat "$2/new" "$2/old"')
    done = run_radio(["--bind", bound, "--", "sh", "-c", script, "sh", bound, other])
    assert done.stdout == b"new\nchanged\n", done.stderr
    assert {path.name: path.read_text() for path in bound.iterdir()} == {
        "new": "new\n", "old": "changed\n"}
    assert (bound / "new").stat().st_uid == os.getuid()
    assert {path.name: path.read_text() for path in other.iterdir()} == {"old": "old"}


@guest
@shareable
def test_machine_has_no_network_but_its_own() -> None:
    """No interface of the host is there, and no address but the loopback's."""
    done = run_radio(["--namespaces", "sta1,ap1", "--", "sh", "-c",
                      "ls /sys/class/net; cat /proc/net/route | tail -n +2; ls /run/netns"])
    assert b"eth" not in done.stdout and b"wlan0" not in done.stdout
    assert done.stdout.endswith(b"ap1\nsta1\n"), done.stderr


@guest
@shareable
def test_waiting_is_skipped_by_the_virtual_clock() -> None:
    """30 s pass for the command, and less than 5 s of them here beyond a command that waits not."""
    started = time.monotonic()
    run_radio(["--clock", "virtual", "true"])
    between = time.monotonic()
    done = run_radio(["--clock", "virtual", "--", "sh", "-c", "date +%s; sleep 30; date +%s"])
    ended = time.monotonic()
    first, last = map(int, done.stdout.split())
    assert 30 <= last - first <= 31
    assert (ended - between) - (between - started) < 5


@guest
@shareable
@pytest.mark.parametrize(("argv", "status", "text"), [
    (["no-such-command"], 127, b"qop: no-such-command: command not found; install it"),
    (["/etc/passwd"], 126, b"qop: /etc/passwd: cannot be run (Permission denied)"),
])
def test_command_that_cannot_be_run_is_named(argv: list[str], status: int, text: bytes) -> None:
    done = run_radio(argv)
    assert done.returncode == status
    assert done.stderr.startswith(text) and done.stderr.count(b"\n") == 1, done.stderr


@guest
@shareable
def test_memory_that_this_machine_lacks_is_one_line() -> None:
    done = run_radio(["--memory", "999999999", "true"])
    assert done.returncode == 1
    assert done.stderr.startswith(b"qop: radio: neither /dev/shm nor ")
    assert done.stderr.endswith(b"give fewer radios or a smaller --memory\n")
    assert done.stderr.count(b"\n") == 1


@guest
@shareable
@pytest.mark.parametrize(("script", "number", "status", "text"), [
    ("echo on; sleep 1000", signal.SIGINT, 130, b"on\n"),
    ("echo on; exec sleep 1000", signal.SIGTERM, 143, b"on\n"),
    ("trap 'echo ended; exit 5' TERM; echo on; while :; do sleep 0.1; done", signal.SIGTERM, 5,
     b"on\nended\n"),
])
def test_signal_reaches_the_command(script: str, number: signal.Signals, status: int, text: bytes,
                                    qop: Qop) -> None:
    """The command decides what a signal does. Nothing is left afterwards."""
    with start_radio(qop, script) as process:
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == status
        assert b"on\n" + process.stdout.read() == text  # type: ignore[union-attr]
    assert qop.left_over() == []


@guest
@shareable
def test_killed_parent_leaves_no_machine(qop: Qop) -> None:
    with start_radio(qop, "echo on; sleep 1000") as process:
        process.kill()
    assert qop.left_over() == []
    # The machine has removed the settings, which may have secrets.
    assert [path for path in qop.folder.rglob("radio-*/*") if path.is_file()
            and path.name != "console"] == []


def start_radio(qop: Qop, script: str) -> subprocess.Popen[bytes]:
    """Start a script in a machine, and wait for the first line of its output."""
    process = subprocess.Popen(qop.argv("radio", "--", "sh", "-c", script), cwd=qop.folder,
                               env={**qop.environment(), "TMPDIR": str(qop.folder)},
                               stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    return process


@guest
@shareable
def test_shell_on_a_terminal_has_a_terminal() -> None:
    """Without a command a shell is opened. Its line editing is done in the machine."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "radio"], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**Qop.environment(), "SHELL": "/bin/sh", "PS1": "ready> "}, start_new_session=True)
    os.close(theirs)
    said = b""
    # The waiting program says itself that it waits: what is typed does not have that word.
    for wanted, answer in ((b"ready> ", b"tty; sh -c 'echo wai''ting; exec sleep 1000'\r"),
                           (b"/dev/pts/0\r\nwaiting\r\n", b"\x03"), (b"ready> ", b"exit 4\r")):
        while wanted not in said:
            said += os.read(ours, 1000)
        said = b""
        os.write(ours, answer)
    assert process.wait(PATIENCE_S) == 4
    os.close(ours)


@guest
@shareable
def test_reader_that_has_gone_ends_the_command() -> None:
    """A command that writes to a closed pipe gets SIGPIPE, as it would here."""
    process = subprocess.Popen([sys.executable, "-m", "harness", "radio", "yes"],
                               env=Qop.environment(), stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"y\n"
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


@guest
@shareable
def test_station_joins_and_pings_across_namespaces(tmp_path: Path) -> None:
    """Debian's hostapd and wpa_supplicant on another root; the capture has the 4-way handshake.

    The keys open the pings in it. The example is on a bound folder, because the other root has not
    got it.
    """
    shutil.copy(PROJECT / "examples/radio-wpa2.sh", tmp_path)
    done = run_radio(["--root", debian_root(), "--bind", tmp_path, "--namespaces", "ap1,sta1",
                      "--capture", tmp_path / "air.pcap", "--keys", tmp_path / "keys", "--",
                      tmp_path / "radio-wpa2.sh"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert b"wpa_state=COMPLETED" in done.stdout
    assert b"3 packets transmitted, 3 received" in done.stdout
    shown = subprocess.run(
        ["tshark", "-r", tmp_path / "air.pcap", "-Y", "eapol", "-T", "fields", "-e",
         "wlan_rsna_eapol.keydes.msgnr", "-e", "radiotap.channel.freq"], capture_output=True,
        check=True, text=True).stdout
    assert re.findall(r"(\d)\t2412", shown) == ["1", "2", "3", "4"]
    keys = (tmp_path / "keys").read_text().splitlines()
    for given, count in ((keys, 6), ([], 0)):
        shown = subprocess.run(
            ["tshark", "-r", tmp_path / "air.pcap", "-o", "wlan.enable_decryption:TRUE",
             *(f"-ouat:80211_keys:{line}" for line in given), "-Y", "icmp"],
            capture_output=True, check=True, text=True).stdout
        assert shown.count("ICMP") == count


@guest
@shareable
def test_iwd_joins_and_pings(tmp_path: Path) -> None:
    """A station that encrypts by the kernel's AF_ALG and is controlled by D-Bus."""
    shutil.copy(PROJECT / "examples/radio-managers.sh", tmp_path)
    done = run_radio(["-n", "2", "--root", debian_root(), "--bind", tmp_path, "--namespaces", "ap1",
                      "--clock", "virtual", "--", tmp_path / "radio-managers.sh", "iwd"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert b"3 packets transmitted, 3 received" in done.stdout


@guest
@shareable
@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed (Debian: golang-go)")
def test_station_in_go_joins_and_pings(tmp_path: Path) -> None:
    """A client of nl80211 from Go's registry, of which qop knows nothing."""
    shutil.copy(PROJECT / "examples/radio-go.sh", tmp_path)
    shutil.copytree(PROJECT / "examples/go-station", tmp_path / "go-station")
    subprocess.run(["go", "build", "-C", tmp_path / "go-station"], check=True,
                   env={**os.environ, "CGO_ENABLED": "0"})
    done = run_radio(["--root", debian_root(), "--bind", tmp_path, "--namespaces", "ap1,sta1",
                      "--", tmp_path / "radio-go.sh"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert b"joined example at 02:00:00:00:00:00, 2412 MHz" in done.stdout
    assert b"3 packets transmitted, 3 received" in done.stdout


@guest
@shareable
@pytest.mark.parametrize(("arguments", "least_ms", "most_ms"), [
    ([], 0.0, 0.5), (["--medium", "802.11b-long"], 1.0, 5.0)])
def test_medium_takes_time_on_the_air(arguments: list[str], least_ms: float, most_ms: float,
                                      tmp_path: Path) -> None:
    """By the virtual clock a ping takes the airtime of its two frames, and none without a medium.

    The long preamble alone takes 192 us, before each frame and each acknowledgement.
    """
    shutil.copy(PROJECT / "examples/radio-wpa2.sh", tmp_path)
    done = run_radio(["--root", debian_root(), "--bind", tmp_path, "--namespaces", "ap1,sta1",
                      "--clock", "virtual", *arguments, "--", tmp_path / "radio-wpa2.sh"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    [fastest] = re.findall(rb"min/avg/max/mdev = ([0-9.]+)/", done.stdout)
    assert least_ms <= float(fastest) <= most_ms


@guest
@shareable
def test_namespace_whose_name_is_repeated_has_several_radios() -> None:
    done = run_radio(["--namespaces", "aps,aps,sta1", "--", "sh", "-c",
                      ("ls /run/netns; for name in aps sta1; do nsenter --net=/run/netns/$name "
                       "grep -o 'wlan.' /proc/net/dev; done")])
    assert done.stdout.split() == [b"aps", b"sta1", b"wlan0", b"wlan1", b"wlan2"], done.stderr


def ci_step(name: str) -> str:
    """The shell command of the step in a file for CI."""
    document = yaml.safe_load((PROJECT / name).read_text())
    if name == "action.yml":
        [step] = [step for step in document["runs"]["steps"] if "env" in step]
        assert step["env"] == {"RADIO_RUN": "${{ inputs.run }}",
                               "RADIO_OPTIONS": "${{ inputs.options }}"}
        return str(step["run"])
    [line] = document[".radio"]["script"]
    return str(line)


@guest
@shareable
@pytest.mark.parametrize("name", ["action.yml", "examples/ci/radio.gitlab-ci.yml"])
def test_step_for_ci_runs_on_the_workspace(name: str, tmp_path: Path) -> None:
    """Options are words. Commands end at the first that fails. New files are in the workspace."""
    (tmp_path / "workspace/.qop").mkdir(parents=True)
    (tmp_path / "workspace/.qop/checkout").symlink_to(PROJECT)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", ci_step(name)],
        cwd=tmp_path / "workspace", capture_output=True, check=False, timeout=PATIENCE_S,
        env={**os.environ, "GITHUB_ACTION_PATH": str(PROJECT),
             "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
             "CI_PROJECT_DIR": str(tmp_path / "workspace"),
             "RADIO_OPTIONS": "-n 1 --clock virtual",
             "RADIO_RUN": "ls /sys/class/ieee80211 >found; false; touch more"})
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "workspace/found").read_text() == "phy0\n"
    assert not (tmp_path / "workspace/more").exists()


def test_cache_for_ci_follows_the_guests_inputs(tmp_path: Path) -> None:
    """The key is that of the files, and differs with one of them; no compiled file counts."""
    [step] = [step for step in yaml.safe_load((PROJECT / "action.yml").read_text())["runs"]["steps"]
              if step.get("id") == "inputs"]
    for name in ("bin/sudo", "qop", "guest/a.py", "requirements/a.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / "bin/sudo").chmod(0o755)

    def read_key() -> str:
        output = tmp_path / "output"
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], check=True,
            env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(output),
                 "GITHUB_ACTION_PATH": str(tmp_path)})
        return output.read_text().splitlines()[-1]

    first = read_key()
    assert re.fullmatch("key=[0-9a-f]{64}", first)
    (tmp_path / "guest/a.pyc").write_text("x")
    assert read_key() == first
    (tmp_path / "guest/a.py").write_text("x")
    assert read_key() != first


@guest
@shareable
def test_program_that_stays_behind_does_not_keep_the_machine() -> None:
    """It writes without end; what the command itself wrote is all there."""
    done = run_radio(["--", "sh", "-c", "yes | head -c 100000; yes & exit 3"])
    assert done.returncode == 3
    assert done.stdout.startswith(b"y\n" * 50_000)


@guest
@shareable
def test_status_arrives_at_a_caller_that_was_busy() -> None:
    """A command fills the pipe to the host, whose pages hold one piece each, and writes some more.

    The caller reads again when the machine would have ended.
    """
    pieces, size, rest = 16, 4000, 100
    script = (f"echo go >&2; sleep 1; for i in $(seq {pieces}); do head -c {size} /dev/zero; "
              f"sleep 0.05; done; head -c {rest} /dev/zero; exit 3")
    running = subprocess.Popen(
        [sys.executable, "-m", "harness", "radio", "--", "sh", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=Qop.environment())
    assert running.stderr is not None and running.stderr.readline() == b"go\n"
    running.send_signal(signal.SIGSTOP)
    time.sleep(5)
    running.send_signal(signal.SIGCONT)
    output, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 3, errors
    assert len(output) == pieces * size + rest


#: What an ordinary user runs with Debian's own Python: all frames of a machine's first process.
USERS_PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from guest.image import GuestImage
from guest.radio import Frame, RadioSettings, boot_radio_machine
async def main():
    here = Path.cwd()
    image = GuestImage(here / "linux", Path(), sys.argv[1] == "True", "", {}, here)
    settings = RadioSettings(["sh", "-c", sys.argv[2]], dict(os.environ), here,
                             binds=[here / "bound"])
    async with await boot_radio_machine(image, settings, here / "scratch") as machine:
        while frame := await Frame.read_frame(machine.stdout):
            print(frame.kind, frame.data)
asyncio.run(main())
"""


@guest
@shareable
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_ordinary_user_has_a_machine() -> None:
    """The command is root there. It reads what the user may read, and its files are the user's."""
    built = guest_image.ensure_rootless_image()
    script = ("id -u; ip link set wlan1 up && echo up; cat /etc/shadow 2>/dev/null || "
              "echo refused; echo x >/etc/passwd && echo changed; echo new >bound/file")
    with TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        shutil.copytree(PROJECT / "guest", folder / "guest")
        for source in (built.kernel, built.libraries / radio.INIT):
            shutil.copy(source, folder)
        for path in (folder, folder / "bound", folder / "scratch"):
            path.mkdir(exist_ok=True)
            shutil.chown(path, "nobody", "nogroup")
        done = subprocess.run(
            ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
             "--bounding-set=-all", "/usr/bin/python3", "-c", USERS_PROGRAM, str(built.seccomp),
             script], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        said = "".join(re.findall(r"^D b'(.*)'$", done.stdout, re.MULTILINE))
        assert said == r"0\nup\nrefused\nchanged\n", (done.stdout, done.stderr)
        assert (folder / "bound/file").owner() == "nobody"


# --- hostap's own tests ---

HWSIM = PROJECT / "examples/hostap-hwsim.sh"
#: Takes the place of hostap's run-all.sh, and reports on the machine in the form of its results.
_RUN_ALL = """#!/bin/sh
check() {
	name=$1 result=FAIL
	shift
	"$@" >/dev/null 2>&1 && result=PASS
	echo "$result $name"
}
case $* in "--vm --split 1/2 --long -f wpa") first=true ;; *) first=false ;; esac
$first || { check second_job [ "$*" = "--vm --split 2/2 --long -f wpa" ]; exit; }
check seven_radios [ "$(ls /sys/class/ieee80211 | wc -l)" = 7 ]
check no_p2p_device [ "$(cat /sys/module/mac80211_hwsim/parameters/support_p2p_device)" = N ]
check sudo_runs_as_root [ "$(sudo id -u)" = 0 ]
check regulatory_database cmp vm/regdb/regulatory.db /lib/firmware/regulatory.db
check logs_are_writable touch "$LOGDIR/log"
check one_more false
echo "SKIP needs_more a reason"
sleep 600
"""


def hostap_checkout(folder: Path) -> Path:
    """Make a folder with the files of hostap that the script looks at."""
    for name in ("hostapd/hostapd", "hostapd/hlr_auc_gw", "wpa_supplicant/wpa_supplicant",
                 "wlantest/wlantest", "tests/hwsim/vm/regdb/regulatory.db",
                 "tests/hwsim/run-all.sh"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(_RUN_ALL)
        (folder / name).chmod(0o755)
    # Magic number, version, no country.
    (folder / "tests/hwsim/vm/regdb/regulatory.db").write_bytes(b"RGDB\0\0\0\x14\0\0\0\0")
    return folder


def run_hwsim(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HWSIM, *arguments], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S, env={**os.environ, **variables})


def test_script_for_hostap_refuses_bad_input_in_one_line(tmp_path: Path) -> None:
    checkout = hostap_checkout(tmp_path / "hostap")
    (tmp_path / "logs").mkdir()
    for arguments, text in (
            ((checkout,), "give CHECKOUT and LOGS"),
            ((tmp_path, tmp_path / "new"), "is no checkout of hostap with tests/hwsim"),
            ((checkout, tmp_path / "logs"), "exists or cannot be made; name a new folder")):
        done = run_hwsim(*arguments)
        assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1
    for jobs in ("two", "0", "-1"):
        done = run_hwsim(checkout, tmp_path / "new", JOBS=jobs)
        assert done.returncode == 2
        assert done.stderr == (f"hostap-hwsim: JOBS={jobs}: is no number of machines; write for "
                               "example 2\n")
    (checkout / "wlantest/wlantest").unlink()
    done = run_hwsim(checkout, tmp_path / "new")
    assert done.returncode == 2 and "is missing; build it by tests/hwsim/build.sh" in done.stderr


def test_script_for_hostap_fails_without_the_results_of_a_job(tmp_path: Path) -> None:
    """Tests that were asked for and did not run are a failure."""
    program = tmp_path / "qop"
    program.write_text("""#!/bin/sh
while [ "$1" != --inside ]; do shift; done
echo "PASS test_of_$4"
case $4 in 1/*) mkdir "$3"; : >"$3/ended" ;; esac
""")
    program.chmod(0o755)
    checkout = hostap_checkout(tmp_path / "hostap")
    missing = f"hostap-hwsim: job 2 has ended early; read {tmp_path}/logs-2/2.output\n"
    for jobs, errors in (("1", ""), ("2", missing)):
        done = run_hwsim(checkout, tmp_path / f"logs-{jobs}", JOBS=jobs, QOP=str(program))
        assert (done.returncode, done.stderr) == (len(errors) > 0, errors)
        assert done.stdout.startswith(f"PASS {jobs}\n")


@guest
@shareable
def test_script_for_hostap_arranges_the_rig_and_sums_up(tmp_path: Path) -> None:
    """Each job is a machine of hostap's radios; a failed test is named, and is the exit status."""
    checkout, logs = hostap_checkout(tmp_path / "hostap"), tmp_path / "logs"
    done = run_hwsim(checkout, logs, "-f", "wpa", JOBS="2", OPTIONS=f"--root {debian_root()}")
    assert done.stdout.splitlines() == ["PASS 6", "FAIL 1", "SKIP 1"], [
        file.read_text() for file in logs.glob("*.output")]
    assert done.returncode == 1 and done.stderr == "FAIL one_more\n"
    assert (logs / "results").read_text().splitlines() == [
        "FAIL one_more", "PASS logs_are_writable", "PASS no_p2p_device",
        "PASS regulatory_database", "PASS second_job", "PASS seven_radios",
        "PASS sudo_runs_as_root", "SKIP needs_more a reason"]
    assert (logs / "1/log").stat().st_uid == os.getuid()
