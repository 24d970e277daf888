"""`qop measure` with radios of mac80211_hwsim that stand for cards which are not ours.

Each test runs in a machine of `qop radio` on the files of a testbed: access points of Debian's
hostapd are in a namespace of their own, and the card is a third radio.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conftest import PATIENCE_S, PROJECT, Qop
from measure.capture import tshark
from measure.cards import results
from testbed_root import assert_refused, unpack_testbed

pytestmark = [pytest.mark.guest, pytest.mark.shareable]

#: Start two access points of one network, on channels 1 and 6, and name the qop of this checkout.
ACCESS_POINTS = """
set -eu
cd "$FOLDER"
qop() { PYTHONPATH="$PROJECT" "$PYTHON" -P -m harness "$@"; }
start_access_points() {
    for number in 0 1; do
        {
            printf 'interface=wlan%s\\nchannel=%s\\n' $number $((1 + 5 * number))
            printf 'ssid=home\\nhw_mode=g\\n'
            printf 'wpa=2\\nrsn_pairwise=CCMP\\nctrl_interface=/run/hostapd\\n'
            cat "$1"
        } >ap$number.conf
        ip netns exec ap1 hostapd -B -f ap$number.log ap$number.conf >/dev/null
    done
}
state() {
    iw dev wlan2 info | sed '/txpower/d; /multicast TXQ/,$d'
    ip -o link show wlan2 | sed 's/ qdisc [a-z]* / /'  # the first use of an interface changes it
    cat /sys/class/net/wlan2/link_mode
    iw reg get
    ls /sys/class/net
}
printf 'wpa_key_mgmt=WPA-PSK\\nwpa_passphrase=no secret at all\\n' >psk
echo 'no secret at all' >passphrase
"""


def run_machine(folder: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a machine with three radios, two of them in the namespace of the network."""
    (folder / "script.sh").write_text(ACCESS_POINTS + textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, "-m", "harness", "radio", "-n", "3", "--namespaces", "ap1,ap1",
         "--memory", "700", "--root", unpack_testbed(), "--bind", sys.prefix, "--bind", PROJECT,
         "--bind", folder, *options, "--", "sh", folder / "script.sh"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=folder,
        env={**Qop.environment(), "FOLDER": str(folder), "PROJECT": str(PROJECT),
             "PYTHON": str(Path(sys.prefix, "bin/python")),
             "PATH": f"{os.defpath}:/usr/sbin:/sbin"})


MEASURE = ("qop measure --card wlan2 --ssid home --passphrase-file passphrase --timeout 20 ")


def authentications_on_air(capture: Path, address: str) -> list[tuple[float, float]]:
    """First authentication frame and last key message of each login, by tshark alone."""
    rows = tshark.read_fields(capture, ("frame.time_epoch", "wlan.fc.type_subtype", "wlan.ta",
                                        "wlan.ra", "eapol.type"))
    spans: list[list[float]] = []
    for time, kind, sender, receiver, eapol in rows:
        if address not in (sender, receiver):
            continue
        if int(kind, 0) == 0x0B and sender == address:
            spans.append([float(time), float(time)])
        elif spans and (eapol == "3" or int(kind, 0) in (0x00, 0x01, 0x02, 0x03)):
            spans[-1][1] = float(time)
    return [(first, last) for first, last in spans]


def test_figures_are_those_of_the_air(tmp_path: Path) -> None:
    """What the card's monitor gives is what a capture of all radios gives: to 2 % or 1 ms."""
    done = run_machine(tmp_path, f"start_access_points psk\n{MEASURE} --logins 4 --roams 3 "
                       "--out out", "--capture", str(tmp_path / "air.pcap"))
    assert done.returncode == 0, done.stdout + done.stderr
    record = results.read_record(tmp_path / "out")
    assert [sample.kind for sample in record.samples] == ["login"] * 4 + ["roam"] * 3
    assert {each.channel for each in record.access_points} == {1, 6}
    spans = authentications_on_air(tmp_path / "air.pcap", record.address)
    assert len(spans) == len(record.samples)
    for sample, (first, last) in zip(record.samples, spans, strict=True):
        assert sample.joining_s == pytest.approx(last - first, rel=0.02, abs=1e-3)
        assert sample.policy.startswith("PSK, CCMP") and sample.channel in (1, 6)
        assert sample.duration_s >= sample.joining_s
        assert sample.link["rates"] and sample.attempts == 1
    for sample in record.samples[4:]:
        assert sample.previous not in ("", sample.bssid)
        assert sample.roam_times_s is not None and sample.roam_times_s["keys"]
    assert (record.medium, record.monitor_missing) == ("air", "")
    assert record.driver["driver"] == "mac80211_hwsim"
    assert "2402-2472 MHz" in record.regulatory_rules[0]
    assert "Logins and roams" in done.stdout and "medium: air" in done.stdout


