// SPDX-License-Identifier: GPL-2.0
/*
 * One channel of 802.11 as a queueing discipline: dcf_core.h with frames, a clock and netlink.
 *
 * A class is a station, by the minor number of a frame's priority; the first one has whatever names
 * none. Options come in attributes of net/sched/dcf_netlink.h; statistics of classes go out so.
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sock.h>

#include "dcf_core.h"
#include "dcf_netlink.h"

struct dcf_sched {
	struct dcf_channel channel;
	struct dcf_timing timing;
	struct Qdisc *sch;
	struct sk_buff_head arrived;
	struct qdisc_watchdog watchdog;
};

static struct dcf_sched *dcf_of(struct dcf_channel *channel)
{
	return container_of(channel, struct dcf_sched, channel);
}

static void dcf_gone(struct dcf_sched *q, const struct sk_buff *skb)
{
	qdisc_qstats_backlog_dec(q->sch, (struct sk_buff *)skb);
}

static void dcf_deliver(struct dcf_channel *channel, u32 station, const struct dcf_frame *frame, u64 at)
{
	__skb_queue_tail(&dcf_of(channel)->arrived, frame->what);
}

static void dcf_give_up(struct dcf_channel *channel, u32 station, const struct dcf_frame *frame)
{
	struct dcf_sched *q = dcf_of(channel);

	dcf_gone(q, frame->what);
	qdisc_qlen_dec(q->sch);
	qdisc_qstats_drop(q->sch);
	kfree_skb(frame->what);
}

/* What a frame keeps the air for: its preamble and bits, in whole symbols where the PHY has them. */
static u64 dcf_length(const struct dcf_timing *timing, u32 bytes, bool to_all)
{
	const struct dcf_rate *rate = to_all ? &timing->basic : &timing->data;
	u64 bits = 8 * max_t(s64, (s64)bytes + timing->added_bytes, 0) + rate->service_bits;

	if (rate->symbol_bits)
		return rate->preamble_ns + DIV_ROUND_UP((u32)bits, rate->symbol_bits) * rate->symbol_ns;
	return rate->preamble_ns + div_u64(bits * NSEC_PER_SEC, rate->bps);
}

static u32 dcf_class(const struct dcf_sched *q, const struct Qdisc *sch, u32 priority)
{
	u32 number = TC_H_MIN(priority);

	return TC_H_MAJ(priority ^ sch->handle) == 0 && number && number <= q->channel.stations ?
		number - 1 : 0;
}

static int dcf_enqueue_skb(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct dcf_sched *q = qdisc_priv(sch);
	struct dcf_frame frame = { .what = skb };
	u32 number = dcf_class(q, sch, skb->priority);

	frame.to_all = number < BITS_PER_TYPE(q->timing.from_infrastructure) &&
		       q->timing.from_infrastructure & BIT_ULL(number) &&
		       is_multicast_ether_addr(skb_mac_header(skb));
	frame.length = dcf_length(&q->timing, qdisc_pkt_len(skb), frame.to_all);
	skb_orphan_partial(skb);
	if (!dcf_enqueue(&q->channel, number, ktime_get_ns(), frame))
		return qdisc_drop(skb, sch, to_free);
	qdisc_qstats_backlog_inc(sch, skb);
	qdisc_qlen_inc(sch);
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *dcf_dequeue(struct Qdisc *sch)
{
	struct dcf_sched *q = qdisc_priv(sch);
	struct sk_buff *skb;

	dcf_advance(&q->channel, ktime_get_ns());
	skb = __skb_dequeue(&q->arrived);
	if (!skb) {
		u64 next = dcf_next(&q->channel);

		if (next != DCF_NEVER)
			qdisc_watchdog_schedule_ns(&q->watchdog, next);
		return NULL;
	}
	dcf_gone(q, skb);
	qdisc_qlen_dec(sch);
	qdisc_bstats_update(sch, skb);
	return skb;
}

static void dcf_reset(struct Qdisc *sch)
{
	struct dcf_sched *q = qdisc_priv(sch);
	u32 i;

	qdisc_watchdog_cancel(&q->watchdog);
	__skb_queue_purge(&q->arrived);
	for (i = 0; i < q->channel.stations; i++) {
		struct dcf_station *station = &q->channel.station[i];

		for (; station->waiting; station->waiting--) {
			kfree_skb(station->queue[station->first].what);
			station->first = (station->first + 1) % DCF_MAX_QUEUE;
		}
		station->sends = false;
	}
	q->channel.sending = false;
	q->channel.next = q->channel.next_end = DCF_NEVER;
}

static void dcf_destroy(struct Qdisc *sch)
{
	struct dcf_sched *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	kvfree(q->channel.station);
}

static const struct nla_policy dcf_policy[TCA_DCF_MAX + 1] = {
	[TCA_DCF_CHANNEL] = NLA_POLICY_EXACT_LEN(sizeof(struct dcf_told)),
	[TCA_DCF_TIMING] = NLA_POLICY_EXACT_LEN(sizeof(struct dcf_timing)),
};

static bool dcf_rate_ok(const struct dcf_rate *rate)
{
	return rate->bps && (!rate->symbol_bits || rate->symbol_ns);
}

static int dcf_init_sched(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct dcf_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_DCF_MAX + 1];
	struct dcf_told told;
	int err;

	q->sch = sch;
	__skb_queue_head_init(&q->arrived);
	qdisc_watchdog_init(&q->watchdog, sch);
	q->channel.next = q->channel.next_end = DCF_NEVER;
	if (!opt) {
		NL_SET_ERR_MSG(extack, "dcf needs its channel and timing");
		return -EINVAL;
	}
	err = nla_parse_nested(tb, TCA_DCF_MAX, opt, dcf_policy, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_DCF_CHANNEL] || !tb[TCA_DCF_TIMING]) {
		NL_SET_ERR_MSG(extack, "dcf needs its channel and timing");
		return -EINVAL;
	}
	nla_memcpy(&told, tb[TCA_DCF_CHANNEL], sizeof(told));
	nla_memcpy(&q->timing, tb[TCA_DCF_TIMING], sizeof(q->timing));
	if (!told.is.slot || !told.is.blind || told.is.cw_min > told.is.cw_max || told.is.cw_max > 0xffff ||
	    !told.is.limit || told.is.limit > DCF_MAX_QUEUE || !told.stations ||
	    told.stations > 1024 || !dcf_rate_ok(&q->timing.data) || !dcf_rate_ok(&q->timing.basic)) {
		NL_SET_ERR_MSG(extack, "dcf: slot, windows, queue, stations or rates out of range");
		return -EINVAL;
	}
	q->channel.station = kvcalloc(told.stations, sizeof(*q->channel.station), GFP_KERNEL);
	if (!q->channel.station)
		return -ENOMEM;
	q->channel.stations = told.stations;
	q->channel.is = told.is;
	dcf_init(&q->channel, told.seed);
	return 0;
}

