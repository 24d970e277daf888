// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest's air (sources/net/sched/sch_dcf.c, as it is) as a module of a kernel of somebody else's.
 *
 * There, nobody tells it what radios send by themselves: mac80211_hwsim is not changed. But hwsim0 shows
 * all that they send, once it is up, and so management frames are overheard. Beacons are left out: the air
 * has its own.
 */
#include <linux/ieee80211.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <net/ieee80211_radiotap.h>

#include "older.h"

#pragma push_macro("module_init")
#pragma push_macro("module_exit")
#undef module_init
#undef module_exit
#define module_init(function)
#define module_exit(function)
#include "../sources/net/sched/sch_dcf.c"
#pragma pop_macro("module_init")
#pragma pop_macro("module_exit")

/* What mac80211_hwsim puts before each frame (struct hwsim_radiotap_hdr). */
struct dcf_radiotap {
	struct ieee80211_radiotap_header header;
	__le64 at_us;
	u8 flags;
	u8 rate;
	__le16 frequency_mhz;
	__le16 kind;
} __packed;

/* What all management frames begin with. */
struct dcf_heads {
	__le16 control;
	__le16 duration;
	u8 to[ETH_ALEN];
	u8 from[ETH_ALEN];
} __packed;

static int dcf_overhear(struct sk_buff *skb, struct net_device *device, struct packet_type *type,
			struct net_device *first)
{
	struct dcf_radiotap told_buffer;
	struct dcf_heads frame_buffer;
	const struct dcf_radiotap *told;
	const struct dcf_heads *frame;
	u32 before;

	if (device->type != ARPHRD_IEEE80211_RADIOTAP || strcmp(device->name, "hwsim0"))
		goto out;
	told = skb_header_pointer(skb, 0, sizeof(told_buffer), &told_buffer);
	if (!told)
		goto out;
	before = le16_to_cpu(told->header.it_len);
	frame = skb_header_pointer(skb, before, sizeof(frame_buffer), &frame_buffer);
	if (frame && ieee80211_is_mgmt(frame->control) && !ieee80211_is_beacon(frame->control))
		dcf_management(le16_to_cpu(told->frequency_mhz), frame->from, frame->to,
			       skb->len - before + FCS_LEN);
out:
	consume_skb(skb);
	return NET_RX_SUCCESS;
}

static struct packet_type dcf_monitor __read_mostly = {
	.type = cpu_to_be16(ETH_P_802_2),
	.func = dcf_overhear,
};

static int __init dcf_start(void)
{
	int err = dcf_module_init();

	if (!err)
		dev_add_pack(&dcf_monitor);
	return err;
}

static void __exit dcf_stop(void)
{
	dev_remove_pack(&dcf_monitor);
	dcf_module_exit();
}
module_init(dcf_start)
module_exit(dcf_stop)
MODULE_VERSION(AIR);
