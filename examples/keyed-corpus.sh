#!/bin/sh
# Make captures with their keys inside, as test data for others. Run it in a checkout:
#   examples/keyed-corpus.sh FOLDER
# FOLDER gets pcapng files and profiles of Wireshark with the keys that a file cannot hold:
#   M5  EAP-TLS 1.3          M8-okc  opportunistic key caching     M5-radsec  RADIUS inside TLS
#   M8  fast transition      M9      FILS                          M5-macsec  MACsec key agreement
#   P12 Mobile IP registration, and in the folder kerberos PKINIT
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
qop=$(dirname "$0")/../qop
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
trap 'exit 130' HUP INT TERM
mkdir "$1"

"$qop" run --policies P12,M5,M5-radsec,M5-macsec,M8,M8-okc,M9 --scenarios E1 --repetitions 1 \
	--clock virtual --set stream_bytes=100000 --captures all --out "$results/wireless"
"$qop" export "$results/wireless" --wireshark "$1/wireless"
"$qop" run krb5today --mechanisms pkinit-dh --only wire=lan --only customers=1 \
	--only transport=default --logins 2 --captures all --out "$results/kerberos"
"$qop" export "$results/kerberos" --wireshark "$1/kerberos"
