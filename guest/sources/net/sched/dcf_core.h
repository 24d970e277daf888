/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One channel of 802.11's distributed coordination function (IEEE 802.11-2007, 9.2), without a kernel.
 *
 * Stations have a queue each. On a channel that has been idle for DIFS a frame goes at once, or, as
 * later editions have it, after another DIFS; else its station counts down slots while it hears nobody,
 * and who gets to zero together collides. Windows double up to a limit, retries end, and a backoff
 * follows every frame. The receiver has a frame after preamble and bits; who heard it leaves the channel
 * to its acknowledgement. Who gets none waits for it in vain; others wait for EIFS after frames that
 * nobody understood, where the medium has that.
 *
 * Without `power` everybody hears everybody, equally strong. With it, a station counts down while those
 * that it hears are silent, two that do not hear each other may overlap at a receiver, and the stronger
 * of two may come through (capture). Stations may move: powers change between two transmissions. Frames
 * for one receiver go together where the medium aggregates
 * them; each is lost or not by itself, and a block acknowledgement says which. Access points that have
 * beacons send them as they fall due; nobody is told of them. An aggregate is limited in frames, in length
 * and in time (the last two as bits of its rate), and its frames begin no closer than receivers take them.
 *
 * Nothing here waits: dcf_advance() does what has happened by a time, dcf_next() says when something
 * will. It takes two calls a transmission, however many slots go by. Who includes this brings the
 * types u8, u32, u64 and bool, div_u64() and the two functions declared below.
 */
#ifndef DCF_CORE_H
#define DCF_CORE_H

#define DCF_NEVER (~0ULL)
#define DCF_MAX_QUEUE 4096
#define DCF_ANYBODY (~0U)

/* Lengths are in nanoseconds; probabilities in units of 2^-32. */
struct dcf_config {
	u64 slot;
	u64 difs;
	u64 sense;		/* a frame that finds the channel idle waits that long: 0, or DIFS */
	u64 blind;		/* how long a transmission goes unnoticed; 1 at least */
	u64 after_frame;	/* SIFS and acknowledgement */
	u64 after_garbled;	/* EIFS - DIFS; 0 where colliding preambles hide each other */
	u64 sifs;
	u64 after_aggregate;	/* SIFS and block acknowledgement */
	u64 beacon_every;	/* 0: none */
	u64 beacon_length;
	u64 senses;		/* who is that strong is heard; a unit with `power` */
	u32 cw_min;
	u32 cw_max;
	u32 retries;
	u32 loss;
	u32 limit;		/* frames that wait in a station's queue */
	u32 timeout;		/* slots that who collided waits longer than others: ACKTimeout */
	u32 capture;		/* how many 256ths stronger than all others a frame comes through; 0: never */
	u32 aggregate;		/* frames that go together; 0 and 1: each goes alone */
	u32 delimits;		/* whether a frame that goes alone has a delimiter, too (VHT, HE) */
	u32 unused;
};

struct dcf_rate {
	u64 preamble_ns;	/* and the silence after a frame that belongs to it */
	u64 bps;
	u32 symbol_bits;	/* 0: bit by bit */
	u32 symbol_ns;
	u32 service_bits;
	u32 step_ns;		/* symbols take a multiple of that together; 0: as long as they are */
	u32 aggregate_bits;	/* an aggregate, at most */
	u32 spacing_bits;	/* from one frame of an aggregate to the next, at least */
};

enum dcf_fate { DCF_WAITS, DCF_HEARD, DCF_GIVEN_UP };

struct dcf_frame {
	void *what;
	u64 queued;
	u64 length;		/* preamble and bits, if it goes alone */
	const struct dcf_rate *rate;
	u32 bits;		/* among others, with what parts them; 0: it always goes alone */
	u32 peer;		/* who receives it, or DCF_ANYBODY */
	u32 loss;
	u32 attempts;		/* in vain */
	u8 fate;
	bool to_all;		/* no acknowledgement, so no retries */
};

