"""`qop run --on host --card` with radios of mac80211_hwsim that stand for cards that are not ours.

Each test runs in a machine of `qop radio` on the root of a guest's image, which has the daemons of
a testbed, with tshark and NetworkManager added.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from bench.cards import read_phase_spans
from conftest import PATIENCE_S, PROJECT, Qop, checks
from measure.capture import tshark
from measure.records.record import Record, read_records
from testbed_root import assert_refused, unpack_testbed

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

#: Name the qop of this checkout, and the state of the cards. Each move of a radio may change the
#: index of its interface, and its first use the operational state.
PRELUDE = """
set -eu
cd "$FOLDER"
qop() { PYTHONPATH="$PROJECT" "$PYTHON" -P -m harness "$@"; }
python() { PYTHONPATH="$PROJECT" "$PYTHON" -P "$@"; }
state() {
    for path in /sys/class/net/*/phy80211; do
        card=$(basename "$(dirname "$path")")
        iw dev "$card" info | sed '/ifindex/d; /txpower/d; /multicast TXQ/,$d'
        ip -o link show "$card" | sed 's/^[0-9]*: //; s/ qdisc [a-z]* / /; s/ state [A-Z]* / /'
        cat "/sys/class/net/$card/link_mode"
    done
    iw reg get
    ls /sys/class/net
}
"""
#: Address of the mobile node in the network's file.
ADDRESS = "02:00:00:00:a2:00"
#: The smallest run: one policy, one station and one access point.
RUN = ("run --on host --scenarios N2 --repetitions 1 "
       "--card a2=wlan0 --card ap-a=wlan1 ")


def run_machine(folder: Path, script: str, *options: str,
                radios: int = 3) -> subprocess.CompletedProcess[str]:
    """Run a script in a machine with some radios, all of them in its first namespace."""
    (folder / "script.sh").write_text(PRELUDE + textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, "-m", "harness", "radio", "-n", str(radios), "--memory", "1100", "--root",
         unpack_testbed(), "--bind", sys.prefix, "--bind", PROJECT, "--bind", folder, *options,
         "--", "sh", folder / "script.sh"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=folder,
        env={**Qop.environment(), "FOLDER": str(folder), "PROJECT": str(PROJECT), "HOME": "/root",
             "PYTHON": str(Path(sys.prefix, "bin/python")),
             "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})


def read_only_record(folder: Path) -> Record:
    """The record of a results folder that has one."""
    [record], _ = read_records(folder / "records")
    return record


def test_figures_are_those_of_the_air_and_all_checks_hold(tmp_path: Path) -> None:
    """A third card hears what a capture of all radios hears: times agree to 2 % or 1 ms."""
    done = run_machine(tmp_path, f"""
        state >before
        qop {RUN} --card monitor=wlan2 --policies M5 --out out
        state >after
        cmp before after
        """, "--capture", str(tmp_path / "air.pcap"))
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_only_record(tmp_path / "out")
    assert record.status == "ok" and all(check.ok for check in record.evidence)
    assert record.environment["medium"] == "air" and record.environment["air"] is None
    cards = record.environment["cards"]
    assert [cards[node]["card"] for node in ("a2", "ap-a", "monitor")] == [
        "wlan0", "wlan1", "wlan2"]
    assert cards["a2"]["channel"] == cards["ap-a"]["channel"] == 1
    assert cards["a2"]["driver"]["driver"] == "mac80211_hwsim"
    assert cards["a2"]["regulatory_domain"] == "00"
    assert "2402-2472 MHz" in cards["a2"]["regulatory_rules"][0]
    link = cards["a2"]["link"]
    assert link["rates"] and link["sent"] > 0 and {"retries", "failed"} <= link.keys()
    assert "CCMP on every data frame" in checks(record)
    assert "frames are as long as the air charges" not in checks(record)
    of_all = read_phase_spans(tmp_path / "air.pcap", ADDRESS)
    (kept := tmp_path / "auth-air.pcap").write_bytes(gzip.decompress(
        (tmp_path / f"out/captures/{record.name}/auth-air.pcap.gz").read_bytes()))
    of_card = read_phase_spans(kept, ADDRESS)
    assert record.measured is not None
    of_card["authentication"] += [
        phase["duration_s"] for phase in record.measured["authentications"][0]["phases"]
        if phase["name"] == "authentication"]
    assert (len(of_card["authentication"]), len(of_card["EAP"])) == (2, 1)
    for name, spans_s in of_card.items():
        assert all(any(each == pytest.approx(other, rel=0.02, abs=1e-3)
                       for other in of_all[name]) for each in spans_s)


def test_monitor_beside_the_access_point_proves_and_a_control_fails(tmp_path: Path) -> None:
    """Without a third card, the access point's radio has a monitor. WEP switched off is found."""
    done = run_machine(tmp_path, f"""
        state >before
        qop {RUN} --policies P2 --out out
        qop {RUN} --policies P2 --fault no-wep --out control || echo status=$?
        state >after
        cmp before after
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    record, control = (read_only_record(tmp_path / name) for name in ("out", "control"))
    assert record.status == "ok" and all(check.ok for check in record.evidence)
    assert "monitor" not in record.environment["cards"]
    assert control.status == "failed" and "status=1" in done.stdout
    assert "WEP-104 on every data frame" in [check.check for check in control.evidence
                                            if not check.ok]


def test_without_a_capture_of_the_air_its_checks_are_not_made(tmp_path: Path) -> None:
    """Nothing unproven passes as proven: the table says partly, and the record has the names."""
    done = run_machine(tmp_path, f"qop {RUN} --card monitor=none --policies M2 --out out")
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_only_record(tmp_path / "out")
    assert record.status == "ok"
    assert "CCMP on every data frame (no capture of the air)" in (record.unchecked or ())
    assert not {"CCMP on every data frame", "frames open with the keys in force"} & {
        check.check for check in record.evidence}
    assert not any("air" in capture["point"] for capture in record.captures)
    assert "partly" in done.stdout
    assert "checks of frames on the air are not made" in done.stderr


#: A station that moves from channel 1 to channel 6.
RUN_E1 = ("run --on host --scenarios E1 --repetitions 1 "
          "--card a2=wlan0 --card ap-a=wlan1 --card ap-c=wlan2 ")
BSSIDS = {"02:00:00:00:a0:00", "02:00:00:00:c0:00"}


def read_beacon_senders(record: Record, folder: Path) -> set[str]:
    """The access points whose beacons the capture of the air has, by tshark alone."""
    (kept := folder / "auth-air.pcap").write_bytes(gzip.decompress(
        (folder / f"out/captures/{record.name}/auth-air.pcap.gz").read_bytes()))
    return {sender for sender, in tshark.read_fields(
        kept, ("wlan.ta",), "wlan.fc.type_subtype == 8")}


def test_card_for_each_channel_captures_the_air_of_both(tmp_path: Path) -> None:
    """The capture has the login and the move, as a capture of all radios: to 2 % or 1 ms."""
    done = run_machine(tmp_path, f"""
        state >before
        qop {RUN_E1} --card monitor=wlan3,wlan4 --policies M5 --out out
        state >after
        cmp before after
        """, "--capture", str(tmp_path / "air.pcap"), radios=5)
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_only_record(tmp_path / "out")
    assert record.status == "ok" and all(check.ok for check in record.evidence)
    assert not any("no capture of the air" in name for name in record.unchecked or ())
    cards = record.environment["cards"]
    assert {node: cards[node].get("captured_channel") for node in cards} == {
        "a2": None, "ap-a": None, "ap-c": None, "monitor": 1, "monitor-2": 6}
    assert read_beacon_senders(record, tmp_path) == BSSIDS
    of_all = read_phase_spans(tmp_path / "air.pcap", ADDRESS)
    of_cards = read_phase_spans(tmp_path / "auth-air.pcap", ADDRESS)
    assert len(of_cards["authentication"]) >= 2
    for name, spans_s in of_cards.items():
        assert all(any(each == pytest.approx(other, rel=0.02, abs=1e-3)
                       for other in of_all[name]) for each in spans_s)


def test_channel_without_a_card_is_captured_at_its_access_point(tmp_path: Path) -> None:
    done = run_machine(tmp_path, f"""
        state >before
        qop {RUN_E1} --card monitor=wlan3 --policies M5 --out out
        state >after
        cmp before after
        """, radios=4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("--card monitor=wlan3: hears 1 of the 2 channels of one-subnet; channel 6 is captured "
            "at the radio of ap-c") in done.stderr
    record = read_only_record(tmp_path / "out")
    assert record.status == "ok" and all(check.ok for check in record.evidence)
    assert record.environment["cards"]["ap-c"]["captured_channel"] == 6
    assert read_beacon_senders(record, tmp_path) == BSSIDS


def test_mobile_node_moves_between_cards_of_two_access_points(tmp_path: Path) -> None:
    done = run_machine(tmp_path, """
        state >before
        qop run --on host --scenarios R1 --repetitions 1 --policies P3 \\
            --card a1=wlan0 --card a2=wlan1 --card ap-a=wlan2 --card ap-b=wlan3 \\
            --card monitor=wlan4 --out out
        state >after
        cmp before after
        """, radios=5)
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_only_record(tmp_path / "out")
    assert record.status == "ok" and all(check.ok for check in record.evidence)
    assert record.measured is not None and record.measured["handoff_s"] > 0


#: Make a radio whose types of interfaces (HWSIM_ATTR_IFTYPE_SUPPORT) are the station alone.
STATION_ONLY = """
import struct
from topologies.netlink import GenericNetlink, encode_attribute

with GenericNetlink("MAC80211_HWSIM") as netlink:
    netlink.send_command(4, encode_attribute(23, struct.pack("=I", 1 << 2)))
"""
#: What is done before the command, its cards, and the line that it prints.
BAD_INPUT = {
    "missing": ("", "a2=wlan0 ap-a=wlan9",
                "--card ap-a=wlan9: there is no such interface; cards here: wlan0, wlan1, wlan2"),
    "wired": ("", "a2=lo ap-a=wlan1", "--card a2=lo: is no 802.11 card"),
    "hostapd": ("printf 'interface=wlan1\\nssid=x\\nchannel=1\\n' >ap\nhostapd -B ap",
                "a2=wlan0 ap-a=wlan1", "--card ap-a=wlan1: is in use by hostapd (process "),
    "supplicant": (("printf 'network={\\nssid=\"x\"\\nkey_mgmt=NONE\\n}\\n' >own\n"
                    "wpa_supplicant -B -i wlan0 -c own"), "a2=wlan0 ap-a=wlan1",
                   "--card a2=wlan0: is in use by wpa_supplicant (process "),
    "rfkill": ("echo 1 >$(echo /sys/class/ieee80211/phy2/rfkill*/soft)",
               "a2=wlan0 ap-a=wlan1 monitor=wlan2",
               "--card monitor=wlan2: is blocked by rfkill (soft); give 'rfkill unblock wifi'"),
    "further": ("iw phy phy1 interface add more type managed", "a2=wlan0 ap-a=wlan1",
                "--card ap-a=wlan1: its radio has a further interface, more, which would move"),
    "modes": ("python station_only.py", "a2=wlan0 ap-a=wlan3",
              "--card ap-a=wlan3: its driver has no AP mode; give another card"),
}


