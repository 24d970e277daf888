"""The container image: built, loaded with podman, and measured in as its page says it is.

docs/container.md is what is tested: all its commands in blocks `sh container` are given, one after
the other, in a clean folder by an ordinary user. tests/docs/test_docs.py says why others are not.
Then the commands of docs/lab-sheet.md (`sh lab`), whose expected numbers are compared.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import doc_commands
from conftest import PATIENCE_S, wait_until
from guest import image as guest_image
from guest.image import GuestImage
from harness.container import image
from harness.container.image import ContainerImage
from harness.container.slimming import RULES
from measure.records import record
from notebooks import NOTEBOOK, execute_notebook

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

PAGE, LAB_SHEET = "docs/container.md", "docs/lab-sheet.md"
MOST_BYTES, MOST_PACKED_BYTES = 710e6, 250e6
MOST_PACKED_RADIO_BYTES = 100e6
RUN = "podman run --rm --network none -v $PWD/results:/results"
#: Control groups of both versions at once are refused by crun.
RUNTIME = "runc" if Path("/sys/fs/cgroup/unified").exists() else "crun"
KERNELS = "/opt/qop/cache/kernels"
ONE_CELL = "--scenarios N2 --policies P8 --repetitions 1 --stream-bytes 200k"


class Person:
    """An ordinary user with a folder of their own, whose images and containers are there, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.uid = os.geteuid()
        self._become: list[str] = []
        self._name = ""
        if self.uid == 0:
            self._name = f"qop-test-{os.getpid()}"
            subprocess.run(["useradd", "--home-dir", str(folder), self._name], check=True)
            self.uid = pwd.getpwnam(self._name).pw_uid
            self._become = ["setpriv", f"--reuid={self._name}", f"--regid={self._name}",
                            "--init-groups"]
            shutil.chown(folder, self._name)
        self._environment = {"HOME": str(folder), "PATH": os.environ["PATH"] + ":/usr/sbin",
                             "XDG_RUNTIME_DIR": str(folder / "run"), "TMPDIR": str(folder),
                             "STORAGE_DRIVER": "overlay"}
        if RUNTIME != "crun":
            (folder / "containers.conf").write_text(f'[engine]\nruntime = "{RUNTIME}"\n')
            self._environment["CONTAINERS_CONF"] = str(folder / "containers.conf")
        self("mkdir -p run")
        if self("podman info").returncode:  # an older kernel, or an overlay below
            shutil.rmtree(folder / ".local", ignore_errors=True)
            self._environment["STORAGE_DRIVER"] = "vfs"

    def start(self, line: str) -> subprocess.Popen[str]:
        """Start a shell's command line in the user's folder."""
        return subprocess.Popen([*self._become, "sh", "-c", line], cwd=self.folder, text=True,
                                env=self._environment, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __call__(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run one to its end."""
        process = self.start(line)
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
        return subprocess.CompletedProcess(line, process.returncode, out, err)

    def leave(self) -> None:
        """Take along what was theirs: containers, files with mapped owners, the account."""
        self("podman rm --all --force --time 0; podman unshare rm -rf .local")
        self("podman system migrate")  # ends the process that holds their user namespace
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._name:
            subprocess.run(["userdel", self._name], check=True)


@pytest.fixture(scope="session")
def guest() -> GuestImage:
    """The guest's image, built if this machine has none."""
    return guest_image.ensure_image()


@pytest.fixture(scope="session")
def made(guest: GuestImage) -> ContainerImage:
    """The container image, built if this machine has none."""
    return image.ensure_image(guest)


@pytest.fixture(scope="session")
def person() -> Iterator[Person]:
    """Somebody who can run containers, if that is to be had here."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    found = Person(Path(tempfile.mkdtemp(prefix="qop-person-", dir="/var/tmp")))
    try:
        said = found("podman unshare true")
        if said.returncode:
            pytest.skip(f"podman has no user namespaces here: {said.stderr.strip()[-200:]}")
        yield found
    finally:
        found.leave()


@pytest.fixture(scope="session")
def walked(made: ContainerImage, person: Person) -> dict[str, subprocess.CompletedProcess[str]]:
    """What every command of the page said, by command."""
    found = {}
    assert doc_commands.pages_with("container") == [PAGE]
    for command in doc_commands.commands(PAGE, "container"):
        line = command.text
        if line.startswith("./qop image"):
            # Their file is the one in the cache; that the command makes it has a test of its own.
            shutil.copyfile(made.archive, person.folder / "qop.tar")
            continue
        done = found[line] = person(line)
        assert done.returncode == command.status, (str(command), done.stdout, done.stderr)
        assert command.missing(done.stdout) is None, (str(command), done.stdout)
    return found


@pytest.fixture(scope="session")
def exercised(made: ContainerImage, walked: object, person: Person) -> Path:
    """The folder of the results after all commands of the lab sheet, each as it says."""
    assert doc_commands.pages_with("lab") == [LAB_SHEET]
    for command in doc_commands.commands(LAB_SHEET, "lab"):
        done = person(command.text)
        assert done.returncode == command.status, (str(command), done.stdout, done.stderr)
    return person.folder / "results"


def expected(heading: str) -> dict[str, list[str]]:
    """A table of the lab sheet: the cells of each policy's row behind a heading."""
    text = (doc_commands.PROJECT / LAB_SHEET).read_text(encoding="utf-8")
    table = text.partition(heading)[2].partition("\n\n")[0]
    return {cells[0]: cells[1:] for cells in (
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[1:])}


def measurements(folder: Path) -> dict[str, list[dict]]:
    """What each policy's repetitions measured; all of them are proven."""
    found: dict[str, list[dict]] = {}
    records, complaints = record.read_records(folder / "records")
    assert not complaints
    for one in records:
        assert one.status == "ok", one.reason
        found.setdefault(one.cell["policy"], []).append(one.measured)
    return found


def packets(measured: dict, *phases: str) -> list[str]:
    """The packets of phases of the first authentication, "-" where a phase is not there."""
    phases_made = measured["authentications"][0]["phases"]
    made = {phase["name"]: str(phase["packets"]) for phase in phases_made}
    made["mip"] = str(int(made["agent_discovery"]) + int(made["registration"]))
    return [made.get(phase, "-") for phase in phases]


def mean(values: list[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)


def test_lab_sheet_authentication_has_the_packets_and_the_order(exercised: Path) -> None:
    """Exercise 1: packets as in the sheet; static keys cost nothing, certificates the most."""
    measured = measurements(exercised / "cost")
    table = expected("| policy | packets of MIP, EAP, IKE")
    for policy in ("P1", "P2", "P3", "P6", "P8"):
        for one in measured[policy]:
            assert packets(one, "mip", "dot1x", "ike") == table[policy][0].split(", ")
    times = {policy: mean([one["authentication_time_s"] for one in several])
             for policy, several in measured.items()}
    assert max(times["P1"], times["P2"]) < times["P3"] < min(times["P6"], times["P8"])


def test_lab_sheet_throughput_has_the_overheads(exercised: Path) -> None:
    """Exercise 2: each overhead, which is airtime, is in the sheet's range or close to it."""
    measured = measurements(exercised / "cost")
    goodput = {policy: mean([one["udp"]["goodput_bps"] for one in several])
               for policy, several in measured.items()}
    for policy, (_, between) in expected("| policy | computed overhead").items():
        if policy.startswith("P"):
            low, high = map(float, between.split(" to "))
            overhead = (goodput["P1"] - goodput[policy]) / 1e3
            assert low - 2 * (high - low) < overhead < high + 2 * (high - low), policy


def test_lab_sheet_proof_fails_without_wep(exercised: Path) -> None:
    """Exercise 3: P2 is not proven, by its frames."""
    records, _ = record.read_records(exercised / "no-wep/records")
    [failed] = [one for one in records if one.cell["policy"] == "P2"]
    assert failed.status == "failed"
    assert "not proven: WEP-104 on every data frame (0 of " in failed.reason
    for capture in ("cost", "no-wep"):
        assert (exercised / capture / "captures/P2-N2-001/traffic-air.pcap.gz").is_file()


def test_lab_sheet_roaming_is_shorter_with_fast_transition(exercised: Path) -> None:
    """Exercise 4: packets as in the sheet, and a fast transition takes less than the others."""
    measured = measurements(exercised / "move")
    table = expected("| policy | packets of EAP at home")
    for policy, several in measured.items():
        assert {packets(one, "dot1x")[0] for one in several} == {table[policy][0]}
    handoffs = {policy: mean([one["handoff_s"] for one in several])
                for policy, several in measured.items()}
    assert handoffs["M8"] < min(handoffs["M4"], handoffs["M5"])


def test_lab_sheet_notebook_comes_from_the_image_and_runs(exercised: Path, tmp_path: Path) -> None:
    """The last step: students have the image alone, and the notebook reads what they measured."""
    copied = exercised.parent / NOTEBOOK.name
    assert copied.read_bytes() == NOTEBOOK.read_bytes()
    results = shutil.copytree(exercised / "cost/tables", tmp_path / "cost/tables").parent
    executed, outputs = execute_notebook(copied, results)
    assert executed.returncode == 0, executed.stderr
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_line_for_machines_without_dpkg_works_as_printed(
        walked: object, person: Person, tmp_path: Path) -> None:
    """Whoever has the archive gives the line to a shell. One cell is enough here."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for path in Path(folder).glob("*"):
            if not path.name.startswith("dpkg"):
                (programs / path.name).unlink(missing_ok=True)
                (programs / path.name).symlink_to(path)
    said = subprocess.run([doc_commands.PROJECT / "qop", "run"], capture_output=True, text=True,
                          check=False, env={"PATH": str(programs), "HOME": str(tmp_path)}).stderr
    line = said.partition("Give: ")[2].strip()
    assert " podman load -i qop.tar && " in line and line.endswith(" qop run"), said
    done = person(f"mkdir -p another && cp qop.tar another && cd another && {line} {ONE_CELL}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "P8-N2-001: authentication time " in done.stderr
    assert list((person.folder / "another/results").glob("*/records/P8-N2-001.json"))


def test_sizes(made: ContainerImage) -> None:
    """The bounds: 710 MB unpacked, 250 MB as a file."""
    assert made.unpacked_bytes <= MOST_BYTES
    assert made.archive.stat().st_size == made.packed_bytes <= MOST_PACKED_BYTES


@pytest.fixture(scope="session")
def radio_image(person: Person) -> ContainerImage:
    """The image with `qop radio` alone, loaded by the user."""
    made = image.ensure_radio_image()
    archive = person.folder / "qop-radio.tar"
    shutil.copyfile(made.archive, archive)
    archive.chmod(0o644)
    loaded = person("podman load -i qop-radio.tar")
    assert loaded.returncode == 0, loaded.stderr
    return made


def test_radio_image_runs_commands_of_the_host(person: Person,
                                               radio_image: ContainerImage) -> None:
    """At most 100 MB to download; the command is the host's own, in a machine with radios."""
    assert radio_image.packed_bytes <= MOST_PACKED_RADIO_BYTES
    line = ("podman run --rm --network none --tmpfs /tmp:exec,size=1g -v /:/host:ro "
            "qop-radio radio --root /host --clock virtual")
    done = person(f"{line} -n 3 -- sh -c 'ls /sys/class/ieee80211; cat /etc/hostname; sleep 30'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["phy0", "phy1", "phy2",
                                   Path("/etc/hostname").read_text().strip()]
    medium = person(f"{line} --medium 802.11b-long -- ip link show wlan1")
    assert "wlan1" in medium.stdout, medium.stderr


@pytest.mark.usefixtures("radio_image")
def test_pytest_plugin_runs_tests_in_the_radio_image(person: Person) -> None:
    """The other project has Debian's Python, pytest and the plug-in, and no checkout of qop."""
    source, project = person.folder / "plugin", person.folder / "project"
    shutil.copytree(doc_commands.PROJECT / "integrations/pytest", source)
    shutil.copytree(doc_commands.PROJECT / "examples/pytest-radios", project)
    subprocess.run(["/usr/bin/python3", "-m", "venv", person.folder / "env"], check=True)
    subprocess.run([person.folder / "env/bin/python", "-m", "pip", "install", "--quiet", source],
                   check=True)
    done = person("cd project && QOP_IMAGE=qop-radio ../env/bin/python -m pytest -v "
                  "-p no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_archive_is_of_two_worlds(made: ContainerImage, guest: GuestImage) -> None:
    """OCI's index and docker's manifest name the same blobs; labels say what it is."""
    with tarfile.open(made.archive) as tar:
        def read(name: str):
            file = tar.extractfile(name)
            assert file is not None
            return json.load(file)

        def blob(digest: str) -> str:
            return "blobs/" + digest.replace(":", "/")

        (entry,) = read("index.json")["manifests"]
        manifest = read(blob(entry["digest"]))
        (docker,) = read("manifest.json")
        config = read(docker["Config"])
    assert docker["Config"] == blob(manifest["config"]["digest"])
    assert docker["Layers"] == [blob(layer["digest"]) for layer in manifest["layers"]]
    assert docker["RepoTags"] == [made.name]
    assert config["config"]["Labels"]["org.opencontainers.image.version"] == "0.1.0"
    assert config["config"]["Labels"] == manifest["annotations"]
    assert {"qop.needs.podman", "qop.needs.docker", "qop.needs.wsl2"} <= set(
        config["config"]["Labels"])


def test_the_command(made: ContainerImage, tmp_path: Path, qop) -> None:
    """`qop image container` finds what was built, copies it, and refuses folders."""
    done = qop("image", "container", "--out", "mine.tar")
    assert done.returncode == 0 and "podman load -i mine.tar" in done.stdout
    assert (tmp_path / "mine.tar").stat().st_size == made.packed_bytes
    done = qop("image", "container", "--out", "nowhere/mine.tar")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "nowhere/mine.tar" in done.stderr


def test_rules_are_for_packages_that_are_there() -> None:
    """Every rule of what is left out names something to leave out, once."""
    patterns = [pattern for found in RULES.values() for pattern in found]
    assert len(patterns) == len(set(patterns))
    assert all(pattern.startswith(("opt/qop/python/", "usr/")) for pattern in patterns)


def test_the_page_measures(walked: object, person: Person) -> None:
    """The page's run: every record ok, every file the user's own."""
    read = [record.read_records(folder) for folder in person.folder.glob("results/*_N2/records")]
    assert not any(complaints for _, complaints in read)
    records = [found for several, _ in read for found in several]
    assert {found.status for found in records} == {"ok"}
    assert {found.cell["policy"] for found in records} == {"P1", "P8", "WPA2-PSK"}
    owners = {path.stat().st_uid for path in (person.folder / "results").rglob("*")}
    assert owners == {person.uid}
    told = json.loads(next(person.folder.glob("results/*/provenance.json")).read_text())
    assert {"revision", "changed", "sha256"} <= told[0]["code"].keys()


def assert_unprivileged(person: Person, name: str, process: subprocess.Popen[str]) -> None:
    """While it measures, no process has a capability, seccomp filters, and there is no network."""
    wait_until(lambda: process.poll() is not None or _guests(person, name))
    pids = _guests(person, name)
    assert pids, process.communicate()
    for status in filter(None, map(_status, pids)):
        assert {int(status[kind], 16) for kind in ("CapPrm", "CapEff", "CapAmb")} == {0}
        assert status["Seccomp"] == "2"
    devices = Path(f"/proc/{pids[0]}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in devices] == ["lo"]


@pytest.mark.parametrize("how", [
    "--read-only --cap-drop all --security-opt no-new-privileges --userns keep-id",
    '--userns keep-id --user "$(id -u):$(id -g)" --tmpfs /tmp:exec,size=1g'],
    ids=["locked down", "by number"])
def test_runs_without_privileges(walked: object, person: Person, how: str) -> None:
    """Given less than podman's default, or another user, it measures, and files are the user's."""
    out = f"results/{len(how)}"
    process = person.start(f"{RUN} --name watched {how} qop run {ONE_CELL} --out {out}")
    try:
        assert_unprivileged(person, "watched", process)
        output, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0, output + errors
    (measured,), _ = record.read_records(person.folder / out / "records")
    assert measured.status == "ok"
    assert {path.stat().st_uid for path in (person.folder / out).rglob("*")} == {person.uid}


def _guests(person: Person, name: str) -> list[int]:
    """First process of a container, and all below it; empty as long as no guest is among them."""
    said = person(f"podman inspect --format '{{{{.State.Pid}}}}' {name}")
    if not said.stdout.strip("0\n"):
        return []
    found = [int(said.stdout)]
    for one in found:
        found += map(int, _read(f"/proc/{one}/task/{one}/children").split())
    return found if any(KERNELS in _read(f"/proc/{one}/cmdline") for one in found) else []


def _read(path: str) -> str:
    """A file of a process; "" once it is gone."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _status(pid: int) -> dict[str, str]:
    lines = _read(f"/proc/{pid}/status").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_stopping_keeps_what_was_measured(walked: object, person: Person) -> None:
    """`podman stop` is heard: records are kept, nothing is killed, and the same command goes on.

    And started as the page says it has no privileges.
    """
    line = (f"{RUN} --name stopped qop run --scenarios N2 --policies P1,P2 --repetitions 10 "
            "--stream-bytes 200k --out results/stopped")
    process = person.start(line)
    assert_unprivileged(person, "stopped", process)
    records = person.folder / "results/stopped/records"
    wait_until(lambda: list(records.glob("*.json")))
    assert person("podman stop --time 600 stopped").returncode == 0
    _, errors = process.communicate()
    assert process.returncode == 130 and "interrupted" in errors
    kept = {path.name: path.read_bytes() for path in records.glob("*.json")}
    assert 1 <= len(kept) < 20
    assert not (person.folder / "results/stopped/work").exists()
    assert person(line).returncode == 0
    assert len(list(records.glob("*.json"))) == 20
    for name, content in kept.items():
        if not json.loads(content)["environment"].get("flags"):  # those are measured again, by rule
            assert (records / name).read_bytes() == content


@pytest.fixture(scope="session")
def by_root(made: ContainerImage) -> Iterator[str]:
    """How the machine's root runs the image, as docker's daemon does for everybody."""
    if os.geteuid() != 0 or shutil.which("podman") is None:
        pytest.skip("only root can run containers as docker does, and only with podman here")
    with tempfile.TemporaryDirectory(prefix="qop-by-root-", dir="/var/tmp") as place:
        podman = (f"podman --root {place}/root --runroot {place}/run --runtime {RUNTIME} "
                  "--cgroup-manager cgroupfs --storage-driver overlay")
        # Less than root here may be allowed to give; podman's own choice may be more.
        limits = "--ulimit nofile=4096 --ulimit nproc=4096"
        for line in (f"{podman} load -q -i {made.archive}",
                     f"{podman} run --rm --network none {limits} qop --version"):
            done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"podman does not work for root here: {done.stderr.strip()[-200:]}")
        yield f"{podman} run --rm --network none {limits}"
        subprocess.run(["sh", "-c", f"{podman} rmi --all --force"], check=True,
                       capture_output=True)


@pytest.mark.parametrize("how", ["", "--user 4321:4321 --tmpfs /tmp:exec,size=1g"])
def test_started_by_root(by_root: str, tmp_path: Path, how: str) -> None:
    """As docker runs it: results belong to the user named, or to the owner of their folder."""
    results = tmp_path / "results"
    results.mkdir()
    os.chown(results, 4321, 4321)
    tmp_path.chmod(0o755)
    done = subprocess.run(["sh", "-c", f"{by_root} {how} -v {results}:/results qop run {ONE_CELL}"],
                          capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "P8-N2-001: authentication time " in done.stderr
    assert {(path.stat().st_uid, path.stat().st_gid) for path in results.rglob("*")} == {
        (4321, 4321)}


def test_limits_of_the_container_count(by_root: str) -> None:
    """What the container may have of memory and processors is what doctor sees."""
    core = min(os.sched_getaffinity(0))
    said = subprocess.run(
        ["sh", "-c", f"{by_root} --memory 1500m --cpuset-cpus {core} qop doctor"],
        capture_output=True, text=True, check=False).stdout
    assert "memory: 1500 MB" in said
    assert "processors: 1," in said


def test_every_command(walked: object, person: Person) -> None:
    """What is left out of the packages is missed by none of the commands."""
    folder = next(path.name for path in (person.folder / "results").iterdir()
                  if path.is_dir() and "_N2" in path.name)
    base = f"results/{folder}"
    for line in (f"status {base}", f"report {base} --table all", f"report {base} --format csv",
                 f"export {base} --captures all -o results/kept.tar.gz",
                 "verify results/kept.tar.gz",
                 "import results/kept.tar.gz --out results/again", f"compare {base} results/again",
                 "prune results/again --captures none", "completion bash", "report --published",
                 "lab --policy P1 --node ha-a ip -brief link", "doctor", "provision",
                 f"run {ONE_CELL} --clock virtual --out results/virtual"):
        done = person(f"{RUN} qop {line}")
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr and "arning" not in done.stderr, (line, done.stderr)


def test_a_folder_that_cannot_be_written(walked: object, person: Person) -> None:
    """One line that names the folder; and no mount at all is said, too."""
    person("mkdir -p closed && chmod 555 closed")
    done = person(f"podman run --rm --network none -v $PWD/closed:/results qop run {ONE_CELL}")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "cannot be written" in done.stderr, done.stderr
    done = person(f"podman run --rm --network none qop run {ONE_CELL} --dry-run")
    assert "no folder is mounted" in done.stderr
