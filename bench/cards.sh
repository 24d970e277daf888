# `./qop bench cards`, inside of a virtual machine (bench/cards.py): measurements with radios of the
# kernel's own mac80211_hwsim in place of cards. Arguments: logins, roams, measurements and runs that
# are killed. The folder /host gets the results.
set -eu
logins=$1 roams=$2 kills=$3
ulimit -n 4096
# Time in s of about three logins, within which measurements are killed.
LOGINS_S=25
cd /host
export HOME=/root PYTHONPATH=/opt/qop/code/project PYTHONDONTWRITEBYTECODE=1
# A variable and no function: a command in the background is then the process itself, which is killed.
python='/opt/qop/code/venv/bin/python -P'

# What measuring may change. Each move of a radio may change the index of its interface, and its
# first use the operational state.
state() {
	for path in /sys/class/net/*/phy80211; do
		card=${path%/phy80211} card=${card##*/}
		iw dev "$card" info | sed '/ifindex/d; /txpower/d; /multicast TXQ/,$d'
		ip -o link show "$card" | sed 's/^[0-9]*: //; s/ qdisc [a-z]* / /; s/ state [A-Z]* / /'
		cat "/sys/class/net/$card/link_mode"
	done
	ls /sys/class/net
}

# Whether the cards are as before, without a guardian or a capture that goes on.
is_restored() {
	left=600 # two minutes at most
	while pgrep -f 'measure[.]cards[.]borrowing' >/dev/null && [ "$left" -gt 0 ]; do
		sleep 0.2
		left=$((left - 1))
	done
	state >after
	cmp -s before after && ! ls /run/qop-cards/*/journal.json 2>/dev/null &&
		! ps -C tcpdump -o stat= | grep -v '^Z'
}

start_capture() {
	tcpdump -i hwsim0 -U -w "$1" 2>tcpdump.log &
	capture=$!
	until grep -q listening tcpdump.log; do sleep 0.1; done
}

end_capture() {
	sleep 1 # the last packets are still to be written
	kill "$capture"
	wait "$capture" || :
}

start_access_points() {
	for number in 0 1; do
		printf '%s\n' "interface=wlan$number" "channel=$((1 + 5 * number))" ssid=home hw_mode=g \
			wpa=2 rsn_pairwise=CCMP wpa_key_mgmt=WPA-PSK 'wpa_passphrase=no secret at all' \
			>"ap$number.conf"
		hostapd -B -P "/run/ap$number.pid" -f "ap$number.log" "ap$number.conf" >/dev/null
	done
}

# Start a command, end it by SIGKILL between its first change of a card and some seconds later, and
# look at the cards. Arguments: name, number, seconds, command.
kill_once() {
	name=$1 number=$2 span_s=$3
	shift 3
	"$@" >killed.log 2>&1 &
	main=$!
	until ls /run/qop-cards/*/journal.json >/dev/null 2>&1; do
		kill -0 "$main" 2>/dev/null || break
		sleep 0.05
	done
	sleep "$(awk "BEGIN { srand($number); print rand() * $span_s }")"
	kill -9 "$main" 2>/dev/null && ended=killed || ended=late
	wait "$main" || :
	is_restored && outcome=restored || outcome=changed
	echo "$name $number $ended $outcome" >>outcomes
}

$python -c '
from topologies.netlink import GenericNetlink
with GenericNetlink("MAC80211_HWSIM") as netlink:
    for _ in range(3):
        netlink.send_command(4, b"")'
ip link set hwsim0 up
uname -r >kernel
echo 'no secret at all' >passphrase
: >outcomes

measure="$python -m harness measure --card wlan2 --ssid home --passphrase-file passphrase --timeout 120"
start_access_points
state >before
start_capture air-measure.pcap
$measure --logins "$logins" --roams "$roams" --out measure >measure.log 2>&1
end_capture
is_restored && echo 'measure 0 whole restored' >>outcomes || echo 'measure 0 whole changed' >>outcomes
for number in $(seq "$kills"); do
	kill_once measure "$number" $LOGINS_S $measure --logins 50 --out "killed-$number"
	rm -rf "killed-$number"
done
for number in 0 1; do
	read -r pid <"/run/ap$number.pid"
	kill "$pid"
	while [ -e "/proc/$pid" ]; do sleep 0.1; done
done

run="$python -m harness run --on host --scenarios N2 --policies M5 --repetitions 1
	--card a2=wlan0 --card ap-a=wlan1 --card monitor=wlan2"
state >before
start_capture air-run.pcap
begun=$(date +%s)
$run --out run >run.log 2>&1
span_s=$(($(date +%s) - begun))
end_capture
is_restored && echo 'run 0 whole restored' >>outcomes || echo 'run 0 whole changed' >>outcomes
for number in $(seq "$kills"); do
	kill_once run "$number" "$span_s" $run --out "killed-$number"
	pkill -9 -f 'measure[.]agent[.]worker' || :
	rm -rf "killed-$number"
done
