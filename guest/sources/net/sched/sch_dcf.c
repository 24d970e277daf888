// SPDX-License-Identifier: GPL-2.0-only
/*
 * One channel of 802.11 as a queueing discipline: dcf_core.h with frames, a clock and netlink.
 *
 * A class is a station, by the minor number of a frame's priority; the first one has whatever names
 * none. A frame's mark is the class of its receiver, or 0. Options come in attributes of
 * net/sched/dcf_netlink.h; statistics of classes go out so. Emulated radios tell what they send by
 * themselves (dcf_management): it takes the air as a frame that nobody receives, and is not late itself.
 * They ask how strongly they receive each other (dcf_received_dbm).
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <net/dcf.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sock.h>

/* What powers of all pairs fit an attribute for is 90. */
#define DCF_MAX_STATIONS 1024

#include "dcf_core.h"
#include "dcf_netlink.h"

struct dcf_sched {
	struct dcf_channel channel;
	struct dcf_timing timing;
	struct dcf_frame *frames;	/* all stations' queues */
	struct dcf_link *links;
	u32 link_count;
	u16 *link_of;		/* of a pair; 0: none, else one more than its place */
	struct dcf_address *addresses;
	s8 *signals;		/* of a sender (rows) at a listener, in dBm */
	u32 frequency_mhz;
	struct list_head all;
	struct Qdisc *sch;
	struct sk_buff_head arrived;
	struct qdisc_watchdog watchdog;
};

static LIST_HEAD(dcf_all);
static DEFINE_SPINLOCK(dcf_all_lock);

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
	if (frame->what)
		__skb_queue_tail(&dcf_of(channel)->arrived, frame->what);
}

static void dcf_give_up(struct dcf_channel *channel, u32 station, const struct dcf_frame *frame)
{
	struct dcf_sched *q = dcf_of(channel);

	if (!frame->what)
		return;
	dcf_gone(q, frame->what);
	qdisc_qlen_dec(q->sch);
	qdisc_qstats_drop(q->sch);
	kfree_skb(frame->what);
}

static u32 dcf_link_loss(const struct dcf_link *link, u32 bytes)
{
	u32 step = min_t(u32, bytes / DCF_LOSS_STEP_BYTES, DCF_LOSS_STEPS - 2);
	s64 rise = (s64)link->loss[step + 1] - link->loss[step];
	u32 beyond = min_t(u32, bytes - step * DCF_LOSS_STEP_BYTES, DCF_LOSS_STEP_BYTES);

	return link->loss[step] + div_s64(rise * beyond, DCF_LOSS_STEP_BYTES);
}

