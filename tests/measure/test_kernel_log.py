"""What the kernel said of programs that it killed is found in its log."""

from __future__ import annotations

from pathlib import Path

from measure.services.daemons import last_kill_message

_LOG = """6,339,5140900,-;NET: Registered PF_INET6 protocol family
4,1203,5523410,-;freeradius invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0
3,1204,5523423,-;Out of memory: Killed process 712 (freeradius) total-vm:412040kB, anon-rss:201kB
 SUBSYSTEM=memory
6,1205,5600000,-;somebody asks how to kill a process
4,1206,5600001,-;eth0: link becomes ready
"""


def test_the_last_killing_is_told(tmp_path: Path) -> None:
    """Not what is no warning, and not what came after it."""
    log = tmp_path / "kmsg"
    log.write_text(_LOG)
    assert last_kill_message(log).startswith("Out of memory: Killed process 712 (freeradius)")
    log.write_text(_LOG.splitlines()[0])
    assert last_kill_message(log) == ""


def test_a_log_that_is_not_to_be_read_says_nothing(tmp_path: Path) -> None:
    """In a container, say."""
    assert last_kill_message(tmp_path / "none") == ""
