/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One channel of 802.11's distributed coordination function (IEEE 802.11-2007, 9.2), without a kernel.
 *
 * Stations have a queue each. On a channel that has been idle for DIFS a frame goes at once, or, as
 * later editions have it, after another DIFS; else its station counts down slots while the channel is
 * idle, all from one slot clock, and who gets to zero together collides. Windows double up to a limit,
 * retries end, and a backoff follows every frame. The receiver has a frame after preamble and bits; the
 * channel stays busy until its acknowledgement ends. Who gets none waits for it in vain; others wait
 * for EIFS after frames that nobody understood, where the medium has that.
 *
 * Nothing here waits: dcf_advance() does what has happened by a time, dcf_next() says when something
 * will. It takes one call a transmission, however many slots go by. Who includes this brings the
 * types u8, u32, u64 and bool, div_u64() and the two functions declared below.
 */
#ifndef DCF_CORE_H
#define DCF_CORE_H

#define DCF_NEVER (~0ULL)
#define DCF_MAX_QUEUE 64

/* Lengths are in nanoseconds; probabilities in units of 2^-32. */
struct dcf_config {
	u64 slot;
	u64 difs;
	u64 sense;		/* a frame that finds the channel idle waits that long: 0, or DIFS */
	u64 blind;		/* how long a transmission goes unnoticed; 1 at least */
	u64 after_frame;	/* SIFS and acknowledgement */
	u64 after_garbled;	/* EIFS - DIFS; 0 where colliding preambles hide each other */
	u32 cw_min;
	u32 cw_max;
	u32 retries;
	u32 loss;
	u32 limit;		/* frames that wait in a station's queue */
	u32 timeout;		/* slots that who collided waits longer than others: ACKTimeout */
};

struct dcf_frame {
	void *what;
	u64 queued;
	u64 length;		/* preamble and bits */
	bool to_all;		/* no acknowledgement, so no retries */
};

struct dcf_station {
	u32 count;		/* slots to go, from the channel's `from` on */
	u32 cw;
	u32 attempts;		/* of the frame at the head, in vain */
	u32 first;
	u32 waiting;
	u64 head;		/* the earliest that the head may go; 0: when the count ends */
	u64 started;		/* of the transmission under way */
	bool sends;
	u64 sent;		/* transmissions, collisions, losses; frames delivered and given up */
	u64 collided;
	u64 lost;
	u64 delivered;
	u64 given_up;
	struct dcf_frame queue[DCF_MAX_QUEUE];
};

struct dcf_channel {
	struct dcf_config is;
	u64 random;
	u64 from;		/* the channel counts as idle from then on, DIFS included */
	u64 busy_until;
	bool sending;		/* a transmission is under way */
	u64 begun;
	u64 ends;		/* the last of its frames */
	u32 senders;
	u64 next;		/* the next transmission, if nobody else comes */
	u64 next_end;
	u32 stations;
	struct dcf_station *station;
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

/* When a station that has a frame would send it, if the channel stays idle. */
static inline u64 dcf_due(const struct dcf_channel *channel, const struct dcf_station *station)
{
	u64 counted = channel->from + station->count * channel->is.slot;

	return station->head > counted ? station->head : counted;
}

/* Look for the next transmission, and for the end of the one that begins then. */
static void dcf_plan(struct dcf_channel *channel)
{
	u32 i;

	channel->next = channel->next_end = DCF_NEVER;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		if (station->waiting) {
			u64 due = dcf_due(channel, station);

			if (due < channel->next) {
				channel->next = due;
				channel->next_end = due + station->queue[station->first].length;
			}
		}
	}
}

static void dcf_join(struct dcf_channel *channel, struct dcf_station *station, u64 at)
{
	u64 end = at + station->queue[station->first].length;

	station->sends = true;
	station->started = at;
	station->count = 0;
	station->sent++;
	channel->senders++;
	if (end > channel->ends)
		channel->ends = end;
}