/* What a frame keeps the air for, alone and among others, and how probably it is lost. */
static void dcf_describe(const struct dcf_sched *q, u32 number, u32 bytes, struct dcf_frame *frame)
{
	const struct dcf_rate *rate = frame->to_all ? &q->timing.basic : &q->timing.data;
	u32 among_bits;

	frame->loss = q->channel.is.loss;
	if (q->link_of && !frame->to_all && frame->peer < q->channel.stations) {
		u16 place = q->link_of[number * q->channel.stations + frame->peer];

		if (place) {
			rate = &q->links[place - 1].rate;
			frame->loss = dcf_link_loss(&q->links[place - 1], bytes);
		}
	}
	frame->rate = rate;
	among_bits = 8 * (round_up(bytes, 4) + 4);
	frame->length = dcf_length(rate, q->channel.is.delimits && !frame->to_all ? among_bits : 8 * bytes);
	if (q->channel.is.aggregate > 1 && !frame->to_all)
		frame->bits = among_bits;
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
	struct dcf_frame frame = { .what = skb, .peer = skb->mark - 1 };
	u32 number = dcf_class(q, sch, skb->priority);
	s32 added_bytes;

	frame.to_all = number < BITS_PER_TYPE(q->timing.from_infrastructure) &&
		       q->timing.from_infrastructure & BIT_ULL(number) &&
		       is_multicast_ether_addr(skb_mac_header(skb));
	if (frame.to_all)
		frame.peer = DCF_ANYBODY;
	added_bytes = frame.to_all ? q->timing.added_to_all_bytes : q->timing.added_bytes;
	dcf_describe(q, number, max_t(s64, (s64)qdisc_pkt_len(skb) + added_bytes, 0), &frame);
	skb->mark = 0;
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

static u32 dcf_number_of(const struct dcf_sched *q, const u8 *address)
{
	u32 number;

	for (number = 0; number < q->channel.stations; number++)
		if (ether_addr_equal_unaligned(q->addresses[number].bytes, address))
			break;
	return number;
}

/* How strongly an emulated radio receives what another one sends. */
int dcf_received_dbm(u32 frequency_mhz, const u8 *from, const u8 *to)
{
	struct dcf_sched *q;
	int dbm = DCF_UNPLACED;

	spin_lock_bh(&dcf_all_lock);
	list_for_each_entry(q, &dcf_all, all) {
		u32 stations = q->channel.stations, sender, listener;

		if (q->frequency_mhz != frequency_mhz || !q->signals)
			continue;
		sender = dcf_number_of(q, from);
		listener = dcf_number_of(q, to);
		if (sender < stations && listener < stations)
			dbm = q->signals[sender * stations + listener];
	}
	spin_unlock_bh(&dcf_all_lock);
	return dbm;
}
EXPORT_SYMBOL_GPL(dcf_received_dbm);

/* An emulated radio sends a frame of its own, which no queue has seen; `bytes` are header and checksum, too. */
void dcf_management(u32 frequency_mhz, const u8 *from, const u8 *to, u32 bytes)
{
	struct dcf_sched *q;
	u32 number;

	spin_lock_bh(&dcf_all_lock);
	list_for_each_entry(q, &dcf_all, all) {
		struct dcf_frame frame = { .peer = DCF_ANYBODY, .to_all = is_multicast_ether_addr(to) };

		if (q->frequency_mhz != frequency_mhz)
			continue;
		frame.rate = &q->timing.basic;
		frame.length = dcf_length(frame.rate, 8 * bytes);
		number = dcf_number_of(q, from);
		if (number == q->channel.stations)
			continue;
		spin_lock(qdisc_lock(q->sch));
		dcf_enqueue(&q->channel, number, ktime_get_ns(), frame);
		spin_unlock(qdisc_lock(q->sch));
	}
	spin_unlock_bh(&dcf_all_lock);
}
EXPORT_SYMBOL_GPL(dcf_management);

static void dcf_reset(struct Qdisc *sch)
{
	struct dcf_sched *q = qdisc_priv(sch);
	u32 i;

	qdisc_watchdog_cancel(&q->watchdog);
	__skb_queue_purge(&q->arrived);
	for (i = 0; i < q->channel.stations; i++) {
		struct dcf_station *station = &q->channel.station[i];
		u32 place;

		for (place = 0; place < station->waiting; place++)
			kfree_skb(dcf_queued(station, place)->what);
	}
	if (q->channel.station) {
		for (i = 0; i < q->channel.stations; i++) {
			struct dcf_station *station = &q->channel.station[i];
			bool has_beacons = station->has_beacons;

			memset(station, 0, offsetof(struct dcf_station, room));
			station->has_beacons = has_beacons;
		}
		dcf_init(&q->channel, q->channel.random);
	}
}

static void dcf_destroy(struct Qdisc *sch)
{
	struct dcf_sched *q = qdisc_priv(sch);

	if (q->addresses) {
		spin_lock_bh(&dcf_all_lock);
		list_del(&q->all);
		spin_unlock_bh(&dcf_all_lock);
	}
	qdisc_watchdog_cancel(&q->watchdog);
	kvfree(q->channel.station);
	kvfree(q->frames);
	kvfree(q->channel.power);
	kvfree(q->channel.next_power);
	kvfree(q->links);
	kvfree(q->link_of);
	kvfree(q->addresses);
	kvfree(q->signals);
}

static const struct nla_policy dcf_policy[TCA_DCF_MAX + 1] = {
	[TCA_DCF_CHANNEL] = NLA_POLICY_EXACT_LEN(sizeof(struct dcf_told)),
	[TCA_DCF_TIMING] = NLA_POLICY_EXACT_LEN(sizeof(struct dcf_timing)),
	[TCA_DCF_POWER] = { .type = NLA_BINARY },
	[TCA_DCF_LINKS] = { .type = NLA_BINARY },
	[TCA_DCF_ADDRESSES] = { .type = NLA_BINARY },
	[TCA_DCF_SIGNALS] = { .type = NLA_BINARY },
};

static bool dcf_rate_ok(const struct dcf_rate *rate)
{
	return rate->bps && (!rate->symbol_bits || rate->symbol_ns);
}

/* A copy of an attribute that has so many entries; NULL where there is none. */
static void *dcf_copy(const struct nlattr *attribute, size_t bytes)
{
	void *copy;

	if (!attribute)
		return NULL;
	if (nla_len(attribute) != bytes)
		return ERR_PTR(-EINVAL);
	copy = kvmalloc(bytes, GFP_KERNEL);
	if (!copy)
		return ERR_PTR(-ENOMEM);
	return memcpy(copy, nla_data(attribute), bytes);
}

static int dcf_read_links(struct dcf_sched *q, const struct nlattr *attribute)
{
	u32 count = nla_len(attribute) / sizeof(struct dcf_link), stations = q->channel.stations, i;

	void *copy = dcf_copy(attribute, count * sizeof(struct dcf_link));

	if (IS_ERR(copy))
		return PTR_ERR(copy);
	q->links = copy;
	q->link_count = count;
	q->link_of = kvcalloc(stations * stations, sizeof(*q->link_of), GFP_KERNEL);
	if (!q->link_of)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		u32 one = q->links[i].station - 1, other = q->links[i].access_point - 1;

		if (one >= stations || other >= stations || !dcf_rate_ok(&q->links[i].rate))
			return -EINVAL;
		q->link_of[one * stations + other] = q->link_of[other * stations + one] = i + 1;
	}
	return 0;
}

