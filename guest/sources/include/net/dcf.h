/* SPDX-License-Identifier: GPL-2.0-only */
/* What emulated radios tell the emulated air (net/sched/sch_dcf.c), and ask it. */
#ifndef __NET_DCF_H
#define __NET_DCF_H

#include <linux/types.h>

/* The medium says nothing about these two radios; one does not hear the other. */
#define DCF_UNPLACED 0
#define DCF_UNHEARD (-128)

void dcf_management(u32 frequency_mhz, const u8 *from, const u8 *to, u32 bytes);
int dcf_received_dbm(u32 frequency_mhz, const u8 *from, const u8 *to);

#endif
