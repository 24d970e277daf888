#!/bin/sh
# A station joins an access point by WPA2 and pings it. Run it in a machine with radios:
#   ./qop radio --namespaces ap1,sta1 examples/radio-wpa2.sh
set -eu
folder=$(mktemp -d)

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
cat >"$folder/wpa_supplicant.conf" <<end
ctrl_interface=/run/wpa_supplicant
network={
	ssid="example"
	scan_freq=2412
	psk="no secret at all"
}
end

ip netns exec ap1 hostapd -B "$folder/hostapd.conf"
ip netns exec ap1 ip address add 10.0.0.1/24 dev wlan0
ip netns exec sta1 wpa_supplicant -B -i wlan1 -c "$folder/wpa_supplicant.conf"
ip netns exec sta1 ip address add 10.0.0.2/24 dev wlan1
left=100
until ip netns exec sta1 wpa_cli -i wlan1 status | grep wpa_state=COMPLETED; do
	left=$((left - 1))
	[ "$left" -gt 0 ] || exit 1
	sleep 0.1
done
ip netns exec sta1 ping -c 3 -i 0.2 10.0.0.1
