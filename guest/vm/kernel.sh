#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Make what a virtual machine boots from Debian's kernel, inside a root that has the kernel, its
# headers, kmod, busybox, cpio and squashfs-tools. Argument: the folder with module/, sources/ and
# vm/ of guest/, which gets the results: linux, initrd, modules.squashfs, release.
set -eu
cd "$1"
release=$(basename /lib/modules/*)
all=/lib/modules/$release
echo "$release" >release
grep -q ^CONFIG_MAC80211_DEBUGFS=y "/boot/config-$release" && echo yes >tells-keys || echo no >tells-keys

echo '@stage module'
sh module/build.sh "$release" "$all/updates/sch_dcf.ko"

echo '@stage pack'
# The modules of networks, ciphers and virtual devices. Everything else is for real devices.
kept=$PWD/kept/lib/modules/$release
mkdir -p "$kept"
cd "$all"
for place in modules.order modules.builtin modules.builtin.modinfo updates kernel/arch kernel/crypto \
	kernel/lib kernel/net kernel/fs/9p kernel/fs/fscache kernel/fs/netfs kernel/fs/overlayfs \
	kernel/fs/squashfs kernel/drivers/block kernel/drivers/char kernel/drivers/virtio \
	kernel/drivers/net/*.ko* kernel/drivers/net/wireguard kernel/drivers/net/wireless/*.ko* \
	kernel/drivers/net/wireless/virtual; do
	# Kernels differ in what is a module.
	[ ! -e "$place" ] || cp -r --parents "$place" "$kept"
done
cd "$1"
depmod -b kept "$release"
# The root file system has no modprobe.
cp /bin/busybox kept/lib/modules/
mksquashfs kept/lib/modules modules.squashfs -quiet -no-progress -comp zstd

mkdir -p first/bin first/dev first/modules first/proc first/root
cp /bin/busybox first/bin/
install -m 755 vm/init first/init
for name in virtio_pci virtio_blk virtio_console 9pnet_virtio 9p squashfs overlay; do
	modprobe -d "$PWD/kept" -S "$release" --show-depends "$name"
done | while read -r verb module _; do
	[ "$verb" = insmod ] || continue # otherwise it is built into the kernel
	name=$(basename "$module")
	[ ! -e "first/modules/$name" ] || continue
	cp "$module" first/modules/
	echo "$name" >>first/modules/order
done
(cd first && find . | cpio --quiet -o -H newc) >initrd
cp "/boot/vmlinuz-$release" linux
