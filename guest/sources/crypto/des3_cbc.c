// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cbc(des3_ede), what IPsec takes: whole packets at once instead of two calls a block, and decryption
 * of four blocks side by side (a block's encryption waits for the one before).
 */

#include <crypto/algapi.h>
#include <crypto/des3_lanes.h>
#include <crypto/internal/des.h>
#include <crypto/internal/skcipher.h>
#include <linux/module.h>
#include <linux/unaligned.h>

#define BLOCK DES3_EDE_BLOCK_SIZE

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

static int des3_cbc_decrypt(struct skcipher_request *req)
{
	const struct des3_lanes_key *key = crypto_skcipher_ctx(crypto_skcipher_reqtfm(req));
	struct skcipher_walk walk;
	int err = skcipher_walk_virt(&walk, req, false);

	while (walk.nbytes) {
		const u8 *src = walk.src.virt.addr;
		u8 *dst = walk.dst.virt.addr;
		unsigned int left = walk.nbytes;
		u64 last = get(walk.iv);

		while (left >= BLOCK) {
			int i, n = left >= DES3_LANES * BLOCK ? DES3_LANES : 1;
			u64 opened[DES3_LANES];

			if (n == 1)
				des3_lanes_one(key->decrypt, (u8 *)opened, src);
			else
				des3_lanes_four(key->decrypt, (u8 *)opened, src);
			for (i = 0; i < n; i++, src += BLOCK, dst += BLOCK) {
				u64 sealed = get(src); /* dst may be src */

				put(opened[i] ^ last, dst);
				last = sealed;
			}
			left -= n * BLOCK;
		}
		put(last, walk.iv);
		err = skcipher_walk_done(&walk, left);
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
	return crypto_register_skcipher(&des3_cbc);
}
module_init(des3_cbc_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Triple DES in CBC mode, four blocks side by side");
MODULE_ALIAS_CRYPTO("cbc(des3_ede)");