#: End what the cases have started, and undo what they have changed.
CLEAN_UP = """
clean_up() {
    for daemon in hostapd wpa_supplicant; do
        ! pkill $daemon || while pgrep $daemon >/dev/null; do sleep 0.05; done
    done
    echo 0 >$(echo /sys/class/ieee80211/phy2/rfkill*/soft)
    iw dev more del 2>/dev/null || :
}
"""


def test_bad_cards_are_one_line_and_cards_stay_as_they_were(tmp_path: Path) -> None:
    """The cases follow one another in one machine."""
    (tmp_path / "station_only.py").write_text(STATION_ONLY)
    script = [CLEAN_UP]
    for case, (before, cards, _) in BAD_INPUT.items():
        words = " ".join(f"--card {card}" for card in cards.split())
        script.append(f"""
mkdir case-{case}
cd case-{case}
cp ../station_only.py .
{before}
state >before
qop run --on host --scenarios N2 --policies P1 {words} --out out 2>errors || echo $? >status
state >after
clean_up
cd ..
""")
    done = run_machine(tmp_path, "".join(script))
    assert done.returncode == 0, done.stdout + done.stderr
    for case, (_, _, text) in BAD_INPUT.items():
        assert_refused(tmp_path / f"case-{case}", text)
        assert not (tmp_path / f"case-{case}" / "out").exists()


