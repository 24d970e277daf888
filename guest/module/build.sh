#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the air as a module. Arguments: the kernel's release, the file that the module is to be, and,
# where they are not at their usual place, the kernel's headers.
set -eu
release=$1 module=$2 headers=${3:-/lib/modules/$1/build}
here=$(cd "$(dirname "$0")" && pwd)
version=$("$here/version.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -r "$here" "$here/../sources" "$work"
make -C "$headers" M="$work/module" AIR="$version" modules
install -D -m 644 "$work/module/sch_dcf.ko" "$module"
echo "the air, version $version, for Linux $release"
