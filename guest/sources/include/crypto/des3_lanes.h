/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Triple DES of one block, or of four side by side: a block's rounds are one long chain, in whose
 * waits a processor can do another's.
 */
#ifndef _CRYPTO_DES3_LANES_H
#define _CRYPTO_DES3_LANES_H

#include <crypto/des.h>
#include <linux/types.h>

#define DES3_LANES		4
/* Three times 16 rounds, each DES with a word before it; the last word is the end's. */
#define DES3_LANES_KEY_WORDS	(3 * (16 + 1) + 1)

struct des3_lanes_key {
	u64 encrypt[DES3_LANES_KEY_WORDS];
	u64 decrypt[DES3_LANES_KEY_WORDS];
};

void des3_lanes_expand_key(struct des3_lanes_key *key, const struct des3_ede_ctx *ctx);

/* keys: a struct des3_lanes_key's for one direction. dst may be src. */
void des3_lanes_one(const u64 *keys, u8 *dst, const u8 *src);
void des3_lanes_four(const u64 *keys, u8 *dst, const u8 *src);

#endif
