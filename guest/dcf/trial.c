/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Runs the guest's air outside of it, as fast as it goes: the same dcf_core.h, and stations that always
 * have a frame or get them at random. Reads `name value` lines, writes one JSON object. Stations send to
 * nobody in particular, or to station 0 where it is to receive (`receives 1`); `power` takes a sender, a
 * listener and a strength, and what it does not say is 0. With `relays 1`, station 0 is an access point
 * that has nothing of its own: it sends on what others bring it, and what it has delivered is counted.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
#define div_u64(a, b) ((a) / (b))
#define div64_u64(a, b) ((a) / (b))

#include "../sources/net/sched/dcf_core.h"

#define MAX_DELAYS 4000000
#define MAX_STATIONS 64

static u64 warm_up;
static double *delays;
static size_t counted;
static u64 dropped;
static u32 brought;	/* to an access point that relays, and not yet in its queue */

static void dcf_deliver(struct dcf_channel *channel, u32 number, const struct dcf_frame *frame, u64 at)
{
	(void)channel;
	brought += number != 0;
	if (frame->queued >= warm_up && counted < MAX_DELAYS)
		delays[counted++] = (at - frame->queued) / 1e3;
}

static void dcf_give_up(struct dcf_channel *channel, u32 number, const struct dcf_frame *frame)
{
	(void)channel, (void)number, (void)frame;
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Jain's index of what stations have got since the last call; 0 where nobody got anything. */
static double jain_since(const struct dcf_channel *channel, u32 first, u64 *before)
{
	double sum = 0, squares = 0;
	u32 i;

	for (i = first; i < channel->stations; i++) {
		double got = channel->station[i].delivered - before[i];

		before[i] = channel->station[i].delivered;
		sum += got;
		squares += got * got;
	}
	return squares ? sum * sum / (channel->stations - first) / squares : 0;
}

/* A generator of its own, so that arrivals do not depend on who won the channel. */
static double uniform(struct dcf_channel *source)
{
	return (dcf_random(source) + 0.5) / 4294967296.0;
}

int main(void)
{
	struct dcf_channel channel = {0}, source = {0};
	double seconds = 10, mean_gap = 0, value, sum = 0, jain_1s = 0;
	u64 length = 0, seed = 1, *next, *before, second = 0, end, sent = 0, collided = 0, delivered = 0, given_up = 0, now;
	u64 *power = calloc(MAX_STATIONS * MAX_STATIONS, sizeof(*power)), strength;
	struct dcf_rate rate = {0};
	struct dcf_frame *frames;
	bool receives = false, beacons = false, relays = false;
	char name[64];
	u32 i, listener, frame_bits = 0;

	channel.is.limit = 50;
	while (scanf("%63s %lf", name, &value) == 2) {
		if (!strcmp(name, "power")) {
			if (scanf("%u %lu", &listener, &strength) != 2 || !channel.stations ||
			    channel.stations > MAX_STATIONS || value >= channel.stations ||
			    listener >= channel.stations)
				return 2;
			channel.power = power;
			power[(u32)value * channel.stations + listener] = strength;
			continue;
		}
		if (!strcmp(name, "stations")) channel.stations = value;
		else if (!strcmp(name, "slot_ns")) channel.is.slot = value;
		else if (!strcmp(name, "difs_ns")) channel.is.difs = value;
		else if (!strcmp(name, "sense_ns")) channel.is.sense = value;
		else if (!strcmp(name, "blind_ns")) channel.is.blind = value;
		else if (!strcmp(name, "after_frame_ns")) channel.is.after_frame = value;
		else if (!strcmp(name, "after_garbled_ns")) channel.is.after_garbled = value;
		else if (!strcmp(name, "cw_min")) channel.is.cw_min = value;
		else if (!strcmp(name, "cw_max")) channel.is.cw_max = value;
		else if (!strcmp(name, "retries")) channel.is.retries = value;
		else if (!strcmp(name, "timeout_slots")) channel.is.timeout = value;
		else if (!strcmp(name, "loss")) channel.is.loss = value * 4294967295.0;
		else if (!strcmp(name, "frame_ns")) length = value;
		else if (!strcmp(name, "gap_ns")) mean_gap = value;	/* of a station; 0: always a frame */
		else if (!strcmp(name, "seconds")) seconds = value;
		else if (!strcmp(name, "seed")) seed = value;
		else if (!strcmp(name, "sifs_ns")) channel.is.sifs = value;
		else if (!strcmp(name, "senses")) channel.is.senses = value;
		else if (!strcmp(name, "capture")) channel.is.capture = value;
		else if (!strcmp(name, "receives")) receives = value;
		else if (!strcmp(name, "queue_frames")) channel.is.limit = value;
		else if (!strcmp(name, "relays")) relays = value;
		else if (!strcmp(name, "beacons")) beacons = value;	/* of station 0 */
		else if (!strcmp(name, "beacon_every_ns")) channel.is.beacon_every = value;
		else if (!strcmp(name, "beacon_ns")) channel.is.beacon_length = value;
		else if (!strcmp(name, "aggregate")) channel.is.aggregate = value;
		else if (!strcmp(name, "aggregate_bits")) rate.aggregate_bits = value;
		else if (!strcmp(name, "spacing_bits")) rate.spacing_bits = value;
		else if (!strcmp(name, "step_ns")) rate.step_ns = value;
		else if (!strcmp(name, "delimits")) channel.is.delimits = value;
		else if (!strcmp(name, "after_aggregate_ns")) channel.is.after_aggregate = value;
		else if (!strcmp(name, "frame_bits")) frame_bits = value;
		else if (!strcmp(name, "preamble_ns")) rate.preamble_ns = value;
		else if (!strcmp(name, "rate_bps")) rate.bps = value;
		else if (!strcmp(name, "symbol_bits")) rate.symbol_bits = value;
		else if (!strcmp(name, "symbol_ns")) rate.symbol_ns = value;
		else if (!strcmp(name, "service_bits")) rate.service_bits = value;
		else { fprintf(stderr, "trial: %s?\n", name); return 2; }
	}
	channel.station = calloc(channel.stations, sizeof(*channel.station));
	frames = calloc((size_t)channel.stations * channel.is.limit, sizeof(*frames));
	for (i = 0; i < channel.stations; i++) {
		channel.station[i].room = channel.is.limit;
		channel.station[i].queue = frames + (size_t)i * channel.is.limit;
	}
	next = calloc(channel.stations, sizeof(*next));
	before = calloc(channel.stations, sizeof(*before));
	delays = malloc(MAX_DELAYS * sizeof(*delays));
	channel.station[0].has_beacons = beacons;
	dcf_init(&channel, seed);
	source.random = seed + 1000003;
	warm_up = seconds * 1e8;
	end = seconds * 1e9;
	for (i = 0; i < channel.stations; i++)
		next[i] = mean_gap ? -log(uniform(&source)) * mean_gap : 0;
	for (now = 0; now < end;) {
		struct dcf_frame frame = {.length = length, .peer = receives ? 0 : DCF_ANYBODY, .rate = &rate,
					  .bits = frame_bits, .loss = channel.is.loss};
		u64 soon = dcf_next(&channel);
		u32 who = receives || relays;

		for (; now >= (second + 1) * 1000000000; second++) {
			double jain = jain_since(&channel, receives, before);

			jain_1s += second ? jain : 0;	/* in the first one they begin */
		}
		for (i = who + 1; mean_gap && i < channel.stations; i++)
			if (next[i] < next[who])
				who = i;
		if (mean_gap && next[who] <= soon) {
			now = next[who];
			dropped += !dcf_enqueue(&channel, who, now, frame);
			next[who] += -log(uniform(&source)) * mean_gap;
			continue;
		}
		if (soon != DCF_NEVER)
			dcf_advance(&channel, now = soon);
		for (; relays && brought; brought--)
			dropped += !dcf_enqueue(&channel, 0, now, frame);
		for (i = receives || relays; !mean_gap && i < channel.stations; i++)
			while (channel.station[i].waiting < (frame_bits ? channel.is.limit : 2) &&
			       dcf_enqueue(&channel, i, now, frame))
				;
	}
	printf("{\"each_per_s\": [");
	for (i = receives; i < channel.stations; i++)
		printf("%s%.6f", i > receives ? ", " : "", channel.station[i].delivered / seconds);
	for (i = receives; i < channel.stations; i++) {
		struct dcf_station *station = &channel.station[i];

		sent += station->sent;
		collided += station->collided;
		delivered += station->delivered;
		given_up += station->given_up;
	}
	memset(before, 0, channel.stations * sizeof(*before));
	qsort(delays, counted, sizeof(*delays), by_size);
	for (size_t d = 0; d < counted; d++)
		sum += delays[d];
	printf("], \"delivered_per_s\": %.6f, \"collision_share\": %.6f, \"given_up\": %llu, \"dropped\": %llu,"
	       " \"jain\": %.6f, \"jain_1s\": %.6f, \"delay_mean_us\": %.3f, \"delay_p99_us\": %.3f}\n",
	       delivered / seconds, sent ? (double)collided / sent : 0.0, (unsigned long long)given_up,
	       (unsigned long long)dropped, jain_since(&channel, receives, before),
	       second > 1 ? jain_1s / (second - 1) : 0.0,
	       counted ? sum / counted : 0.0, counted ? delays[counted * 99 / 100] : 0.0);
	return 0;
}
