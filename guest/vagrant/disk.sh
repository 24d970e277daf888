#!/bin/sh
# Makes a disk that boots, FOLDER/box.img, of a root file system that comes as a tar on standard
# input. No loop device and no mount: all of it is files, and so it needs no privilege, but to run
# where the tar's owners can be set. Arguments: the folder, the disk's size in GiB.
set -eu
cd "$1"
size=$2
root=scratch/root disk=scratch/disk.raw first=1 # MiB, as partitioning tools begin today

mkdir "$root"
# The kernel fills /dev itself, and making devices takes privileges.
tar -x --numeric-owner --xattrs '--xattrs-include=*' --exclude='./dev/*' -C "$root"
echo '@stage disk'
truncate -s "${size}G" "$disk"
printf 'label: dos\nstart=%sMiB, type=83, bootable\n' "$first" | sfdisk --quiet "$disk"
mke2fs -q -t ext4 -L qop-root -E "offset=$((first << 20)),lazy_itable_init=1" -d "$root" "$disk" \
	"$(((size << 10) - first))M"
# Where GRUB's own installer puts them: code before the partition table, and the rest right behind.
dd status=none conv=notrunc bs=440 count=1 if="$root/usr/lib/grub/i386-pc/boot.img" of="$disk"
dd status=none conv=notrunc bs=512 seek=1 if="$root/boot/grub/core.img" of="$disk"
rm -rf "$root"
echo '@stage compress'
qemu-img convert -c -W -m 4 -O qcow2 "$disk" box.img
rm "$disk"
