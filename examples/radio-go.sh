#!/bin/sh
# A station in Go joins an open access point and pings it. Build it, and run it in a machine with radios:
#   CGO_ENABLED=0 go build -C examples/go-station
#   ./qop radio --bind examples --namespaces ap1,sta1 examples/radio-go.sh
set -eu
settings=$(mktemp)
printf 'interface=wlan0\nssid=example\nhw_mode=g\nchannel=1\n' >"$settings"
ip netns exec ap1 hostapd -B "$settings"
ip netns exec ap1 ip address add 10.0.0.1/24 dev wlan0
ip -n sta1 link set wlan1 up
ip -n sta1 address add 10.0.0.2/24 dev wlan1
ip netns exec sta1 "$(dirname "$0")/go-station/go-station" wlan1 example
ip netns exec sta1 ping -c 3 -i 0.2 10.0.0.1
