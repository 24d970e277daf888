/* SPDX-License-Identifier: GPL-2.0 */
/* What sch_dcf is told and tells by netlink; topologies/dcf.py packs the same. */
#ifndef DCF_NETLINK_H
#define DCF_NETLINK_H

enum { TCA_DCF_UNSPEC, TCA_DCF_CHANNEL, TCA_DCF_TIMING, __TCA_DCF_MAX };
#define TCA_DCF_MAX (__TCA_DCF_MAX - 1)

struct dcf_told {
	struct dcf_config is;
	u32 stations;
	u64 seed;
};

struct dcf_rate {
	u64 preamble_ns;	/* and the silence after a frame that belongs to it */
	u64 bps;
	u32 symbol_bits;	/* 0: bit by bit */
	u32 symbol_ns;
	u32 service_bits;
	u32 unused;
};

struct dcf_timing {
	struct dcf_rate data;
	struct dcf_rate basic;	/* of frames to all */
	u64 from_infrastructure;	/* bits of the classes whose frames to all go out as such */
	s32 added_bytes;	/* what 802.11 adds to an Ethernet frame, less what it leaves out */
	u32 unused;
};

struct dcf_stats {
	u64 sent;
	u64 collided;
	u64 lost;
	u64 delivered;
	u64 given_up;
};

#endif
