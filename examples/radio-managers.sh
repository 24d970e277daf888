#!/bin/sh
# A network manager joins an access point by WPA2 and pings it. Run it in a machine with radios:
#   ./qop radio -n 2 --namespaces ap1 examples/radio-managers.sh MANAGER
# MANAGER is iwd, networkmanager or connman. The root file system needs Debian's packages dbus,
# hostapd, iproute2, iputils-ping and iwd, or network-manager, udev and wpasupplicant, or connman and
# wpasupplicant.
set -eu
folder=$(mktemp -d)

# Try a command ten times a second until it succeeds, for a minute at most.
try() {
	left=600
	until "$@" >"$folder/answer" 2>&1; do
		left=$((left - 1))
		[ "$left" -gt 0 ] || { cat "$folder/answer" "$folder/log"; exit 1; }
		sleep 0.1
	done
}

is_ready() {
	connmanctl state | grep -qw ready
}

cat >"$folder/hostapd.conf" <<end
interface=wlan0
ssid=example
hw_mode=g
channel=1
wpa=2
wpa_key_mgmt=WPA-PSK
rsn_pairwise=CCMP
wpa_passphrase=no secret at all
end
ip netns exec ap1 hostapd -B "$folder/hostapd.conf"
ip netns exec ap1 ip address add 10.0.0.1/24 dev wlan0
mkdir -p /run/dbus
dbus-daemon --system --fork

case ${1-} in
iwd)
	/usr/libexec/iwd >"$folder/log" 2>&1 &
	try iwctl --passphrase 'no secret at all' station wlan1 connect example
	;;
networkmanager)
	/lib/systemd/systemd-udevd --daemon # without udev, NetworkManager leaves the interface alone
	udevadm trigger --settle
	wpa_supplicant -B -u -f "$folder/log"
	NetworkManager
	try nmcli connection add type wifi ifname wlan1 con-name example ssid example \
		wifi-sec.key-mgmt wpa-psk wifi-sec.psk 'no secret at all' \
		ipv4.method manual ipv4.addresses 10.0.0.2/24 ipv6.method disabled
	try nmcli connection up example
	;;
connman)
	mkdir -p /var/lib/connman
	cat >/var/lib/connman/example.config <<-end
		[service_example]
		Type=wifi
		Name=example
		Passphrase=no secret at all
		IPv4=10.0.0.2/255.255.255.0/10.0.0.1
	end
	wpa_supplicant -B -u -f "$folder/log"
	connmand
	try connmanctl enable wifi
	try is_ready
	;;
*)
	echo 'radio-managers: give iwd, networkmanager or connman' >&2
	exit 2
	;;
esac
ip address replace 10.0.0.2/24 dev wlan1
ping -c 3 -i 0.2 10.0.0.1
