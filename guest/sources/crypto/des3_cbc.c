// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cbc(des3_ede), what IPsec takes: whole packets at once instead of two calls a block, and where the
 * guest's time is not the host's, decryption of four blocks side by side (a block's encryption waits
 * for the one before). Devices do one block after the other, so by the processor clock decryption is
 * charged as that: by how much longer it takes, which is measured as the guest starts.
 */

#include <crypto/algapi.h>
#include <crypto/des3_lanes.h>
#include <crypto/internal/des.h>
#include <crypto/internal/skcipher.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/unaligned.h>
#include <net/processor_clock.h>
#include <timetravel.h>

#define BLOCK DES3_EDE_BLOCK_SIZE
#define TRIALS 15

static int lanes __ro_after_init = 1;

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

/* Opens so many bytes, whole blocks; the last sealed block. `dst` may be `src`. */
static u64 open_blocks(const u64 *keys, u8 *dst, const u8 *src, unsigned int bytes, u64 last, int side)
{
	while (bytes) {
		int i, n = bytes >= side * BLOCK ? side : 1;
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
		bytes -= n * BLOCK;
	}
	return last;
}

static int des3_cbc_decrypt(struct skcipher_request *req)
{
	const struct des3_lanes_key *key = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	struct skcipher_walk walk;
	int err = skcipher_walk_virt(&walk, req, false);

	while (walk.nbytes) {
		unsigned int bytes = round_down(walk.nbytes, BLOCK);
		u32 before = work_weigh(processor_lanes_permille);

		put(open_blocks(key->decrypt, walk.dst.virt.addr, walk.src.virt.addr, bytes,
				get(walk.iv), lanes), walk.iv);
		work_weigh(before);
		err = skcipher_walk_done(&walk, walk.nbytes - bytes);
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

static u64 __init trial(const struct des3_lanes_key *key, u8 *data, int side)
{
	u64 begin = __builtin_ia32_rdtsc();

	open_blocks(key->decrypt, data, data, SZ_4K, 0, side);
	return __builtin_ia32_rdtsc() - begin;
}

/* How much longer one block after the other takes, both undisturbed. */
static void __init weigh_lanes(void)
{
	static struct des3_lanes_key key __initdata;
	static u8 data[SZ_4K] __initdata;
	u64 one = U64_MAX, side_by_side = U64_MAX;
	int i;

	for (i = 0; i < TRIALS; i++) {
		one = min(one, trial(&key, data, 1));
		side_by_side = min(side_by_side, trial(&key, data, lanes));
	}
	processor_lanes_permille = one * 1000 / side_by_side;
}

static int __init des3_cbc_init(void)
{
	if (time_travel_mode != TT_MODE_OFF)
		lanes = DES3_LANES;
	if (processor_clock)
		weigh_lanes();
	return crypto_register_skcipher(&des3_cbc);
}
module_init(des3_cbc_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Triple DES in CBC mode, four blocks side by side");
MODULE_ALIAS_CRYPTO("cbc(des3_ede)");
