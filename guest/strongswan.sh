#!/bin/sh
# Compiles strongSwan from its released source; runs inside a build root. Arguments: the source's
# archive, the folder to install to, the tar to leave of that folder.
set -eu
source=$1 home=$2 out=$3
export LC_ALL=C

mkdir /build && cd /build
tar -xjf "$source" --strip-components=1

# What IKEv2, ESP and raw public keys need: the same plugins as are loaded, and no other.
./configure --quiet --enable-silent-rules --prefix="$home" --sysconfdir="$home/etc" \
	--with-piddir=/run --disable-defaults --enable-charon --enable-ikev2 --enable-openssl \
	--enable-ml --enable-nonce --enable-random --enable-drbg --enable-kdf --enable-hmac \
	--enable-pem --enable-pkcs1 --enable-pkcs8 --enable-pubkey --enable-kernel-netlink \
	--enable-socket-default --enable-vici --enable-swanctl
make -j"$(nproc)"
make install DESTDIR=/installed
cd "/installed$home"
rm -rf share include
find . -name '*.la' -delete
find . -type f -perm -u+x -exec strip --strip-unneeded {} +
tar -cf "$out" -C /installed --owner=0 --group=0 "${home#/}"