#: Borrow cards as a testbed does, with their names exchanged, and keep them until killed.
HOLDER = """
import subprocess, sys, time
from contextlib import ExitStack
from measure.cards.borrowing import borrow_card
from topologies.namespaces import Namespaces

with ExitStack() as stack:
    cards = [stack.enter_context(borrow_card(name, wants_monitor=False, moves=True))
             for name in ("wlan0", "wlan1")]
    stack.enter_context(borrow_card("wlan2", wants_monitor=False)).tune_monitor(2412)
    nodes = [Namespaces(), Namespaces()]
    cards[0].place_card(nodes[0].pid, "wlan1", "02:00:00:00:a2:00")
    print("one", flush=True)
    cards[1].place_card(nodes[1].pid, "wlan0", "02:00:00:00:a0:00")
    cards[1].add_monitor(nodes[1].pid, "qopmon1")
    # A program that outlives this one keeps the namespace, and so the radio.
    subprocess.Popen(["mnexec", "-a", str(nodes[1].pid), "sleep", "2"])
    print("placed", flush=True)
    time.sleep(float(sys.argv[1]))
    for card in cards:
        card.bring_home()
    for node in nodes:
        node.let_go()
"""
#: Number of borrowers that are killed.
KILLED = 8


def test_placed_cards_are_as_before_after_borrowers_were_killed(tmp_path: Path) -> None:
    """Name, namespace, type and address come back, also if the guardians were killed, too."""
    (tmp_path / "hold.py").write_text(HOLDER)
    done = run_machine(tmp_path, f"""
        ip link set wlan0 address 02:00:00:00:77:00
        iw dev wlan1 set type monitor
        ip link set wlan1 up
        state >before
        python hold.py 0.1
        state >after
        cmp before after
        for number in $(seq {KILLED}); do
            PYTHONPATH="$PROJECT" "$PYTHON" -P hold.py 60 >log &
            main=$!
            until [ -e /run/qop-cards/wlan0/journal.json ]; do sleep 0.01; done
            [ $((number % 2)) = 0 ] && until grep -q one log; do sleep 0.01; done
            sleep "$(awk "BEGIN {{ print $number % 5 * 0.07 }}")"
            [ $((number % 4)) = 0 ] && pkill -9 -f 'measure[.]cards[.]borrowing'
            kill -9 $main
            wait $main || :
            until ! pgrep -f 'measure[.]cards[.]borrowing' >/dev/null; do sleep 0.05; done
            [ $((number % 4)) = 0 ] && python -c '
        from measure.cards import borrowing
        print([borrowing.restore_abandoned(name) for name in ("wlan0", "wlan1", "wlan2")])'
            state >after
            cmp before after || {{ tail -1 log; cat after; exit 3; }}
            ! ls /run/qop-cards/*/journal.json 2>/dev/null || exit 4
        done
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "True" in done.stdout  # a card was restored without its guardian


#: Number of runs that are killed, and the time in s within which they are. 50 were tried by hand.
KILLED_RUNS, KILLED_WITHIN_S = 6, 9


def test_cards_are_as_before_after_runs_that_were_killed(tmp_path: Path) -> None:
    """SIGKILL at moments between the first change of a card and the run's own end.

    In turns it ends the command alone, the worker first, or the guardians, too. Only then another
    process restores the cards, once the next run. No capture goes on.
    """
    done = run_machine(tmp_path, f"""
        ip link set wlan0 address 02:00:00:00:77:00
        iw dev wlan1 set type monitor
        ip link set wlan1 up
        state >before
        compare() {{
            state >after
            cmp before after || {{ cat before after log; exit 3; }}
            ! ls /run/qop-cards/*/journal.json 2>/dev/null || exit 4
        }}
        run() {{ # as its own process, which replaces the shell
            export PYTHONPATH="$PROJECT"
            exec setsid "$PYTHON" -P -m harness {RUN} --card monitor=wlan2 --policies M2 \\
                --out "$1" >log 2>&1
        }}
        for number in $(seq {KILLED_RUNS}); do
            run "run-$number" &
            main=$!
            until [ -e /run/qop-cards/wlan0/journal.json ]; do sleep 0.02; done
            sleep "$(awk "BEGIN {{ print ($number - 1) * {KILLED_WITHIN_S} / {KILLED_RUNS} }}")"
            echo "$number $(ls /run/qop-cards/*/journal.json | wc -l) cards," \\
                "$(ls /sys/class/net | grep -c wlan) here, $(pgrep -c tcpdump || :) captures"
            case $((number % 3)) in
                1) kill -9 $main || :;;
                2) kill -9 $(pgrep -f 'measure[.]agent[.]worker' | head -1) $main || :;;
                0) pkill -9 -f 'measure[.]cards[.]borrowing' || :
                   kill -9 -$main || :;;
            esac
            wait $main || echo "status=$?"
            until ! pgrep -f 'measure[.]cards[.]borrowing' >/dev/null; do sleep 0.05; done
            if [ $((number % 3)) = 0 ]; then
                pkill -9 -f 'measure[.]agent[.]worker' || :
                if [ "$number" = 3 ]; then
                    (run restoring) || {{ cat log; exit 5; }}
                else
                    python -c '
        from measure.cards import borrowing
        print([borrowing.restore_abandoned(name) for name in ("wlan0", "wlan1", "wlan2")])'
                fi
            fi
            ! ps -C tcpdump -o stat=,args= | grep -v ^Z || exit 6
            compare
        done
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    # A fast machine ends the last ones sooner.
    assert done.stdout.count("status=137") >= KILLED_RUNS / 2, done.stdout


def test_network_manager_leaves_cards_alone_and_takes_them_back(tmp_path: Path) -> None:
    done = run_machine(tmp_path, f"""
        try() {{ # for a minute at most
            left=600
            until "$@" >answer 2>&1; do
                left=$((left - 1))
                [ "$left" -gt 0 ] || {{ cat answer; exit 4; }}
                sleep 0.1
            done
        }}
        is_managed() {{ nmcli -g GENERAL.STATE device show "$1" | grep -q '^[2-9]0'; }}
        mkdir -p /run/dbus
        dbus-daemon --system --fork
        /lib/systemd/systemd-udevd --daemon
        udevadm trigger --settle
        wpa_supplicant -B -u -f supplicant.log >/dev/null
        rm -f /etc/NetworkManager/conf.d/qop.conf
        NetworkManager
        for card in wlan0 wlan1; do try is_managed $card; done
        qop {RUN} --card monitor=none --policies P1 --out out || cat out/logs/*/console.log
        for card in wlan0 wlan1; do try is_managed $card; done
        for card in wlan0 wlan1; do
            iw dev $card info | grep -q 'type managed'
        done
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_only_record(tmp_path / "out").raw["stamps"]["first_packet"]
