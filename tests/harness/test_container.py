"""The container image: built, loaded with podman, and measured in as its page says it is.

docs/container.md is what is tested: all its commands in blocks `sh container` are given, one after
the other, in a clean folder by an ordinary user. tests/docs/test_docs.py says why others are not.
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
from guest.image import Image
from harness.container import image
from harness.container.image import ContainerImage
from harness.container.slimming import RULES
from measure import record

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

PAGE = "docs/container.md"
MOST_BYTES, MOST_PACKED_BYTES = 700e6, 250e6
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
def guest() -> Image:
    """The guest's image, built if this machine has none."""
    return guest_image.ensure_image()


@pytest.fixture(scope="session")
def made(guest: Image) -> ContainerImage:
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


def test_sizes(made: ContainerImage) -> None:
    """The bounds: 700 MB unpacked, 250 MB as a file."""
    assert made.unpacked_bytes <= MOST_BYTES
    assert made.archive.stat().st_size == made.packed_bytes <= MOST_PACKED_BYTES


def test_the_archive_is_of_two_worlds(made: ContainerImage, guest: Image) -> None:
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