/* Only the random numbers begin anew: what is compared can be given the same luck. */
static int dcf_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct dcf_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_DCF_MAX + 1];
	struct dcf_told told;
	int err;

	err = nla_parse_nested(tb, TCA_DCF_MAX, opt, dcf_policy, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_DCF_CHANNEL])
		return -EINVAL;
	nla_memcpy(&told, tb[TCA_DCF_CHANNEL], sizeof(told));
	sch_tree_lock(sch);
	q->channel.random = told.seed;
	sch_tree_unlock(sch);
	return 0;
}

static int dcf_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	return skb->len;
}

static unsigned long dcf_find(struct Qdisc *sch, u32 classid)
{
	struct dcf_sched *q = qdisc_priv(sch);
	u32 number = TC_H_MIN(classid);

	return number <= q->channel.stations ? number : 0;
}

static int dcf_graft(struct Qdisc *sch, unsigned long class, struct Qdisc *new, struct Qdisc **old,
		     struct netlink_ext_ack *extack)
{
	return -EOPNOTSUPP;
}

static struct Qdisc *dcf_leaf(struct Qdisc *sch, unsigned long class)
{
	return NULL;
}

static void dcf_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	struct dcf_sched *q = qdisc_priv(sch);
	u32 number;

	for (number = 1; !walker->stop && number <= q->channel.stations; number++)
		if (!tc_qdisc_stats_dump(sch, number, walker))
			return;
}

static int dcf_dump_class(struct Qdisc *sch, unsigned long class, struct sk_buff *skb,
			  struct tcmsg *tcm)
{
	tcm->tcm_parent = TC_H_ROOT;
	tcm->tcm_handle |= TC_H_MIN(class);
	return 0;
}

static int dcf_dump_stats(struct Qdisc *sch, unsigned long class, struct gnet_dump *dump)
{
	struct dcf_sched *q = qdisc_priv(sch);
	const struct dcf_station *station = &q->channel.station[class - 1];
	struct gnet_stats_queue queue = { .qlen = station->waiting, .drops = station->given_up };
	struct gnet_stats_basic_sync basic;
	struct dcf_stats stats = {
		.sent = station->sent, .collided = station->collided, .lost = station->lost,
		.delivered = station->delivered, .given_up = station->given_up,
	};

	gnet_stats_basic_sync_init(&basic);
	_bstats_update(&basic, 0, station->delivered);
	if (gnet_stats_copy_basic(dump, NULL, &basic, true) < 0 ||
	    gnet_stats_copy_queue(dump, NULL, &queue, station->waiting) < 0)
		return -1;
	return gnet_stats_copy_app(dump, &stats, sizeof(stats));
}

static const struct Qdisc_class_ops dcf_class_ops = {
	.graft		=	dcf_graft,
	.leaf		=	dcf_leaf,
	.find		=	dcf_find,
	.walk		=	dcf_walk,
	.dump		=	dcf_dump_class,
	.dump_stats	=	dcf_dump_stats,
};

static struct Qdisc_ops dcf_qdisc_ops __read_mostly = {
	.cl_ops		=	&dcf_class_ops,
	.id		=	"dcf",
	.priv_size	=	sizeof(struct dcf_sched),
	.enqueue	=	dcf_enqueue_skb,
	.dequeue	=	dcf_dequeue,
	.peek		=	qdisc_peek_dequeued,
	.init		=	dcf_init_sched,
	.change		=	dcf_change,
	.reset		=	dcf_reset,
	.destroy	=	dcf_destroy,
	.dump		=	dcf_dump,
	.owner		=	THIS_MODULE,
};

static int __init dcf_module_init(void)
{
	return register_qdisc(&dcf_qdisc_ops);
}

static void __exit dcf_module_exit(void)
{
	unregister_qdisc(&dcf_qdisc_ops);
}
module_init(dcf_module_init)
module_exit(dcf_module_exit)
MODULE_ALIAS_NET_SCH("dcf");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A channel of 802.11's DCF");
