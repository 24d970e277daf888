/* SPDX-License-Identifier: GPL-2.0-only */
/* What emulated radios tell the emulated air (net/sched/sch_dcf.c). */
#ifndef __NET_DCF_H
#define __NET_DCF_H

#include <linux/types.h>

void dcf_management(u32 frequency_mhz, const u8 *from, const u8 *to, u32 bytes);

#endif
