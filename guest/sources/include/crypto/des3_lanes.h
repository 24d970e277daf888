/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triple DES of one block, or of four or sixty-four side by side: a block's rounds are one long chain,
 * in whose waits a processor can do another's, and a vector of them in the time of one.
 */
#ifndef _CRYPTO_DES3_LANES_H
#define _CRYPTO_DES3_LANES_H

#include <crypto/des.h>
#include <linux/types.h>

#define DES3_LANES		4
#define DES3_WIDE		64
/* Three times 16 rounds, each DES with a word before it; the last word is the end's. */
#define DES3_LANES_KEY_WORDS	(3 * (16 + 1) + 1)

struct des3_lanes_key {
	u64 encrypt[DES3_LANES_KEY_WORDS];
	u64 decrypt[DES3_LANES_KEY_WORDS];
};

typedef u8 des3_bytes __attribute__((vector_size(DES3_WIDE)));

/* The halves of many blocks, as a word for each block, or a vector for each group of six bits. */
union des3_wide_half {
	u64 blocks[DES3_WIDE];
	des3_bytes groups[8];
};

struct des3_wide {
	union des3_wide_half l, r;
};

void des3_lanes_expand_key(struct des3_lanes_key *key, const struct des3_ede_ctx *ctx);

/* keys: a struct des3_lanes_key's for one direction. dst may be src. */
void des3_lanes_one(const u64 *keys, u8 *dst, const u8 *src);
void des3_lanes_four(const u64 *keys, u8 *dst, const u8 *src);

/* Sixty-four blocks, in three steps, of which the second takes the time; only where it is possible. */
bool des3_wide_is_possible(void);
void des3_wide_take_apart(struct des3_wide *wide, const u8 *src, int blocks);
void des3_wide_rounds(const u64 *keys, struct des3_wide *wide);
u64 des3_wide_put_together(const u64 *keys, const struct des3_wide *wide, int block);

#endif