struct dcf_station {
	u32 count;		/* slots to go, from `from` on, once it knows that no answer comes */
	u32 unanswered;		/* slots until it knows that; another's frame tells it at once */
	u32 cw;
	u32 first;
	u32 waiting;
	u32 hearing;		/* transmissions under way */
	u64 from;		/* the channel counts as idle from then on, DIFS included */
	u64 busy_until;
	u64 noticed;		/* when it knows of the first that it hears */
	u64 head;		/* the earliest that the head may go; 0: when the count ends */
	u64 started;		/* of the transmission under way */
	u64 ends;
	u64 noise;		/* power of all others that its receiver heard meanwhile */
	u64 answers_until;	/* it sends an acknowledgement */
	u64 next_beacon;
	u32 burst;		/* frames under way */
	bool sends;
	bool over;		/* its frame has ended, and what became of it is not settled */
	bool garbled;
	bool has_beacons;
	bool beacon;		/* one is due */
	bool sends_beacon;
	u64 sent;		/* transmissions, collisions; frames lost, delivered and given up */
	u64 collided;
	u64 lost;
	u64 delivered;
	u64 given_up;
	u32 room;		/* what follows stays when all else begins anew */
	struct dcf_frame *queue;
};

struct dcf_channel {
	struct dcf_config is;
	u64 random;
	u64 next;		/* the next transmission, if nobody else comes */
	u64 next_end;
	u64 ends;		/* the first of those under way */
	u64 next_beacon;
	struct dcf_frame beacon;
	u32 stations;
	struct dcf_station *station;
	const u64 *power;	/* of a sender (rows) at a listener; NULL: all alike */
	const u64 *next_power;	/* after a move, once nobody sends */
	bool moves;
};

/* A frame has come to its receiver; a frame's retries have ended. Neither may call back. */
static void dcf_deliver(struct dcf_channel *channel, u32 station, const struct dcf_frame *frame, u64 at);
static void dcf_give_up(struct dcf_channel *channel, u32 station, const struct dcf_frame *frame);

/* SplitMix64 (Steele, Lea, Flood 2014): the same numbers from the same seed everywhere. */
static inline u32 dcf_random(struct dcf_channel *channel)
{
	u64 z = channel->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) >> 32;
}

static inline u32 dcf_draw(struct dcf_channel *channel, u32 cw)
{
	return ((u64)dcf_random(channel) * (cw + 1)) >> 32;
}

/* What so many bits keep the air for: preamble and bits, in whole symbols where the PHY has them. */
static u64 dcf_length(const struct dcf_rate *rate, u32 bits)
{
	bits += rate->service_bits;
	if (rate->symbol_bits) {
		u64 symbols = (u64)((bits + rate->symbol_bits - 1) / rate->symbol_bits) * rate->symbol_ns;

		if (rate->step_ns)
			symbols = div_u64(symbols + rate->step_ns - 1, rate->step_ns) * rate->step_ns;
		return rate->preamble_ns + symbols;
	}
	return rate->preamble_ns + div64_u64(bits * 1000000000ULL, rate->bps);
}

static inline u64 dcf_power(const struct dcf_channel *channel, u32 sender, u32 listener)
{
	return channel->power[sender * channel->stations + listener];
}

static inline bool dcf_hears(const struct dcf_channel *channel, u32 sender, u32 listener)
{
	return sender != listener &&
	       (!channel->power || dcf_power(channel, sender, listener) >= channel->is.senses);
}

static inline struct dcf_frame *dcf_queued(struct dcf_station *station, u32 place)
{
	u32 at = station->first + place;

	return &station->queue[at < station->room ? at : at - station->room];
}

static inline bool dcf_wants(const struct dcf_station *station)
{
	return station->waiting || station->beacon;
}

/* When a station that has a frame would send it, if the channel stays idle. */
static inline u64 dcf_due(const struct dcf_channel *channel, const struct dcf_station *station)
{
	u64 counted = station->from + (station->unanswered + station->count) * channel->is.slot;

	if (station->sends || station->hearing || !dcf_wants(station))
		return DCF_NEVER;
	return station->head > counted ? station->head : counted;
}

/* How many frames go together now, and what they keep the air for. */
static u32 dcf_burst(struct dcf_channel *channel, struct dcf_station *station, u64 *length)
{
	struct dcf_frame *head = station->beacon ? &channel->beacon : dcf_queued(station, 0);
	u32 together = 1, before = 0, last = head->bits, place;

	*length = head->length;
	if (!last || channel->is.aggregate < 2)
		return 1;
	for (place = 1; place < station->waiting && together < channel->is.aggregate; place++) {
		const struct dcf_frame *frame = dcf_queued(station, place);
		u32 spaced = last > head->rate->spacing_bits ? last : head->rate->spacing_bits;

		if (frame->fate == DCF_HEARD)
			continue;
		if (!frame->bits || frame->peer != head->peer ||
		    before + spaced + frame->bits > head->rate->aggregate_bits)
			break;
		before += spaced;
		last = frame->bits;
		together++;
	}
	if (together > 1)
		*length = dcf_length(head->rate, before + last);
	return together;
}

