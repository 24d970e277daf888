"""`qop run --card` without a card: what is refused, and checks without a capture of the air."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import recorded
from conftest import Qop
from measure.cards import testbed_cards
from measure.checks.observation import Check
from measure.checks.proof import split_without_air
from plans import plan_of

#: Words of the command after `run`, and the line that it prints.
REFUSED = {
    "form": ("--on host --card a2", "--card a2: give NODE=INTERFACE, such as a2=wlan0"),
    "node twice": ("--on host --card a2=x --card a2=y",
                   "--card a2=y: a2 has the card x; leave one out"),
    "card twice": ("--on host --card a2=x --card ap-a=x",
                   "--card ap-a=x: x is the card of a2; give each node a card of its own"),
    "guest": ("--card a2=x", "--card a2=x: the cards are this machine's, which guests do not see"),
    "node": ("--on host --card ha-a=x", ("--card ha-a=x: no scenario has a node ha-a with a radio; "
                                         "choose from a2, ap-a, or monitor")),
    "no card": ("--on host --card a2=x", "--card: no card for ap-a; add --card ap-a=NAME, or "),
    "medium": ("--on host --card a2=x --card ap-a=y --medium 802.11g",
               "--medium 802.11g: the medium of cards is the air; leave it out"),
    "builder": ("--on host --card a2=x --card ap-a=y --builder mininet-wifi",
                "--builder mininet-wifi: makes radios by itself; leave it out with --card"),
    "clock": ("--on host --card a2=x --card ap-a=y --clock virtual",
              "--clock virtual: only embedded guests have it; leave out --on host"),
    "monitors": ("--on host --card a2=x --card ap-a=y --card monitor=v,w", (
        "--card monitor=v,w: two-subnets has access points on 1 channel, and a card captures one; "
        "leave out w")),
    "monitors of E1": (("--on host --scenarios E1 --card a2=x --card ap-a=y --card ap-c=z "
                        "--card monitor=u,v,w"), (
        "--card monitor=u,v,w: one-subnet has access points on 2 channels, and a card captures "
        "one; leave out w")),
    "monitor twice": ("--on host --card a2=x --card ap-a=y --card monitor=v --card monitor=w",
                      "--card monitor=w: monitor has the card v; write --card monitor=v,w"),
    "monitor of a node": ("--on host --card a2=x --card ap-a=y --card monitor=v,x",
                          "--card monitor=v,x: x is the card of a2; give each node a card"),
    "monitor without a name": ("--on host --card a2=x --card monitor=v,",
                               "--card monitor=v,: give names of cards with a comma between"),
    "no monitor": ("--on host --card a2=x --card monitor=none,v",
                   "--card monitor=none,v: give names of cards with a comma between them, or none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_cards_that_do_not_fit_are_one_line(case: str, qop_here: Qop) -> None:
    words, text = REFUSED[case]
    scenario = () if "--scenarios" in words else ("--scenarios", "N2")
    done = qop_here("run", "--policies", "P1", *scenario, *words.split(), "--dry-run")
    assert done.returncode == 2 and done.stderr.startswith(f"qop: {text}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_plan_with_cards_has_no_emulated_medium() -> None:
    """Runs with other cards are other plans, and their folders are not continued."""
    plans = [plan_of(on="host", cards=cards) for cards in (
        {}, {"a2": "wlan0"}, {"a2": "wlan1"})]
    assert len({plan.digest for plan in plans}) == len(plans)
    assert plans[0].manifest.media and not plans[1].manifest.media
    assert "cards" not in plans[0].manifest.settings
    assert plans[1].manifest.settings["cards"] == {"a2": "wlan0"}


def test_two_monitors_are_a_card_for_each_channel(qop_here: Qop) -> None:
    done = qop_here("run", "--policies", "P1", "--on", "host", "--scenarios", "E1", "--dry-run",
                    *(word for card in ("a2=v", "ap-a=w", "ap-c=x", "monitor=y,z")
                      for word in ("--card", card)))
    assert done.returncode == 0, done.stderr
    network = plan_of(scenarios="E1").testbeds.popitem()[1].spec.network
    assert testbed_cards.list_channels(network) == {1: "ap-a", 6: "ap-c"}


@dataclass
class FewModes:
    """A card that can be tuned, or whose driver refuses a monitor."""

    refuses: str = ""
    card_name: str = "card"
    tuned: list[int] = field(default_factory=list)

    def tune_monitor(self, frequency_mhz: int) -> None:
        """Tune the card."""
        self.tuned.append(frequency_mhz)

    def add_monitor(self, _pid: int, _name: str) -> str:
        """Why there is no monitor."""
        return self.refuses


@pytest.mark.parametrize(("refuses", "interfaces", "heard", "missing"), [
    ("", [(None, "card"), ("ap-c", "qopmon2")], {"monitor": 1, "ap-c": 6}, ""),
    ("its driver has no monitor mode", [], {}, "channel 6: its driver has no monitor mode")])
def test_air_is_captured_on_all_channels_or_not_at_all(
        refuses: str, interfaces: list[tuple[str | None, str]], heard: dict[str, int],
        missing: str) -> None:
    """Half of the air would prove nothing of the other half. All drivers of mac80211 have one."""
    network = plan_of(scenarios="E1").testbeds.popitem()[1].spec.network
    monitor = FewModes()
    cards = testbed_cards.TestbedCards(network, cast("dict[str, Any]", {
        "ap-a": FewModes(), "ap-c": FewModes(refuses), "monitor": monitor}))
    testbed: Any = SimpleNamespace(node=lambda _name: SimpleNamespace(pid=1))
    assert [*cards.start_monitors(testbed)] == interfaces
    assert (cards.heard, cards.air_missing, monitor.tuned) == (heard, missing, [2412])


def test_unknown_checks_are_not_made_without_a_capture_of_the_air() -> None:
    """Without frames, a check might hold: only those with other evidence are made."""
    checks = [Check(name, ok=True, detail="") for name in (
        "EAP-Success", "EAP method TLS (earlier authentications)", "no IPsec", "a new check")]
    made, not_made = split_without_air(checks)
    assert [check.check for check in made] == ["EAP-Success",
                                               "EAP method TLS (earlier authentications)"]
    assert not_made == ["no IPsec", "a new check"]


@pytest.mark.parametrize("recording", recorded.IDS)
def test_checks_that_are_made_without_the_air_do_not_read_it(recording: str,
                                                             tmp_path: Path) -> None:
    """They say the same with and without the captures of the air. The others are named."""
    shutil.copytree(recorded.FOLDER / recording, tmp_path / "silent")
    raw = recorded.raw(recording)
    raw["captures"] = [each for each in raw["captures"] if each["point"] != "air"]
    raw["air_missing"] = "there is no monitor"
    (tmp_path / "silent/raw.json").write_text(json.dumps(raw))
    for capture in (tmp_path / "silent").glob("*-air.pcap"):
        capture.unlink()
    whole, silent = recorded.judged(recording), recorded.judged(recording, tmp_path / "silent")
    details = {check.check: (check.ok, check.detail) for check in whole.evidence}
    assert {*details} == {*(check.check for check in silent.evidence), *silent.not_made}
    assert any("on every data frame" in name or name == "air is open" for name in silent.not_made)
    for check in silent.evidence:
        if not check.check.startswith("captures are complete"):  # there are fewer captures
            assert (check.ok, check.detail) == details[check.check]
