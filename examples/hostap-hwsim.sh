#!/bin/sh
# Run hostap's own tests (tests/hwsim) in machines with radios, one machine for each job.
#
# Usage: examples/hostap-hwsim.sh CHECKOUT LOGS [argument of run-tests.py]...
#   CHECKOUT  a checkout of hostap, built by tests/hwsim/build.sh
#   LOGS      a new folder, which gets logs and the list of results
#   JOBS      machines at the same time (default: one for each processor)
#   OPTIONS   options of ./qop radio, such as --root DIR with the system that CHECKOUT was built on
#
# Exit status: 0 if no test failed, 1 if one did or a job ended early, 2 for bad input.
set -eu

give_up() {
	echo "hostap-hwsim: $1" >&2
	exit 2
}

# Inside a machine: the rig of hostap's tests/hwsim/vm/inside.sh, without its mounts over /etc and
# /dev, which here are the machine's own. Then the tests of one job.
run_job() {
	tests=$1/tests/hwsim LOGDIR=$2 part=$3
	shift 3
	export LOGDIR USER=0 HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PATH="/run/bin:/usr/sbin:/sbin:$PATH"
	mkdir -p "$LOGDIR" /run/bin /run/dbus /lib/firmware /tmp
	# Everything is root's here.
	printf '#!/bin/sh\nexec "$@"\n' >/run/bin/sudo
	chmod +x /run/bin/sudo
	mount --bind "$tests/vm/regdb" /lib/firmware
	iw reg reload
	if [ -e "$tests/vm/dbus.conf" ] && command -v dbus-daemon >/dev/null &&
		getent passwd messagebus >/dev/null; then
		touch /run/dbus/hwsim-test
		chown messagebus /run/dbus
		dbus-daemon --config-file="$tests/vm/dbus.conf" --fork
	fi
	sleep 1 # programs of procps need an uptime of more than a second
	cd "$tests"
	./run-all.sh --vm --split "$part" --long "$@" </dev/null || : # the results tell of failures
	: >"$LOGDIR/ended"
}

if [ "${1-}" = --inside ]; then
	shift
	run_job "$@"
	exit
fi

[ $# -ge 2 ] || give_up 'give CHECKOUT and LOGS; the first lines of this file describe them'
[ -d "$1/tests/hwsim/vm" ] || give_up "$1: is no checkout of hostap with tests/hwsim; give one"
checkout=$(cd "$1" && pwd -P)
for program in hostapd/hostapd hostapd/hlr_auc_gw wpa_supplicant/wpa_supplicant wlantest/wlantest; do
	[ -x "$checkout/$program" ] ||
		give_up "$checkout/$program: is missing; build it by tests/hwsim/build.sh"
done
jobs=${JOBS:-$(nproc)}
case $jobs in *[!0-9]* | 0*) give_up "JOBS=$jobs: is no number of machines; write for example 2" ;; esac
mkdir "$2" 2>/dev/null || give_up "$2: exists or cannot be made; name a new folder"
logs=$(cd "$2" && pwd -P)
shift 2
qop=${QOP:-$(dirname "$0")/../qop}
cp "$0" "$logs/job.sh"

job=1
while [ "$job" -le "$jobs" ]; do
	# shellcheck disable=SC2086 # one word an option
	"$qop" radio -n 7 --hwsim support_p2p_device=0 --clock virtual --memory 1600 \
		--bind "$checkout" --bind "$logs" ${OPTIONS-} -- \
		sh "$logs/job.sh" --inside "$checkout" "$logs/$job" "$job/$jobs" "$@" \
		</dev/null >"$logs/$job.output" 2>&1 &
	job=$((job + 1))
done
wait

grep -hE '^(PASS|FAIL|SKIP) ' "$logs"/*.output | LC_ALL=C sort -u >"$logs/results" || :
for result in PASS FAIL SKIP; do
	printf '%s %s\n' "$result" "$(grep -c "^$result " "$logs/results" || :)"
done
[ -s "$logs/results" ] || give_up "no test has run; read $logs/1.output"
status=0
while [ "$((job -= 1))" -gt 0 ]; do
	[ -e "$logs/$job/ended" ] && continue
	echo "hostap-hwsim: job $job has ended early; read $logs/$job.output" >&2
	status=1
done
! grep '^FAIL ' "$logs/results" >&2 || status=1
exit "$status"