/* Where stations are: how strong they hear each other, how they reach access points, who they are. */
static int dcf_read_places(struct dcf_sched *q, struct nlattr **tb, const struct dcf_told *told)
{
	u32 stations = told->stations, i;
	void *copy;
	int err;

	for (i = 0; i < min_t(u32, stations, 64); i++)
		q->channel.station[i].has_beacons = q->timing.from_infrastructure & BIT_ULL(i);
	copy = dcf_copy(tb[TCA_DCF_POWER], (size_t)stations * stations * sizeof(u64));
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	q->channel.power = copy;
	copy = dcf_copy(tb[TCA_DCF_POWER], (size_t)stations * stations * sizeof(u64));
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	q->channel.next_power = copy;
	copy = dcf_copy(tb[TCA_DCF_ADDRESSES] ? tb[TCA_DCF_SIGNALS] : NULL, (size_t)stations * stations);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	q->signals = copy;
	if (tb[TCA_DCF_LINKS]) {
		err = dcf_read_links(q, tb[TCA_DCF_LINKS]);
		if (err)
			return err;
	}
	copy = dcf_copy(tb[TCA_DCF_ADDRESSES], stations * sizeof(struct dcf_address));
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	q->frequency_mhz = told->frequency_mhz;
	if (copy) {
		q->addresses = copy;
		spin_lock_bh(&dcf_all_lock);
		list_add(&q->all, &dcf_all);
		spin_unlock_bh(&dcf_all_lock);
	}
	return 0;
}

static int dcf_init_sched(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct dcf_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_DCF_MAX + 1];
	struct dcf_told told;
	u32 i;
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
	    told.stations > DCF_MAX_STATIONS || !dcf_rate_ok(&q->timing.data) || !dcf_rate_ok(&q->timing.basic)) {
		NL_SET_ERR_MSG(extack, "dcf: slot, windows, queue, stations or rates out of range");
		return -EINVAL;
	}
	q->channel.station = kvcalloc(told.stations, sizeof(*q->channel.station), GFP_KERNEL);
	if (!q->channel.station)
		return -ENOMEM;
	q->frames = kvcalloc((size_t)told.stations * told.is.limit, sizeof(*q->frames), GFP_KERNEL);
	if (!q->frames)
		return -ENOMEM;
	for (i = 0; i < told.stations; i++) {
		q->channel.station[i].room = told.is.limit;
		q->channel.station[i].queue = q->frames + (size_t)i * told.is.limit;
	}
	q->channel.stations = told.stations;
	q->channel.is = told.is;
	err = dcf_read_places(q, tb, &told);
	if (err) {
		NL_SET_ERR_MSG(extack, "dcf: powers, links or addresses do not fit the stations");
		return err;
	}
	dcf_init(&q->channel, told.seed);
	return 0;
}

/* Whether the moved links are those that there are, with rates that can be. */
static bool dcf_links_fit(const struct dcf_sched *q, const struct nlattr *attribute)
{
	const struct dcf_link *links;
	u32 i;

	if (!attribute || nla_len(attribute) != q->link_count * sizeof(*links))
		return false;
	links = nla_data(attribute);
	for (i = 0; i < q->link_count; i++)
		if (links[i].station != q->links[i].station || !dcf_rate_ok(&links[i].rate) ||
		    links[i].access_point != q->links[i].access_point)
			return false;
	return true;
}

/* Stations are elsewhere. What is under way ends as it has begun, and frames that wait keep their loss. */
static int dcf_change_places(struct dcf_sched *q, struct nlattr **tb)
{
	size_t pairs = (size_t)q->channel.stations * q->channel.stations;

	if (!q->channel.power || !tb[TCA_DCF_POWER] || nla_len(tb[TCA_DCF_POWER]) != pairs * sizeof(u64) ||
	    !dcf_links_fit(q, tb[TCA_DCF_LINKS]) ||
	    (q->signals && (!tb[TCA_DCF_SIGNALS] || nla_len(tb[TCA_DCF_SIGNALS]) != pairs)))
		return -EINVAL;
	dcf_advance(&q->channel, ktime_get_ns());
	memcpy((u64 *)q->channel.next_power, nla_data(tb[TCA_DCF_POWER]), pairs * sizeof(u64));
	q->channel.moves = true;
	dcf_move(&q->channel);
	nla_memcpy(q->links, tb[TCA_DCF_LINKS], q->link_count * sizeof(*q->links));
	if (q->signals) {
		spin_lock_bh(&dcf_all_lock);
		nla_memcpy(q->signals, tb[TCA_DCF_SIGNALS], pairs);
		spin_unlock_bh(&dcf_all_lock);
	}
	return 0;
}

/* The random numbers begin anew, so that what is compared can be given the same luck; or stations move. */
static int dcf_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct dcf_sched *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_DCF_MAX + 1];
	struct dcf_told told;
	int err;

	err = nla_parse_nested(tb, TCA_DCF_MAX, opt, dcf_policy, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_DCF_CHANNEL]) {
		sch_tree_lock(sch);
		err = dcf_change_places(q, tb);
		sch_tree_unlock(sch);
		return err;
	}
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
