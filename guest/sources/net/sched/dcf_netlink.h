/* SPDX-License-Identifier: GPL-2.0-only */
/* What sch_dcf is told and tells by netlink; topologies/queueing_disciplines.py packs the same. */
#ifndef DCF_NETLINK_H
#define DCF_NETLINK_H

/*
 * TCA_DCF_POWER has a u64 for each pair (dcf_channel.power), TCA_DCF_LINKS has dcf_link after dcf_link.
 * TCA_DCF_SIGNALS has an s8 for each pair (dcf_received_dbm), and takes addresses. A change without
 * TCA_DCF_CHANNEL moves stations: powers, links and signals of the same pairs.
 */
enum {
	TCA_DCF_UNSPEC, TCA_DCF_CHANNEL, TCA_DCF_TIMING, TCA_DCF_POWER, TCA_DCF_LINKS, TCA_DCF_ADDRESSES,
	TCA_DCF_SIGNALS,
	__TCA_DCF_MAX
};
#define TCA_DCF_MAX (__TCA_DCF_MAX - 1)

#define DCF_LOSS_STEPS 33
#define DCF_LOSS_STEP_BYTES 72

struct dcf_told {
	struct dcf_config is;
	u32 stations;
	u32 frequency_mhz;
	u64 seed;
};

struct dcf_timing {
	struct dcf_rate data;
	struct dcf_rate basic;	/* of frames to all, and of management frames */
	u64 from_infrastructure;	/* bits of the classes whose frames to all go out as such */
	s32 added_bytes;	/* what 802.11 adds to an Ethernet frame, less what it leaves out */
	s32 added_to_all_bytes;	/* the same of a frame to all, which has no QoS Control */
};

/* A station and an access point that reach each other otherwise than the medium says, both ways. */
struct dcf_link {
	u32 station;
	u32 access_point;
	struct dcf_rate rate;
	u32 loss[DCF_LOSS_STEPS];	/* of frames of 0, 72, 144, ... bytes, header and checksum included */
	u32 unused;
};

/* Whose management frames take the air: the address of each class. */
struct dcf_address {
	u8 bytes[6];
	u16 unused;
};

struct dcf_stats {
	u64 sent;
	u64 collided;
	u64 lost;
	u64 delivered;
	u64 given_up;
};

#endif
