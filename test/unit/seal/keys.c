/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: from files, and from other keys. */
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seal/cipher.h"
#include "seal/hkdf.h"
#include "seal/key_file.h"

/* ---- key_file ---- */

static struct fan_keys k;
static char why[512];

static int text(const char *t)
{
	why[0] = '\0';
	return fan_key_text_read(&k, t, strlen(t), "f", why, sizeof why);
}

static void expect_wrong(const char *t, const char *says)
{
	assert_int_equal(text(t), -1);
	if (!strstr(why, says))
		fail_msg("expected \"%s\" in \"%s\"", says, why);
}

#define HEX "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

TEST(key__in_hex_and_in_base64_are_the_same)
{
	uint8_t first[FAN_KEY_BYTES];
	assert_int_equal(text("# what it is\n\n" HEX "\r\n"), 0);
	assert_int_equal(k.count, 1);
	for (unsigned i = 0; i < FAN_KEY_BYTES; i++)
		assert_int_equal(k.key[0][i], 0x11 * (i % 16));
	memcpy(first, k.key[0], sizeof first);
	assert_int_equal(text("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8="), 0);
	assert_memory_equal(k.key[0], first, sizeof first);
}

TEST(key__of_another_length_is_refused)
{
	expect_wrong(HEX "0", "f:1: 65 characters: expected a key of 64 hexadecimal digits");
	expect_wrong("\n00112233\n", "f:2: 8 characters");
	expect_wrong("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8", "f:1: 43 characters");
	expect_wrong("# nothing\n", "no key in it");
	expect_wrong("", "no key in it");
}

TEST(key__of_other_characters_is_refused)
{
	expect_wrong("0011223344556677x899aabbccddeeff00112233445566778899aabbccddeeff",
		     "f:1: 64 characters");
	expect_wrong("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8.", "f:1: 44 characters");
	expect_wrong("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v9=", "f:1: 44 characters");
	expect_wrong("0000000000000000000000000000000000000000000000000000000000000000",
		     "not all zero");
}

TEST(key__two_are_current_and_former_three_too_many)
{
	assert_int_equal(text(HEX "\nABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=\n"), 0);
	assert_int_equal(k.count, 2);
	assert_memory_equal(k.key[0], k.key[1], FAN_KEY_BYTES);
	expect_wrong(HEX "\n" HEX "\n" HEX "\n", "f:3: expected at most 2 keys");
}

/* What is wrong is said without what may be most of a key. */
TEST(key__no_error_tells_it)
{
	expect_wrong(HEX "0", "expected a key");
	assert_null(strstr(why, "0011"));
}

static void file(const char *content, mode_t mode, const char *says)
{
	char path[] = "/tmp/fanin-key-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	fchmod(fd, mode);
	close(fd);
	int e = fan_key_file_read(&k, path, why, sizeof why);
	unlink(path);
	assert_int_equal(e, says ? -1 : 0);
	if (says && !strstr(why, says))
		fail_msg("expected \"%s\" in \"%s\"", says, why);
}

TEST(key_file__is_its_owners_alone)
{
	char big[FAN_KEY_FILE_BYTES_MAX + 2];
	file(HEX "\n", 0600, NULL);
	file(HEX "\n", 0400, NULL);
	file(HEX "\n", 0644, "others have access to it (mode 0644)");
	file(HEX "\n", 0620, "chmod 600");
	memset(big, '\n', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	file(big, 0600, "at most 4096 bytes");
	assert_int_equal(fan_key_file_read(&k, "/tmp/fanin/no/such", why, sizeof why), -1);
	assert_non_null(strstr(why, "No such file"));
	assert_int_equal(fan_key_file_read(&k, "/tmp", why, sizeof why), -1);
	assert_non_null(strstr(why, "expected a regular file"));
}

TEST(key_text__is_read_back)
{
	char hex[FAN_KEY_TEXT_BYTES];
	uint8_t key[FAN_KEY_BYTES];
	for (unsigned i = 0; i < sizeof key; i++)
		key[i] = (uint8_t)(i * 37 + 1);
	fan_key_text(hex, key);
	assert_int_equal(text(hex), 0);
	assert_memory_equal(k.key[0], key, sizeof key);
}

/* ---- hkdf ---- */

/* RFC 5869, test case 1: the first 32 bytes of its OKM. */
TEST(hkdf__as_published)
{
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

TEST(tenant__is_the_name_up_to_the_first_slash)
{
	assert_int_equal(fan_tenant_bytes("alice", 5), 5);
	assert_int_equal(fan_tenant_bytes("alice/run/7", 11), 5);
	assert_int_equal(fan_tenant_bytes("alice#meet", 10), 5);
	assert_int_equal(fan_tenant_bytes("alice!3/c1", 10), 5);
	assert_int_equal(fan_tenant_bytes("/x", 2), 0);
	assert_int_equal(fan_tenant_bytes("alice/run/7", 3), 3);
}

TEST(tenant_key__differs_by_tenant_and_fabric)
{
	const struct fan_cipher *c = fan_cipher_gcrypt();
	const uint8_t f[2][32] = {{1}, {2}};
	uint8_t key[4][32];
	fan_tenant_key(c, key[0], f[0], "alice", 5);
	fan_tenant_key(c, key[1], f[0], "alic", 4);
	fan_tenant_key(c, key[2], f[1], "alice", 5);
	fan_tenant_key(c, key[3], f[0], "bob", 3);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < i; j++)
			assert_memory_not_equal(key[i], key[j], 32);
}

/* Whatever differs in the life of a rank, its keys differ. */
TEST(traffic__keys_differ_by_all_that_they_are_made_of)
{
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
		for (unsigned j = 0; j < i; j++)
			assert_memory_not_equal(key[i], key[j], 16);
}

UNIT_MAIN