/* Look for the next transmission, and for the end of one that begins then. */
static void dcf_plan(struct dcf_channel *channel)
{
	u32 i;

	channel->next = channel->next_end = DCF_NEVER;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];
		u64 due = dcf_due(channel, station), length;

		if (due == DCF_NEVER || (!channel->power && due >= channel->next))
			continue;
		dcf_burst(channel, station, &length);
		if (due < channel->next) {
			channel->next = due;
			if (!channel->power)
				channel->next_end = due + length;
		}
		if (due + length < channel->next_end)
			channel->next_end = due + length;
	}
}

/* Two transmissions overlap: what one's receiver hears of the other. */
static void dcf_disturb(struct dcf_channel *channel, struct dcf_station *station, u32 other)
{
	u32 peer = station->sends_beacon ? DCF_ANYBODY : dcf_queued(station, 0)->peer;

	if (!channel->power || peer >= channel->stations || peer == other)
		station->garbled = true;
	else if (channel->is.capture)
		station->noise += dcf_power(channel, other, peer);
	else if (dcf_hears(channel, other, peer))
		station->garbled = true;
}

static void dcf_join(struct dcf_channel *channel, u32 number, u64 at)
{
	struct dcf_station *station = &channel->station[number];
	u64 length;
	u32 i, peer;

	station->burst = dcf_burst(channel, station, &length);
	station->sends_beacon = station->beacon;
	station->sends = true;
	station->over = station->garbled = false;
	station->noise = 0;
	station->started = at;
	station->ends = at + length;
	station->count = station->unanswered = 0;
	station->sent++;
	peer = station->sends_beacon ? DCF_ANYBODY : dcf_queued(station, 0)->peer;
	if (peer < channel->stations && channel->station[peer].answers_until > at)
		station->garbled = true;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *other = &channel->station[i];

		if (i != number && other->sends && !other->over && other->ends > at) {
			dcf_disturb(channel, station, i);
			dcf_disturb(channel, other, number);
		}
	}
	if (station->ends < channel->ends)
		channel->ends = station->ends;
}

/* A station finds the channel taken: it has counted down so far. */
static void dcf_freeze(struct dcf_channel *channel, struct dcf_station *station, u64 at)
{
	u32 gone = at > station->from ? div_u64(at - station->from, channel->is.slot) : 0;
	u32 unanswered = station->unanswered;

	/* What begins while it waits for an acknowledgement is none: its backoff follows that (9.2.8). */
	station->unanswered = 0;
	if (gone < unanswered)
		return;
	gone -= unanswered;
	/* It wanted to go at once. */
	if (dcf_wants(station) && station->head && !station->count) {
		station->head = 0;
		station->count = dcf_draw(channel, station->cw);
		return;
	}
	station->count -= gone < station->count ? gone : station->count;
}

/* How many of those who began at `at` or soon after a station hears. */
static u32 dcf_heard(const struct dcf_channel *channel, u32 listener, u32 first, u32 joined, u64 at)
{
	u32 heard = 0, i;

	if (joined == 1)
		return dcf_hears(channel, first, listener);
	if (!channel->power)
		return joined - (channel->station[listener].sends &&
				 channel->station[listener].started >= at);
	for (i = first; i < channel->stations; i++)
		heard += channel->station[i].sends && !channel->station[i].over &&
			 channel->station[i].started >= at && dcf_hears(channel, i, listener);
	return heard;
}

/* Transmissions come to those who hear them. */
static void dcf_announce(struct dcf_channel *channel, u32 first, u32 joined, u64 at)
{
	u32 i;

	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];
		u32 heard = dcf_heard(channel, i, first, joined, at);

		if (!heard)
			continue;
		if (!station->hearing && !station->sends)
			dcf_freeze(channel, station, at);
		if (!station->hearing)
			station->noticed = at + channel->is.blind;
		station->hearing += heard;
	}
}

/* A transmission begins: who is due before it is noticed sends as well; who hears it stops counting. */
static void dcf_begin(struct dcf_channel *channel)
{
	u64 at = channel->next;
	u32 i, first = 0, joined = 0;

	for (i = 0; i < channel->stations; i++) {
		u64 due = dcf_due(channel, &channel->station[i]);

		if (due < at + channel->is.blind) {
			dcf_join(channel, i, due);
			if (!joined++)
				first = i;
		}
	}
	dcf_announce(channel, first, joined, at);
	dcf_plan(channel);
}

