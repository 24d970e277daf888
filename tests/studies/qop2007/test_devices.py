"""Devices under the unmodified daemons of a whole repetition, by the processor clock."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from conftest import Qop

pytestmark = [pytest.mark.guest, pytest.mark.shareable]
#: Of a registration on the machine as it is: 2 to 5 ms were seen.
_UNSLOWED_S = 0.02
#: Two switches of a process, at the least.
_LEAST_SWITCHING_NS = 500


def test_mobile_node_of_2000(qop: Qop, tmp_path: Path) -> None:
    """Every frame of a slow mobile node arrives, what is measured is proven, and takes its time.

    Its frames wait for it; lost ones were a registration that never ended. The harness' own tools
    on the node are nobody's work: slowed down, they ran into their deadlines. System calls of nodes
    that are this machine's as it is cost what its own switching takes, those of others their work.
    """
    done = qop("run", "--policies", "P1", "--scenarios", "N2", "--repetitions", "1",
               "--stream-bytes", "50k", "--clock", "processor", "--device",
               "all=today,a2=strongarm-206,ha-a=pentium4-2600", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    [path] = (tmp_path / "run" / "records").glob("*.json")
    record = json.loads(path.read_text())
    assert record["measured"]["authentication_time_s"] > _UNSLOWED_S
    given = record["environment"]["processor_clock"]
    assert given["device_a2"].startswith("strongarm-206: other x")
    assert given["device_ha-a"].startswith("pentium4-2600: other x")
    constants = {node: [int(number) for number in re.findall(r"(\d+) ns", given[f"device_{node}"])]
                 for node in ("a2", "ha-a", "ap-a", "cn-a")}
    assert constants["a2"] == constants["ha-a"] == [0, 0]
    assert constants["ap-a"] == constants["cn-a"]
    assert min(constants["ap-a"]) > _LEAST_SWITCHING_NS
