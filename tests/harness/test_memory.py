"""How much memory may be used: the machine's estimate, below every control group's limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine import host

GB = 1 << 30
MEMINFO = "MemTotal:       24684084 kB\nMemFree:        14117644 kB\nMemAvailable:   19828012 kB\n"
#: What a group without a limit says in version 1.
NO_LIMIT = 9223372036854771712


class Machine:
    """A /proc and a /sys/fs/cgroup as files."""

    def __init__(self, folder: Path, cgroup: str) -> None:
        self.proc = folder / "proc"
        self.cgroups = folder / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "meminfo").write_text(MEMINFO)
        (self.proc / "self/cgroup").write_text(cgroup)

    def group(self, path: str, files: dict[str, object]) -> None:
        """A control group's files."""
        folder = self.cgroups / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(f"{content}\n")

    def found(self) -> tuple[int, int]:
        """Total and available MB."""
        return (host.read_total_mb(self.proc, self.cgroups),
                host.read_available_mb(self.proc, self.cgroups))


def v2(most: object, used: int, inactive: int = 0) -> dict[str, object]:
    """The files of version 2."""
    return {"memory.max": most, "memory.current": used,
            "memory.stat": f"anon 1089536\nfile 5\ninactive_file {inactive}\nactive_file 0"}


def v1(most: int, used: int, inactive: int = 0) -> dict[str, object]:
    """The files of version 1."""
    return {"memory.limit_in_bytes": most, "memory.usage_in_bytes": used,
            "memory.stat": f"cache 7\ninactive_file 1\ntotal_inactive_file {inactive}"}


def test_without_limits(tmp_path: Path) -> None:
    """No group, none that is seen, or none with a limit: the kernel's estimate."""
    for number, cgroup in enumerate(("", "0::/\n", "0::/user.slice\n4:memory:/a\n")):
        machine = Machine(tmp_path / str(number), cgroup)
        machine.group("user.slice", v2("max", GB))
        machine.group("memory/a", v1(NO_LIMIT, GB))
        assert machine.found() == (24105, 19363)


@pytest.mark.parametrize(("cgroup", "path", "files"), [
    ("0::/\n", "", v2), ("0::/machine.slice/libpod-1.scope\n", "", v2),
    ("0::/machine.slice/libpod-1.scope/container\n", "machine.slice", v2),
    ("9:name=systemd:/x\n4:memory:/libpod/1\n0::/\n", "memory", v1),
    ("4:cpu,memory:/libpod/1\n", "memory/libpod/1", v1)])
def test_a_limit_counts(tmp_path: Path, cgroup: str, path: str, files) -> None:
    """One's own group's or one above it, also where the path is the host's; caches are room."""
    machine = Machine(tmp_path, cgroup)
    machine.group(path, files(2 * GB, GB, GB // 2))
    assert machine.found() == (2048, 1536)


def test_the_least_of_all(tmp_path: Path) -> None:
    """A limit larger than the machine is none, and of two the smaller one holds."""
    machine = Machine(tmp_path, "0::/a/b\n")
    machine.group("a", v2(64 * GB, 0))
    assert machine.found() == (24105, 19363)
    machine.group("a/b", v2(4 * GB, 4 * GB))
    assert machine.found() == (4096, 0)


def test_this_machine() -> None:
    """The files of the machine that tests run on are understood."""
    assert 0 < host.read_available_mb() <= host.read_total_mb()
    assert all(limit.available_bytes <= limit.most_bytes for limit in host.cgroup_limits())