/* Hands over or drops what stands at the head and needs no more attempts. */
static void dcf_pop(struct dcf_channel *channel, u32 number, u64 at)
{
	struct dcf_station *station = &channel->station[number];

	while (station->waiting && dcf_queued(station, 0)->fate != DCF_WAITS) {
		struct dcf_frame frame = *dcf_queued(station, 0);

		station->first = station->first + 1 < station->room ? station->first + 1 : 0;
		station->waiting--;
		if (frame.fate == DCF_HEARD) {
			station->delivered++;
			dcf_deliver(channel, number, &frame, at);
		} else {
			station->given_up++;
			dcf_give_up(channel, number, &frame);
		}
	}
}

/* What became of the frames under way; returns whether any was heard. */
static bool dcf_fates(struct dcf_channel *channel, struct dcf_station *station, bool *ends)
{
	u32 left = station->burst, place;
	bool heard = false;

	*ends = false;
	for (place = 0; left; place++) {
		struct dcf_frame *frame = dcf_queued(station, place);
		bool lost;

		if (frame->fate == DCF_HEARD)
			continue;
		left--;
		lost = !station->garbled && frame->loss && dcf_random(channel) < frame->loss;
		station->lost += lost;
		if (!station->garbled && !lost) {
			frame->fate = DCF_HEARD;
			heard = true;
		} else if (frame->to_all || frame->attempts++ >= channel->is.retries) {
			frame->fate = DCF_GIVEN_UP;
			*ends = true;
		}
	}
	return heard;
}

static void dcf_settle(struct dcf_channel *channel, u32 number)
{
	struct dcf_station *station = &channel->station[number];
	bool to_all = true, done = true;

	if (!station->sends_beacon) {
		bool ends, heard;

		to_all = dcf_queued(station, 0)->to_all;
		heard = dcf_fates(channel, station, &ends);
		done = heard || ends;
	}
	station->beacon &= !station->sends_beacon;
	station->sends = station->over = station->sends_beacon = false;
	station->head = 0;
	if (done) {
		station->cw = channel->is.cw_min;
	} else {
		station->cw = 2 * station->cw + 1;
		if (station->cw > channel->is.cw_max)
			station->cw = channel->is.cw_max;
	}
	station->count = dcf_draw(channel, station->cw);
	station->unanswered = station->garbled && !to_all ? channel->is.timeout : 0;
	dcf_pop(channel, number, station->ends);
}

/* A station leaves the channel to others until a time, but for what it has begun. */
static void dcf_leave(struct dcf_channel *channel, struct dcf_station *station, u64 since, u64 until)
{
	if (!station->hearing && !station->sends && since && station->busy_until < since)
		dcf_freeze(channel, station, since);
	if (until > station->busy_until)
		station->busy_until = until;
	if (!station->hearing)
		station->from = station->busy_until + channel->is.difs;
}

/* Who hears the receiver and not the sender is silent while it acknowledges. */
static void dcf_answer(struct dcf_channel *channel, u32 sender, u32 peer, u64 until)
{
	u64 since = channel->station[sender].ends + channel->is.sifs;
	u32 i;

	channel->station[peer].answers_until = until;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		if (i != sender && dcf_hears(channel, peer, i) && !dcf_hears(channel, sender, i) &&
		    (station->sends || dcf_due(channel, station) >= since + channel->is.blind))
			dcf_leave(channel, station, since, until);
	}
}

/* A transmission ends: whether it was understood, and how long those who heard it are silent. */
static void dcf_over(struct dcf_channel *channel, u32 number)
{
	struct dcf_station *station = &channel->station[number];
	const struct dcf_frame *head = dcf_queued(station, 0);
	bool to_all = station->sends_beacon || head->to_all;
	u32 peer = station->sends_beacon ? DCF_ANYBODY : head->peer, i;
	u64 quiet = station->ends;

	station->over = true;
	if (station->noise && dcf_power(channel, number, peer) * 256 < station->noise * channel->is.capture)
		station->garbled = true;
	station->collided += station->garbled;
	/* Others heard a frame that was lost: they leave room for the acknowledgement. */
	if (station->garbled)
		quiet += channel->is.after_garbled;
	else if (!to_all)
		quiet += station->burst > 1 ? channel->is.after_aggregate : channel->is.after_frame;
	for (i = 0; i < channel->stations; i++)
		if (dcf_hears(channel, number, i)) {
			channel->station[i].hearing--;
			dcf_leave(channel, &channel->station[i], 0, quiet);
		}
	dcf_leave(channel, station, 0, quiet);
	if (channel->power && !station->garbled && peer < channel->stations)
		dcf_answer(channel, number, peer, quiet);
}

