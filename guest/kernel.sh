#!/bin/sh
# Compiles the guest's kernel; runs inside the build root. Arguments: the source package's file,
# the folder for the results. Lines "@stage NAME" tell the caller how far it is.
set -eu
package=$1 out=$2
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

# patch_line FILE COUNT SED-EXPRESSION: COUNT lines must go or come, or the build stops here.
patch_line() {
	cp "$1" "$1.orig"
	sed -i "$3" "$1"
	changed=$(diff "$1.orig" "$1" | grep -c '^[<>]') || true
	[ "$changed" = "$2" ] || { echo "kernel.sh: $1: $changed lines changed, not $2"; exit 1; }
}
# In virtual time a clock read must cost enough that a program spinning on the clock gets on.
patch_line arch/um/kernel/time.c 2 \
	's/time_travel_update_time_rel(TIMER_MULTIPLIER);/time_travel_update_time_rel(20 * TIMER_MULTIPLIER);/'
# Who polls in a loop until another thread has done something must let it run: here no time passes
# in which the scheduler would think of it. (The kernel does so for sched_yield and for errors.)
if grep -q __NR_sched_yield arch/um/kernel/skas/syscall.c; then  # not yet in 6.12
	patch_line arch/um/kernel/skas/syscall.c 2 \
		's/syscall == __NR_sched_yield)/(syscall == __NR_sched_yield || syscall == __NR_poll))/'
fi
patch_line arch/um/kernel/skas/syscall.c 6 \
	's/if (IS_ERR_VALUE(ret) &&/if ((IS_ERR_VALUE(ret) || syscall == __NR_poll) \&\&/
	 s/unsigned long ret\b/unsigned long slept = current->nvcsw, ret/
	 s/PT_REGS_SET_SYSCALL_RETURN(regs, ret);/&\n\t\tselected(syscall, current->nvcsw != slept);/
	 s/^#include <asm\/unistd.h>$/&\n#include "selected.h"/'
# Who selects over and over and does nothing else, as iperf3 does after its last write until the
# other end has all of it, would take a hundred thousand rounds for the second that this takes, and
# keep the other end from the processor meanwhile. After a few rounds each takes a millisecond.
cat >arch/um/kernel/skas/selected.h <<'C'
#include <linux/delay.h>

static void selected(int syscall, bool has_slept)
{
	static struct task_struct *last;
	static int rounds;

	if (syscall == __NR_pselect6) {
		rounds = current == last && !has_slept ? rounds + 1 : 0;
		last = current;
		if (rounds > 16 && time_travel_mode != TT_MODE_OFF)
			usleep_range(1000, 1000);
	} else if (current == last && syscall != __NR_clock_gettime) {
		rounds = 0;
	}
}
C
# A throttled line of UML never wakes again, so 4 KB of unread input would stop it for good.
# Without these two the input waits in the line's own buffer (640 KB) until it is read.
patch_line arch/um/drivers/ssl.c 2 '/^\s*\.\(un\)\?throttle\s*= line_\(un\)\?throttle,$/d'
# Guests are linked below 2 GB, so no address needs 64 bits; and half of what IPsec takes of the
# processor is DES, whose rounds are one long chain of XOR until the compiler may regroup it.
patch_line arch/um/Makefile 2 's/-mcmodel=large/-mcmodel=small/'
patch_line lib/crypto/Makefile 1 's/^libdes-y\s*:= des.o$/&\nCFLAGS_des.o += --param=tree-reassoc-width=4/'

echo '@stage configure'
make ARCH=um KCONFIG_ALLCONFIG="$out/kernel.config" allnoconfig
mv .config "$out/config" && cp "$out/config" .config

echo '@stage compile'
make ARCH=um -j"$(nproc)" linux
strip -o "$out/linux" linux
echo '@stage done'