#: Enterprise network by EAP-PWD, which needs no certificate.
EAP_PWD = """
printf 'wpa_key_mgmt=WPA-EAP\\nieee8021x=1\\neap_server=1\\neap_user_file=users\\n' >eap
echo '"user" PWD "a secret"' >users
cat >station.conf <<end
mac_addr=1
network={
    ssid="home"
    key_mgmt=WPA-EAP
    eap=PWD
    identity="user"
    password="a secret"
}
network={
    ssid="other"
    key_mgmt=NONE
}
end
"""


def test_enterprise_network_is_measured_by_the_users_own_file(tmp_path: Path) -> None:
    """Each login has EAP in full, and keeps the card's address. A roam may use a cached key."""
    done = run_machine(tmp_path, EAP_PWD + """
        start_access_points eap
        qop measure --card wlan2 --ssid home --config station.conf --logins 3 --roams 2 --out out
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    record = results.read_record(tmp_path / "out")
    assert [sample.way for sample in record.samples[:3]] == ["EAP"] * 3
    assert all(sample.phases_s["eap"] > 0 for sample in record.samples[:3])
    assert {sample.way for sample in record.samples[3:]} <= {"EAP", "cached key"}


def test_without_a_monitor_keys_are_timed_and_the_rest_is_named(tmp_path: Path) -> None:
    done = run_machine(tmp_path, f"start_access_points psk\n{MEASURE} --logins 2 --roams 0 "
                       "--no-monitor --out out")
    assert done.returncode == 0, done.stdout + done.stderr
    record = results.read_record(tmp_path / "out")
    assert record.not_checked == list(results.MISSING_WITHOUT_MONITOR)
    assert all("four_way_handshake" in sample.phases_s and "association" not in sample.phases_s
               for sample in record.samples)
    assert "Not checked, because there is no monitor" in done.stdout


#: What is done before the command, further words of it, and the line that it prints.
BAD_INPUT = {
    "missing": ("", "--card wlan9", "--card wlan9: there is no such interface; cards here: wlan2"),
    "wired": ("", "--card lo", "--card lo: is no 802.11 card; cards here: wlan2"),
    "supplicant": (("printf 'network={\\nssid=\"home\"\\nkey_mgmt=NONE\\n}\\n' >own\n"
                   "wpa_supplicant -B -i wlan2 -c own"), "",
                   "--card wlan2: is in use by wpa_supplicant (process "),
    "hostapd": ("printf 'interface=wlan2\\nssid=x\\nchannel=1\\n' >ap\nhostapd -B ap", "",
                "--card wlan2: is in use by hostapd (process "),
    "capture": (("ip link set wlan2 up\ndumpcap -q -i wlan2 -w /tmp/x 2>dumpcap.log &\n"
                "until grep -q File dumpcap.log; do sleep 0.1; done"), "",
                "--card wlan2: is in use by dumpcap (process "),
    "ibss": (("iw dev wlan2 set type ibss\nip link set wlan2 up\n"
              "iw dev wlan2 ibss join x 2412\n"
              "until grep -q 1 /sys/class/net/wlan2/carrier; do sleep 0.1; done"), "",
             "--card wlan2: is in use by a connection, by an unknown program"),
    "rfkill": ("echo 1 >$(echo /sys/class/ieee80211/phy2/rfkill*/soft)", "",
               "--card wlan2: is blocked by rfkill (soft); give 'rfkill unblock wifi'"),
    "passphrase": ("start_access_points psk\necho 'another secret' >passphrase", "",
                   "--ssid home: no login: the network refuses the station (reason=WRONG_KEY)"),
    "silence": ("", "--timeout 8", "--ssid home: no login: no access point with this SSID"),
    "broken": ("echo 'network={' >broken", "--config broken",
               "wpa_supplicant does not take wlan2: "),
    "ssid": (EAP_PWD, "--config station.conf --ssid third",
             "station.conf: has no network with the SSID third; it has home, other"),
}


#: End what the cases have started, and undo what they have changed.
CLEAN_UP = """
clean_up() {
    for daemon in hostapd wpa_supplicant; do
        ! pkill $daemon || while pgrep $daemon >/dev/null; do sleep 0.05; done
    done
    pkill dumpcap || :
    wait
    echo 0 >$(echo /sys/class/ieee80211/phy2/rfkill*/soft)
    ip link set wlan2 down
    iw dev wlan2 set type managed
}
"""


def test_bad_inputs_are_one_line_and_the_card_stays_as_it_was(tmp_path: Path) -> None:
    """One line on standard error, and the exit status 1. All cases are in one machine."""
    script = [CLEAN_UP]
    for case, (before, words, _) in BAD_INPUT.items():
        credentials = "" if "--config" in words else "--passphrase-file passphrase"
        script.append(f"""
mkdir case-{case}
cd case-{case}
cp ../psk ../passphrase .
{before}
state >before
qop measure --card wlan2 --ssid home {credentials} {words} 2>errors || echo $? >status
state >after
clean_up
cd ..
""")
    done = run_machine(tmp_path, "".join(script))
    assert done.returncode == 0, done.stdout + done.stderr
    for case, (_, _, text) in BAD_INPUT.items():
        assert_refused(tmp_path / f"case-{case}", text)


def test_ordinary_user_is_told_to_use_root(tmp_path: Path) -> None:
    done = run_machine(tmp_path, """
        HOME=/tmp PYTHONPATH="$PROJECT" setpriv --reuid 65534 --clear-groups \\
            --inh-caps +dac_override --ambient-caps +dac_override \\
            "$PYTHON" -P -m harness measure --card wlan2 --ssid home
        """)
    assert done.stderr.endswith("qop: --card wlan2: changing a card needs root; give the command "
                                "with sudo\n")


#: Number of measurements that are killed. 50 were tried by hand.
KILLED = 6


def test_card_is_as_before_after_measurements_that_were_killed(tmp_path: Path) -> None:
    """SIGKILL at moments from the journal to the fourth login. The card's odd state comes back."""
    done = run_machine(tmp_path, f"""
        start_access_points psk
        ip link set wlan2 address 02:00:00:00:77:00
        iw dev wlan2 set type monitor
        iw dev wlan2 set power_save off || :
        state >before
        for number in $(seq {KILLED}); do
            PYTHONPATH="$PROJECT" "$PYTHON" -P -m harness measure --card wlan2 --ssid home \\
                --passphrase-file passphrase --logins 50 --out "out$number" >log 2>&1 &
            main=$!
            if [ $((number % 3)) = 0 ]; then
                until grep -q "^.$((number % 4 + 1))/50" log; do sleep 0.1; done
            else
                until [ -e /run/qop-cards/wlan2/journal.json ]; do sleep 0.01; done
                sleep "$(awk "BEGIN {{ print $number * 0.05 }}")"
            fi
            kill -9 $main || echo "ended before: $number"
            wait $main || :
            until ! pgrep -f 'measure[.]cards[.]borrowing|qop-card[s]/' >/dev/null; do
                sleep 0.05
            done
            state >after
            cmp before after && ! ls /run/qop-cards/wlan2/journal.json 2>/dev/null || exit 3
            [ -s log ] && tail -1 log
        done
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ended before" not in done.stdout, done.stdout
    assert "] login: " in done.stdout  # some were killed while they measured


def test_card_is_restored_by_the_next_measurement_if_the_guardian_was_killed_too(
        tmp_path: Path) -> None:
    done = run_machine(tmp_path, """
        start_access_points psk
        ip link set wlan2 address 02:00:00:00:77:00
        state >before
        PYTHONPATH="$PROJECT" "$PYTHON" -P -m harness measure --card wlan2 --ssid home \\
            --passphrase-file passphrase --logins 500 --out killed >log 2>&1 &
        main=$!
        until grep -q 'login: ' log; do sleep 0.1; done
        pkill -9 -f 'measure[.]cards[.]borrowing'
        kill -9 $main
        pkill -9 wpa_supplicant; pkill -9 dumpcap
        sleep 0.5
        state >between
        qop measure --card wlan2 --ssid home --passphrase-file passphrase --logins 1 --roams 0
        state >after
        cmp before after
        ! cmp -s before between
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wlan2: restored after a measurement that was killed" in done.stderr


def test_network_manager_leaves_the_card_alone_and_takes_it_back(tmp_path: Path) -> None:
    """NetworkManager is connected by the card before, and connects again by itself."""
    done = run_machine(tmp_path, """
        try() { # for a minute at most
            left=600
            until "$@" >answer 2>&1; do
                left=$((left - 1))
                [ "$left" -gt 0 ] || { cat answer; exit 4; }
                sleep 0.1
            done
        }
        is_connected() { nmcli -g GENERAL.STATE device show wlan2 | grep -q '^100'; }
        start_access_points psk
        mkdir -p /run/dbus
        dbus-daemon --system --fork
        /lib/systemd/systemd-udevd --daemon
        udevadm trigger --settle
        wpa_supplicant -B -u -f supplicant.log >/dev/null
        NetworkManager
        try nmcli connection add type wifi ifname wlan2 con-name home ssid home \\
            wifi-sec.key-mgmt wpa-psk wifi-sec.psk 'no secret at all' \\
            ipv4.method manual ipv4.addresses 10.0.0.2/24 ipv6.method disabled
        try is_connected
        nmcli -g GENERAL.HWADDR device show wlan2 >before
        qop measure --card wlan2 --ssid home --passphrase-file passphrase --logins 2 --roams 0 \\
            --out out
        try is_connected
        nmcli -g GENERAL.HWADDR device show wlan2 >after
        cmp before after
        ls /sys/class/net
        """)
    assert done.returncode == 0, done.stdout + done.stderr
    record = results.read_record(tmp_path / "out")
    assert all(sample.joining_s for sample in record.samples)
    assert "mon\n" not in done.stdout
