/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "seal/cipher_gcrypt.h"
#include "seal/hkdf.h"

/* RFC 5869, test case 1: the first 32 bytes of its OKM. */
static void hkdf__as_published(void **state)
{
	(void)state;
	static const uint8_t okm[32] = {0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a,
					0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36, 0x2f, 0x2a,
					0x2d, 0x2d, 0x0a, 0x90, 0xcf, 0x1a, 0x5a, 0x4c,
					0x5d, 0xb0, 0x2d, 0x56, 0xec, 0xc4, 0xc5, 0xbf};
	uint8_t key[22], salt[13], info[10], got[32];
	memset(key, 0x0b, sizeof key);
	for (unsigned i = 0; i < sizeof salt; i++)
		salt[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof info; i++)
		info[i] = (uint8_t)(0xf0 + i);
	fan_hkdf(fan_cipher_gcrypt(), got, sizeof got, salt, sizeof salt, key, sizeof key, info,
		 sizeof info);
	assert_memory_equal(got, okm, sizeof okm);
}

static void tenant__is_the_name_up_to_the_first_slash(void **state)
{
	(void)state;
	assert_int_equal(fan_tenant_bytes("alice", 5), 5);
	assert_int_equal(fan_tenant_bytes("alice/run/7", 11), 5);
	assert_int_equal(fan_tenant_bytes("alice#meet", 10), 5);
	assert_int_equal(fan_tenant_bytes("alice!3/c1", 10), 5);
	assert_int_equal(fan_tenant_bytes("/x", 2), 0);
	assert_int_equal(fan_tenant_bytes("alice/run/7", 3), 3);
}

static void tenant_key__differs_by_tenant_and_fabric(void **state)
{
	(void)state;
	const struct fan_cipher *c = fan_cipher_gcrypt();
	const uint8_t f[2][32] = {{1}, {2}};
	uint8_t key[4][32];
	fan_tenant_key(c, key[0], f[0], "alice", 5);
	fan_tenant_key(c, key[1], f[0], "alic", 4);
	fan_tenant_key(c, key[2], f[1], "alice", 5);
	fan_tenant_key(c, key[3], f[0], "bob", 3);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < i; k++)
			assert_memory_not_equal(key[i], key[k], 32);
}

/* Whatever differs in the life of a rank, its keys differ. */
static void traffic__keys_differ_by_all_that_they_are_made_of(void **state)
{
	(void)state;
	enum { KEYS = 10 };
	const struct fan_cipher *c = fan_cipher_gcrypt();
	const uint8_t a[32] = {1}, b[32] = {2};
	const struct fan_traffic t = {.job = 1, .epoch = 2, .salt = {3}};
	struct fan_traffic job = t, epoch = t, salt = t;
	uint8_t key[KEYS][16];
	job.job++;
	epoch.epoch++;
	salt.salt[15]++;
	fan_traffic_down(c, key[0], a, &t);
	fan_traffic_down(c, key[1], b, &t);
	fan_traffic_down(c, key[2], a, &job);
	fan_traffic_down(c, key[3], a, &epoch);
	fan_traffic_down(c, key[4], a, &salt);
	fan_traffic_up(c, key[5], a, &t, 0, 9);
	fan_traffic_up(c, key[6], a, &t, 1, 9);
	fan_traffic_up(c, key[7], a, &t, 0, 10);
	fan_traffic_up(c, key[8], a, &epoch, 0, 9);
	fan_traffic_up(c, key[9], a, &salt, 0, 9);
	for (unsigned i = 0; i < KEYS; i++)
		for (unsigned k = 0; k < i; k++)
			assert_memory_not_equal(key[i], key[k], 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hkdf__as_published),
		cmocka_unit_test(tenant__is_the_name_up_to_the_first_slash),
		cmocka_unit_test(tenant_key__differs_by_tenant_and_fabric),
		cmocka_unit_test(traffic__keys_differ_by_all_that_they_are_made_of),
	};
	return RUN(tests);
}