/* Stations have moved: who counts whom as heard must not change while anybody sends. */
static void dcf_move(struct dcf_channel *channel)
{
	const u64 *before = channel->power;

	if (!channel->moves || channel->ends != DCF_NEVER)
		return;
	channel->power = channel->next_power;
	channel->next_power = before;
	channel->moves = false;
}

/* The first of the transmissions under way has ended, perhaps with others. */
static void dcf_end(struct dcf_channel *channel)
{
	u64 at = channel->ends;
	u32 i;

	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		if (station->sends && !station->over && station->ends == at)
			dcf_over(channel, i);
	}
	channel->ends = DCF_NEVER;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		/* Who collided learns nothing while it hears the other. */
		if (station->over && !(station->garbled && station->hearing))
			dcf_settle(channel, i);
		else if (station->sends && !station->over && station->ends < channel->ends)
			channel->ends = station->ends;
	}
	dcf_move(channel);
	dcf_plan(channel);
}

/* A station that had nothing to send has a frame now. */
static void dcf_contend(struct dcf_channel *channel, u32 number, u64 now)
{
	struct dcf_station *station = &channel->station[number];

	if (station->sends)
		return;
	if (station->hearing) {
		if (!station->count && !channel->is.sense && now < station->noticed) {
			dcf_join(channel, number, now);
			dcf_announce(channel, number, 1, now);
		} else if (!station->count) {
			station->count = dcf_draw(channel, station->cw);
		}
		return;
	}
	if (now < station->busy_until) {
		if (!station->count)
			station->count = dcf_draw(channel, station->cw);
	} else {
		station->head = now + channel->is.sense;
	}
	if (dcf_due(channel, station) < channel->next || channel->power)
		dcf_plan(channel);
}

/* Beacons fall due; on a channel that nobody used, only the last ones matter. */
static void dcf_beacons(struct dcf_channel *channel, u64 at, bool skip)
{
	u64 every = channel->is.beacon_every;
	u32 i;

	channel->next_beacon = DCF_NEVER;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		if (!station->has_beacons)
			continue;
		if (skip && station->next_beacon + every <= at)
			station->next_beacon += div64_u64(at - station->next_beacon, every) * every;
		if (!skip && station->next_beacon <= at) {
			bool idle = !dcf_wants(station);

			station->next_beacon += every;
			station->beacon = true;
			if (idle)
				dcf_contend(channel, i, at);
		}
		if (station->next_beacon < channel->next_beacon)
			channel->next_beacon = station->next_beacon;
	}
}

static void dcf_advance(struct dcf_channel *channel, u64 now)
{
	if (channel->ends == DCF_NEVER && channel->next == DCF_NEVER && channel->next_beacon <= now)
		dcf_beacons(channel, now, true);
	for (;;) {
		u64 begins = channel->next, at = channel->ends < begins ? channel->ends : begins;

		if (channel->next_beacon <= now && channel->next_beacon <= at)
			dcf_beacons(channel, channel->next_beacon, false);
		else if (at > now || at == DCF_NEVER)
			return;
		else if (channel->ends <= begins)
			dcf_end(channel);
		else
			dcf_begin(channel);
	}
}

/* When dcf_advance() has to be called again; frames that come meanwhile may change it. */
static inline u64 dcf_next(const struct dcf_channel *channel)
{
	return channel->ends < channel->next_end ? channel->ends : channel->next_end;
}

/* Returns whether there was room. */
static bool dcf_enqueue(struct dcf_channel *channel, u32 number, u64 now, struct dcf_frame frame)
{
	struct dcf_station *station = &channel->station[number];
	bool idle;

	dcf_advance(channel, now);
	if (station->waiting >= channel->is.limit)
		return false;
	idle = !dcf_wants(station);
	frame.queued = now;
	*dcf_queued(station, station->waiting++) = frame;
	if (idle)
		dcf_contend(channel, number, now);
	return true;
}

static void dcf_init(struct dcf_channel *channel, u64 seed)
{
	u64 every = channel->is.beacon_every;
	u32 i;

	channel->random = seed;
	channel->next = channel->next_end = channel->ends = channel->next_beacon = DCF_NEVER;
	channel->beacon = (struct dcf_frame){
		.length = channel->is.beacon_length, .peer = DCF_ANYBODY, .to_all = true,
	};
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		station->cw = channel->is.cw_min;
		station->has_beacons &= every != 0;
		station->next_beacon = div_u64(every * i, channel->stations);
		if (station->has_beacons && station->next_beacon < channel->next_beacon)
			channel->next_beacon = station->next_beacon;
	}
}

#endif
