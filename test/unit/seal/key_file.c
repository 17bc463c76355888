/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "seal/key_file.h"

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

static void key__in_hex_and_in_base64_are_the_same(void **state)
{
	(void)state;
	uint8_t first[FAN_KEY_BYTES];
	assert_int_equal(text("# what it is\n\n" HEX "\r\n"), 0);
	assert_int_equal(k.count, 1);
	for (unsigned i = 0; i < FAN_KEY_BYTES; i++)
		assert_int_equal(k.key[0][i], 0x11 * (i % 16));
	memcpy(first, k.key[0], sizeof first);
	assert_int_equal(text("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8="), 0);
	assert_memory_equal(k.key[0], first, sizeof first);
}

static void key__of_another_length_is_refused(void **state)
{
	(void)state;
	expect_wrong(HEX "0", "f:1: 65 characters: expected a key of 64 hexadecimal digits");
	expect_wrong("\n00112233\n", "f:2: 8 characters");
	expect_wrong("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8", "f:1: 43 characters");
	expect_wrong("# nothing\n", "no key in it");
	expect_wrong("", "no key in it");
}

static void key__of_other_characters_is_refused(void **state)
{
	(void)state;
	expect_wrong("0011223344556677x899aabbccddeeff00112233445566778899aabbccddeeff",
		     "f:1: 64 characters");
	expect_wrong("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8.", "f:1: 44 characters");
	expect_wrong("ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v9=", "f:1: 44 characters");
	expect_wrong("0000000000000000000000000000000000000000000000000000000000000000",
		     "not all zero");
}

static void key__two_are_current_and_former_three_too_many(void **state)
{
	(void)state;
	assert_int_equal(text(HEX "\nABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8=\n"), 0);
	assert_int_equal(k.count, 2);
	assert_memory_equal(k.key[0], k.key[1], FAN_KEY_BYTES);
	expect_wrong(HEX "\n" HEX "\n" HEX "\n", "f:3: expected at most 2 keys");
}

/* What is wrong is said without what may be most of a key. */
static void key__no_error_tells_it(void **state)
{
	(void)state;
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

static void key_file__is_its_owners_alone(void **state)
{
	(void)state;
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

static void key_text__is_read_back(void **state)
{
	(void)state;
	char hex[FAN_KEY_TEXT_BYTES];
	uint8_t key[FAN_KEY_BYTES];
	for (unsigned i = 0; i < sizeof key; i++)
		key[i] = (uint8_t)(i * 37 + 1);
	fan_key_text(hex, key);
	assert_int_equal(text(hex), 0);
	assert_memory_equal(k.key[0], key, sizeof key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__in_hex_and_in_base64_are_the_same),
		cmocka_unit_test(key__of_another_length_is_refused),
		cmocka_unit_test(key__of_other_characters_is_refused),
		cmocka_unit_test(key__two_are_current_and_former_three_too_many),
		cmocka_unit_test(key__no_error_tells_it),
		cmocka_unit_test(key_file__is_its_owners_alone),
		cmocka_unit_test(key_text__is_read_back),
	};
	return RUN(tests);
}
