/* SPDX-License-Identifier: GPL-2.0-only */
/* What kernels older than the guest's do not have yet; Kbuild looks which of it is missing. */
#ifndef OLDER_H
#define OLDER_H

#include <net/pkt_sched.h>

#ifdef LACKS_QLEN_INC
static inline void qdisc_qlen_inc(struct Qdisc *sch)
{
	sch->q.qlen++;
}

static inline void qdisc_qlen_dec(struct Qdisc *sch)
{
	sch->q.qlen--;
}
#endif

#ifndef MODULE_ALIAS_NET_SCH
#define MODULE_ALIAS_NET_SCH(id) MODULE_ALIAS("net-sch-" id)
#endif

#endif
