// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cbc(des3_ede), what IPsec takes: whole packets at once instead of two calls a block, and where the
 * guest's time is not the host's, decryption of many blocks side by side (a block's encryption waits
 * for the one before). Devices do one block after the other, so by the processor clock decryption is
 * charged as that: by what the first blocks of each packet take so.
 */

#include <crypto/algapi.h>
#include <crypto/des3_lanes.h>
#include <crypto/internal/des.h>
#include <crypto/internal/skcipher.h>
#include <linux/module.h>
#include <linux/unaligned.h>
#include <net/processor_clock.h>
#include <timetravel.h>

#define BLOCK DES3_EDE_BLOCK_SIZE
/* So many blocks are timed, twice; with fewer than this after them, side by side is no gain. */
#define TIMED 4
#define WORTH_IT (4 * TIMED)
/* Fewer blocks than this take longer as a part of sixty-four. */
#define WORTH_WIDE 12

static bool has_wide __ro_after_init;

static int des3_cbc_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int keylen)
{
	struct des3_ede_ctx expanded;
	int err = des3_ede_expand_key(&expanded, key, keylen);

	if (err == -ENOKEY) {
		bool forbidden = crypto_skcipher_get_flags(tfm) & CRYPTO_TFM_REQ_FORBID_WEAK_KEYS;

		err = forbidden ? -EINVAL : 0;
	}
	if (!err)
		des3_lanes_expand_key(crypto_skcipher_ctx(tfm), &expanded);
	memzero_explicit(&expanded, sizeof(expanded));
	return err;
}

static u64 get(const u8 *block)
{
	return get_unaligned((const u64 *)block);
}

static void put(u64 value, u8 *block)
{
	put_unaligned(value, (u64 *)block);
}

static int des3_cbc_encrypt(struct skcipher_request *req)
{
	const struct des3_lanes_key *key = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	struct skcipher_walk walk;
	int err = skcipher_walk_virt(&walk, req, false);

	while (walk.nbytes) {
		const u8 *src = walk.src.virt.addr;
		u8 *dst = walk.dst.virt.addr;
		unsigned int left = walk.nbytes;
		u64 last = get(walk.iv);

		for (; left >= BLOCK; left -= BLOCK, src += BLOCK, dst += BLOCK) {
			last ^= get(src);
			des3_lanes_one(key->encrypt, (u8 *)&last, (u8 *)&last);
			put(last, dst);
		}
		put(last, walk.iv);
		err = skcipher_walk_done(&walk, left);
	}
	return err;
}

/* Opens so many blocks; the last sealed one. `dst` may be `src`, here and below. */
static u64 open_lanes(const u64 *keys, u8 *dst, const u8 *src, int blocks, u64 last, int side)
{
	while (blocks) {
		int i, n = blocks >= side ? side : 1;
		u64 opened[DES3_LANES];

		if (n == 1)
			des3_lanes_one(keys, (u8 *)opened, src);
		else
			des3_lanes_four(keys, (u8 *)opened, src);
		for (i = 0; i < n; i++, src += BLOCK, dst += BLOCK) {
			u64 sealed = get(src);

			put(opened[i] ^ last, dst);
			last = sealed;
		}
		blocks -= n;
	}
	return last;
}

/* The same of up to sixty-four at once. */
static u64 open_wide(const u64 *keys, u8 *dst, const u8 *src, int blocks, u64 last)
{
	struct des3_wide wide;
	int i;

	des3_wide_take_apart(&wide, src, blocks);
	des3_wide_rounds(keys, &wide);
	for (i = 0; i < blocks; i++, src += BLOCK, dst += BLOCK) {
		u64 sealed = get(src);

		put(des3_wide_put_together(keys, &wide, i) ^ last, dst);
		last = sealed;
	}
	return last;
}

static u64 open_side_by_side(const u64 *keys, u8 *dst, const u8 *src, int blocks, u64 last)
{
	while (has_wide && blocks >= WORTH_WIDE) {
		int n = min(blocks, DES3_WIDE);

		last = open_wide(keys, dst, src, n, last);
		blocks -= n;
		src += n * BLOCK;
		dst += n * BLOCK;
	}
	return open_lanes(keys, dst, src, blocks, last, DES3_LANES);
}

/*
 * The first blocks one after the other, as a device does; by the processor clock all others count for as
 * much each. Of two times the lesser: something else may have come into one.
 */
static u64 open_blocks(const u64 *keys, u8 *dst, const u8 *src, int blocks, u64 last)
{
	u64 taken = U64_MAX;
	int i;

	if (time_travel_mode == TT_MODE_OFF || blocks < WORTH_IT)
		return open_lanes(keys, dst, src, blocks, last, 1);
	for (i = 0; i < 2; i++, blocks -= TIMED, src += TIMED * BLOCK, dst += TIMED * BLOCK) {
		u64 begin = __builtin_ia32_rdtsc();

		last = open_lanes(keys, dst, src, TIMED, last, 1);
		taken = min(taken, __builtin_ia32_rdtsc() - begin);
	}
	work_replaced();
	last = open_side_by_side(keys, dst, src, blocks, last);
	work_counts_as(taken * blocks / TIMED);
	return last;
}

static int des3_cbc_decrypt(struct skcipher_request *req)
{
	const struct des3_lanes_key *key = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	struct skcipher_walk walk;
	int err = skcipher_walk_virt(&walk, req, false);

	while (walk.nbytes) {
		put(open_blocks(key->decrypt, walk.dst.virt.addr, walk.src.virt.addr,
				walk.nbytes / BLOCK, get(walk.iv)), walk.iv);
		err = skcipher_walk_done(&walk, walk.nbytes % BLOCK);
	}
	return err;
}

static struct skcipher_alg des3_cbc = {
	.base.cra_name		= "cbc(des3_ede)",
	.base.cra_driver_name	= "cbc-des3_ede-lanes",
	.base.cra_priority	= 200,
	.base.cra_blocksize	= BLOCK,
	.base.cra_ctxsize	= sizeof(struct des3_lanes_key),
	.base.cra_module	= THIS_MODULE,
	.min_keysize		= DES3_EDE_KEY_SIZE,
	.max_keysize		= DES3_EDE_KEY_SIZE,
	.ivsize			= BLOCK,
	.setkey			= des3_cbc_setkey,
	.encrypt		= des3_cbc_encrypt,
	.decrypt		= des3_cbc_decrypt,
};

static int __init des3_cbc_init(void)
{
	has_wide = des3_wide_is_possible();
	return crypto_register_skcipher(&des3_cbc);
}
module_init(des3_cbc_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Triple DES in CBC mode, decrypted side by side");
MODULE_ALIAS_CRYPTO("cbc(des3_ede)");
