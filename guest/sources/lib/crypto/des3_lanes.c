// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Triple DES on expanded halves; part of des.c, with whose S-boxes and permutations it works.
 *
 * A round looks up 48 bits of a half: eight groups of six, which overlap. Here a half is kept as these
 * groups, each in a byte of its own, and the S-boxes answer in the same form, so that a round neither
 * masks nor rotates. The key that a half will be looked up with is in it already: it comes with the
 * change of the round before, off the chain that everything else waits for.
 */

#include <crypto/des3_lanes.h>

#define GROUPS 0x3f3f3f3f3f3f3f3fULL

static u64 box[8][64] __ro_after_init;

static u64 expand(u32 half)
{
	return (half | (u64)ror32(half, 4) << 32) & GROUPS;
}

static u32 compress(u64 half)
{
	return (u32)half | rol32(half >> 32, 4);
}

/* What `to` becomes by `from`, and by `key`, which it is looked up with next. */
static __always_inline u64 lane_round(u64 from, u64 to, u64 key)
{
	u64 a, b, c;

	to ^= key;
	a = box[0][(u8)from] ^ box[1][(u8)(from >> 8)];
	b = box[2][(u8)(from >> 16)] ^ box[3][(u8)(from >> 24)];
	c = box[4][(u8)(from >> 32)] ^ box[5][(u8)(from >> 40)];
	to ^= box[6][(u8)(from >> 48)];
	to ^= a;
	to ^= b ^ c;
	return to ^ box[7][(u8)(from >> 56)];
}

static __always_inline void lanes_crypt(const u64 *keys, u8 *dst, const u8 *src, int lanes)
{
	u64 l[DES3_LANES], r[DES3_LANES];
	u32 L, R, T;
	int des, i, n;

	for (n = 0; n < lanes; n++) {
		L = get_unaligned_le32(src + n * DES_BLOCK_SIZE);
		R = get_unaligned_le32(src + n * DES_BLOCK_SIZE + 4);
		IP(L, R, T);
		l[n] = expand(R);
		r[n] = expand(L);
	}
	for (des = 0; des < 3; des++) {
		for (n = 0; n < lanes; n++) {
			u64 next = l[n] ^ *keys;

			l[n] = r[n];
			r[n] = next;
		}
		keys++;
		for (i = 0; i < 8; i++, keys += 2) {
			for (n = 0; n < lanes; n++)
				l[n] = lane_round(r[n], l[n], keys[0]);
			for (n = 0; n < lanes; n++)
				r[n] = lane_round(l[n], r[n], keys[1]);
		}
	}
	for (n = 0; n < lanes; n++) {
		L = compress(r[n]);
		R = compress(l[n] ^ *keys);
		FP(L, R, T);
		put_unaligned_le32(L, dst + n * DES_BLOCK_SIZE);
		put_unaligned_le32(R, dst + n * DES_BLOCK_SIZE + 4);
	}
}

void des3_lanes_one(const u64 *keys, u8 *dst, const u8 *src)
{
	lanes_crypt(keys, dst, src, 1);
}
EXPORT_SYMBOL_GPL(des3_lanes_one);

void des3_lanes_four(const u64 *keys, u8 *dst, const u8 *src)
{
	lanes_crypt(keys, dst, src, DES3_LANES);
}
EXPORT_SYMBOL_GPL(des3_lanes_four);

/*
 * Each half holds the key of the round that looks it up next. That is the next but one round for the half
 * that a DES changes last: the other one is looked up on both sides of where two DES meet.
 */
static void fold_keys(u64 *folded, const u64 *round)
{
	u64 in_l = 0, in_r = 0;
	int des, i, n = 0;

	for (des = 0; des < 3; des++) {
		u64 in_next = in_l;

		in_l = in_r;
		in_r = round[n];
		*folded++ = in_next ^ in_r;
		for (i = 0; i < 16; i++, n++) {
			u64 *held = i % 2 ? &in_r : &in_l;
			int next = i < 15 ? n + 1 : n + 2;
			u64 key = next < 48 ? round[next] : 0;

			*folded++ = *held ^ key;
			*held = key;
		}
	}
	*folded = in_l;
}

void des3_lanes_expand_key(struct des3_lanes_key *key, const struct des3_ede_ctx *ctx)
{
	u64 forward[48], backward[48];
	int i;

	for (i = 0; i < 48; i++) {
		u64 round = ctx->expkey[2 * i] | (u64)ror32(ctx->expkey[2 * i + 1], 4) << 32;

		forward[i] = backward[47 - i] = round & GROUPS;
	}
	fold_keys(key->encrypt, forward);
	fold_keys(key->decrypt, backward);
	memzero_explicit(forward, sizeof(forward));
	memzero_explicit(backward, sizeof(backward));
}
EXPORT_SYMBOL_GPL(des3_lanes_expand_key);

static int __init des3_lanes_init(void)
{
	/* In the order of their groups in an expanded half. */
	static const u32 *const boxes[8] __initconst = { S8, S6, S4, S2, S7, S5, S3, S1 };
	int i, j;

	for (i = 0; i < 8; i++)
		for (j = 0; j < 64; j++)
			box[i][j] = expand(boxes[i][j]);
	return 0;
}
subsys_initcall(des3_lanes_init);
