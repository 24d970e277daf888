// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Triple DES on expanded halves; part of des.c, with whose S-boxes and permutations it works.
 *
 * A round looks up 48 bits of a half: eight groups of six, which overlap. Here a half is kept as these
 * groups, each in a byte of its own, and the S-boxes answer in the same form, so that a round neither
 * masks nor rotates. The key that a half will be looked up with is in it already: it comes with the
 * change of the round before, off the chain that everything else waits for.
 *
 * Of sixty-four blocks together, a group is a vector of bytes, and an S-box one permutation of bytes for
 * each group that its answer goes to, where the processor has that (AVX-512 VBMI).
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

/* A block's halves, and at the end the block of them. */
static __always_inline void take_apart(u64 *l, u64 *r, const u8 *src)
{
	u32 L = get_unaligned_le32(src), R = get_unaligned_le32(src + 4), T;

	IP(L, R, T);
	*l = expand(R);
	*r = expand(L);
}

static __always_inline void put_together(u8 *dst, u64 l, u64 r, u64 key)
{
	u32 L = compress(r), R = compress(l ^ key), T;

	FP(L, R, T);
	put_unaligned_le32(L, dst);
	put_unaligned_le32(R, dst + 4);
}

static __always_inline void lanes_crypt(const u64 *keys, u8 *dst, const u8 *src, int lanes)
{
	u64 l[DES3_LANES], r[DES3_LANES];
	int des, i, n;

	for (n = 0; n < lanes; n++)
		take_apart(&l[n], &r[n], src + n * DES_BLOCK_SIZE);
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
	for (n = 0; n < lanes; n++)
		put_together(dst + n * DES_BLOCK_SIZE, l[n], r[n], *keys);
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

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#define ASKED 6

/* A half's group is changed by the answers of six S-boxes, each asked with one group of the other half. */
static des3_bytes answer[8][ASKED] __ro_after_init;
static u8 asked[8][ASKED] __ro_after_init;

/* Of eight words, the first bytes of all, then the second bytes of all, and so on; twice is nothing. */
static const des3_bytes columns = {
	0, 8, 16, 24, 32, 40, 48, 56, 1, 9, 17, 25, 33, 41, 49, 57, 2, 10, 18, 26, 34, 42, 50, 58,
	3, 11, 19, 27, 35, 43, 51, 59, 4, 12, 20, 28, 36, 44, 52, 60, 5, 13, 21, 29, 37, 45, 53, 61,
	6, 14, 22, 30, 38, 46, 54, 62, 7, 15, 23, 31, 39, 47, 55, 63,
};

static void transpose_words(union des3_wide_half *half)
{
	int a, b;

	for (a = 1; a < 8; a++)
		for (b = 0; b < a; b++)
			swap(half->blocks[8 * a + b], half->blocks[8 * b + a]);
}

WIDE static void transpose_bytes(union des3_wide_half *half)
{
	int i;

	for (i = 0; i < 8; i++)
		half->groups[i] = __builtin_shuffle(half->groups[i], columns);
}

WIDE static void wide_round(const des3_bytes *from, des3_bytes *to, const u64 *key)
{
	const u8 *key_of = (const u8 *)key;
	int i, j;

	for (i = 0; i < 8; i++) {
		des3_bytes changed = to[i] ^ key_of[i];

		for (j = 0; j < ASKED; j++)
			changed ^= __builtin_shuffle(answer[i][j], from[asked[i][j]]);
		to[i] = changed;
	}
}

void des3_wide_take_apart(struct des3_wide *wide, const u8 *src, int blocks)
{
	int n;

	for (n = 0; n < blocks; n++, src += DES_BLOCK_SIZE)
		take_apart(&wide->l.blocks[n], &wide->r.blocks[n], src);
}
EXPORT_SYMBOL_GPL(des3_wide_take_apart);

WIDE void des3_wide_rounds(const u64 *keys, struct des3_wide *wide)
{
	des3_bytes *l = wide->l.groups, *r = wide->r.groups;
	int des, i;

	transpose_bytes(&wide->l);
	transpose_bytes(&wide->r);
	transpose_words(&wide->l);
	transpose_words(&wide->r);
	for (des = 0; des < 3; des++) {
		const u8 *key_of = (const u8 *)keys++;

		for (i = 0; i < 8; i++) {
			des3_bytes next = l[i] ^ key_of[i];

			l[i] = r[i];
			r[i] = next;
		}
		for (i = 0; i < 8; i++, keys += 2) {
			wide_round(r, l, &keys[0]);
			wide_round(l, r, &keys[1]);
		}
	}
	transpose_words(&wide->l);
	transpose_words(&wide->r);
	transpose_bytes(&wide->l);
	transpose_bytes(&wide->r);
}
EXPORT_SYMBOL_GPL(des3_wide_rounds);

u64 des3_wide_put_together(const u64 *keys, const struct des3_wide *wide, int block)
{
	u64 whole;

	put_together((u8 *)&whole, wide->l.blocks[block], wide->r.blocks[block],
		     keys[DES3_LANES_KEY_WORDS - 1]);
	return whole;
}
EXPORT_SYMBOL_GPL(des3_wide_put_together);

bool des3_wide_is_possible(void)
{
	return __builtin_cpu_supports("avx512vbmi");
}
EXPORT_SYMBOL_GPL(des3_wide_is_possible);

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

/* Note what the S-box that group `from` asks changes of group `to`, as the n-th that does; if it does. */
static bool __init note_answer(int to, int n, int from)
{
	u8 any = 0;
	int i;

	for (i = 0; i < 64; i++)
		any |= box[from][i] >> (8 * to);
	if (!any)
		return false;
	BUG_ON(n == ASKED);
	asked[to][n] = from;
	for (i = 0; i < 64; i++)
		answer[to][n][i] = box[from][i] >> (8 * to);
	return true;
}

static int __init des3_lanes_init(void)
{
	/* In the order of their groups in an expanded half. */
	static const u32 *const boxes[8] __initconst = { S8, S6, S4, S2, S7, S5, S3, S1 };
	int i, j, to, n;

	for (i = 0; i < 8; i++)
		for (j = 0; j < 64; j++)
			box[i][j] = expand(boxes[i][j]);
	for (to = 0; to < 8; to++)
		for (i = 0, n = 0; i < 8; i++)
			n += note_answer(to, n, i);
	return 0;
}
subsys_initcall(des3_lanes_init);