/* A transmission begins: who is due before it is noticed sends as well; all others stop counting. */
static void dcf_begin(struct dcf_channel *channel)
{
	u64 at = channel->next;
	u32 gone = at > channel->from ? div_u64(at - channel->from, channel->is.slot) : 0;
	u32 i;

	channel->sending = true;
	channel->begun = at;
	channel->ends = 0;
	channel->senders = 0;
	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];

		if (station->waiting) {
			u64 due = dcf_due(channel, station);

			if (due < at + channel->is.blind) {
				dcf_join(channel, station, due);
				continue;
			}
			/* It wanted to go at once, and found the channel taken. */
			if (station->head && !station->count) {
				station->head = 0;
				station->count = dcf_draw(channel, station->cw);
				continue;
			}
		}
		station->count -= gone < station->count ? gone : station->count;
	}
	channel->next = channel->next_end = DCF_NEVER;
}

static void dcf_settle(struct dcf_channel *channel, u32 number, bool heard, bool garbled)
{
	struct dcf_station *station = &channel->station[number];
	struct dcf_frame frame = station->queue[station->first];
	bool done = heard || frame.to_all || station->attempts >= channel->is.retries;

	station->sends = false;
	station->head = 0;
	if (done) {
		station->first = (station->first + 1) % DCF_MAX_QUEUE;
		station->waiting--;
		station->attempts = 0;
		station->cw = channel->is.cw_min;
	} else {
		station->attempts++;
		station->cw = 2 * station->cw + 1;
		if (station->cw > channel->is.cw_max)
			station->cw = channel->is.cw_max;
	}
	station->count = dcf_draw(channel, station->cw);
	if (garbled && !frame.to_all)
		station->count += channel->is.timeout;
	if (heard) {
		station->delivered++;
		dcf_deliver(channel, number, &frame, station->started + frame.length);
	} else if (done) {
		station->given_up++;
		dcf_give_up(channel, number, &frame);
	}
}

/* The transmission's frames have ended: who gets what, and how long the channel stays busy. */
static void dcf_end(struct dcf_channel *channel)
{
	bool garbled = channel->senders > 1, acknowledged = false;
	u32 i;

	for (i = 0; i < channel->stations; i++) {
		struct dcf_station *station = &channel->station[i];
		bool lost;

		if (!station->sends)
			continue;
		lost = !garbled && channel->is.loss && dcf_random(channel) < channel->is.loss;
		station->collided += garbled;
		station->lost += lost;
		/* Others heard a frame that was lost: they leave room for the acknowledgement. */
		acknowledged |= !station->queue[station->first].to_all;
		dcf_settle(channel, i, !garbled && !lost, garbled);
	}
	channel->busy_until = channel->ends + (garbled ? channel->is.after_garbled :
					       acknowledged ? channel->is.after_frame : 0);
	channel->from = channel->busy_until + channel->is.difs;
	channel->sending = false;
	dcf_plan(channel);
}

static void dcf_advance(struct dcf_channel *channel, u64 now)
{
	for (;;) {
		if (channel->sending) {
			if (channel->ends > now)
				return;
			dcf_end(channel);
		} else {
			if (channel->next > now)
				return;
			dcf_begin(channel);
		}
	}
}

/* When dcf_advance() has to be called again; frames that come meanwhile may change it. */
static inline u64 dcf_next(const struct dcf_channel *channel)
{
	return channel->sending ? channel->ends : channel->next_end;
}

/* Returns whether there was room. */
static bool dcf_enqueue(struct dcf_channel *channel, u32 number, u64 now, struct dcf_frame frame)
{
	struct dcf_station *station = &channel->station[number];

	dcf_advance(channel, now);
	if (station->waiting >= channel->is.limit)
		return false;
	frame.queued = now;
	station->queue[(station->first + station->waiting) % DCF_MAX_QUEUE] = frame;
	if (station->waiting++)
		return true;
	if (channel->sending) {
		if (!station->count && !channel->is.sense &&
		    now < channel->begun + channel->is.blind)
			dcf_join(channel, station, now);
		else if (!station->count)
			station->count = dcf_draw(channel, station->cw);
		return true;
	}
	if (now < channel->busy_until) {
		if (!station->count)
			station->count = dcf_draw(channel, station->cw);
	} else {
		station->head = now + channel->is.sense;
	}
	if (dcf_due(channel, station) < channel->next)
		dcf_plan(channel);
	return true;
}

static void dcf_init(struct dcf_channel *channel, u64 seed)
{
	u32 i;

	channel->random = seed;
	channel->next = channel->next_end = DCF_NEVER;
	for (i = 0; i < channel->stations; i++)
		channel->station[i].cw = channel->is.cw_min;
}

#endif
