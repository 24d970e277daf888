#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Compiles the guest's kernel; runs inside the build root. Arguments: the source package's file,
# the folder with sources, patches and for the results, whether "all" patches must apply or "some" may be
# left out. Lines "@stage NAME" tell the caller how far it is.
set -eu
package=$1 out=$2 must=$3
export LC_ALL=C KBUILD_BUILD_USER=qop KBUILD_BUILD_HOST=qop

echo '@stage unpack'
mkdir /build && cd /build
# Documentation and the code of drivers for real hardware are two thirds of the tree, and no line
# of them is compiled; their Kconfig files stay, the configuration reads them all.
dpkg-deb --fsys-tarfile "$package" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' |
	tar -xJ --strip-components=1 --exclude='*/Documentation/*.rst' \
		--exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/ethernet/*.[ch]' \
		--exclude='*/drivers/media/*.[ch]' --exclude='*/drivers/staging/*.[ch]' \
		--exclude='*/drivers/infiniband/*.[ch]' --exclude='*/sound/*.[ch]' \
		--exclude='*/tools/testing/*.[ch]'

# What is the project's own is for the pinned kernel; an older one does without.
[ "$must" != all ] || cp -r "$out/sources/." .

echo '@stage patch'
# Each one says on top what it is for. A hunk must apply as it stands (its lines may have moved).
# Where it does not, the build stops; only an older kernel does without what it cannot have.
: >"$out/left-out"
for patch in "$out"/patches/*.patch; do
	name=$(basename "$patch" .patch)
	if [ "$must" != all ] && grep -q guest/sources "$patch"; then
		echo "$name" >>"$out/left-out"
	elif patch -p1 --fuzz=0 --batch --forward --dry-run <"$patch"; then
		patch -p1 --fuzz=0 --batch --forward --quiet <"$patch"
	elif [ "$must" = all ]; then
		echo "kernel.sh: guest/patches/$name.patch does not apply to this kernel"
		exit 1
	else
		echo "$name" >>"$out/left-out"
	fi
done

echo '@stage configure'
make ARCH=um KCONFIG_ALLCONFIG="$out/kernel.config" allnoconfig
mv .config "$out/config" && cp "$out/config" .config

echo '@stage compile'
make ARCH=um -j"$(nproc)" linux
strip -o "$out/linux" linux
echo '@stage done'
