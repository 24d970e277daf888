/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CRC-32 of eight bytes at once, by a table for each place among them: WEP takes it of every frame, twice.
 */

#include <linux/unaligned.h>

static u32 crc32_slices[8][256] __ro_after_init;

static u32 crc32_le_arch(u32 crc, const u8 *p, size_t len)
{
	/* Before there are tables it is done byte by byte. */
	for (; len >= 8 && crc32_slices[7][1]; len -= 8, p += 8) {
		u64 eight = get_unaligned_le64(p) ^ crc;
		int i;

		crc = 0;
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			crc ^= crc32_slices[7 - i][(u8)(eight >> 8 * i)];
	}
	return crc32_le_base(crc, p, len);
}

#define crc32_be_arch crc32_be_base
#define crc32c_arch crc32c_base

#define crc32_mod_init_arch crc32_mod_init_arch
static void __init crc32_mod_init_arch(void)
{
	int i, j;

	/* The one that says that they are there comes last. */
	for (i = 255; i > 0; i--)
		for (j = 0; j < 8; j++)
			crc32_slices[j][i] = j ? crc32_slices[j - 1][i] >> 8 ^
				crc32table_le[(u8)crc32_slices[j - 1][i]] : crc32table_le[i];
}

static inline u32 crc32_optimizations_arch(void)
{
	return CRC32_LE_OPTIMIZATION;
}
