/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "seal/cipher.h"
#include "seal/packet.c"

/* As OpenSSL 3 computes it, whose AES-128-OCB gives the vectors of RFC 7253 (these have other
 * nonces than a counter makes): keys, text and what stays in clear count up from 0. */
TEST(gcrypt__as_others_have_it)
{
	static const uint8_t want[20] = {0x55, 0x7d, 0x08, 0xac, 0xe4, 0x3d, 0x08,
					 0xdf, 0x3e, 0xa5, 0x90, 0xa5, 0xa3, 0x89,
					 0x71, 0xfb, 0x40, 0x30, 0x5c, 0x7d},
			     tag[16] = {0xf0, 0x0a, 0x07, 0xc6, 0xa3, 0x6c, 0xc1, 0x67,
					0xd6, 0x59, 0x1a, 0xb7, 0xd7, 0xa6, 0x99, 0xe7},
			     tag_of_none[16] = {0xf0, 0x28, 0x00, 0x4d, 0x3c, 0x58, 0x39, 0xf4,
						0xb7, 0x5c, 0xc2, 0x81, 0x24, 0x2a, 0xa8, 0xe9};
	const struct fan_cipher *c = fan_cipher_gcrypt();
	uint8_t count[36], got[20], got_tag[16];
	for (unsigned i = 0; i < sizeof count; i++)
		count[i] = (uint8_t)i;
	struct fan_cipher_text t = {UINT64_C(0x0123456789abcdef), count, sizeof count, sizeof got};
	void *key = c->open(count);
	assert_non_null(key);
	assert_true(c->seal(key, &t, got, count, got_tag));
	assert_memory_equal(got, want, sizeof want);
	assert_memory_equal(got_tag, tag, sizeof tag);
	assert_true(c->unseal(key, &t, got, got_tag));
	assert_memory_equal(got, count, sizeof got);
	t.bytes = 0;
	assert_true(c->seal(key, &t, NULL, NULL, got_tag));
	assert_memory_equal(got_tag, tag_of_none, sizeof tag_of_none);
	c->close(key);
}

enum { AAD = 36, TEXT = 100 };

struct sealed {
	uint8_t aad[AAD], text[TEXT], tag[16];
	uint64_t counter;
};

static bool opens(struct sealed s)
{
	const struct fan_cipher *c = fan_cipher_gcrypt();
	const struct fan_cipher_text t = {s.counter, s.aad, AAD, TEXT};
	void *key = c->open((const uint8_t *)"0123456789abcdef");
	bool good = c->unseal(key, &t, s.text, s.tag);
	c->close(key);
	return good;
}

TEST(gcrypt__every_bit_counts)
{
	const struct fan_cipher *c = fan_cipher_gcrypt();
	struct sealed s = {.counter = UINT64_C(0x123456789a)};
	const struct fan_cipher_text t = {s.counter, s.aad, AAD, TEXT};
	uint8_t clear[TEXT] = "some numbers";
	void *key = c->open((const uint8_t *)"0123456789abcdef");
	assert_true(c->seal(key, &t, s.text, clear, s.tag));
	c->close(key);
	assert_true(opens(s));
	for (unsigned bit = 0; bit < 8 * AAD; bit++) {
		struct sealed other = s;
		other.aad[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(opens(other));
	}
	for (unsigned bit = 0; bit < 8 * TEXT; bit++) {
		struct sealed other = s;
		other.text[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(opens(other));
	}
	for (unsigned bit = 0; bit < 128; bit++) {
		struct sealed other = s;
		other.tag[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(opens(other));
	}
	for (unsigned bit = 0; bit < 64; bit++) {
		struct sealed other = s;
		other.counter ^= UINT64_C(1) << bit;
		assert_false(opens(other));
	}
}

TEST(gcrypt__a_message_without_text_has_a_tag)
{
	const struct fan_cipher *c = fan_cipher_gcrypt();
	uint8_t head[4] = "WHO", tag[16];
	struct fan_cipher_text t = {7, head, sizeof head, 0};
	void *key = c->open((const uint8_t *)"0123456789abcdef");
	assert_true(c->seal(key, &t, NULL, NULL, tag));
	assert_true(c->unseal(key, &t, NULL, tag));
	head[0] = 'X';
	assert_false(c->unseal(key, &t, NULL, tag));
	c->close(key);
}

/* HMAC-SHA-256, test cases 2 and 3 of RFC 4231, and keys in turn: more than are kept ready. */
TEST(gcrypt__macs_under_many_keys)
{
	static const uint8_t second[4] = {0x5b, 0xdc, 0xc1, 0x46},
			     third[4] = {0x77, 0x3e, 0xa9, 0x1e};
	const struct fan_cipher *c = fan_cipher_gcrypt();
	uint8_t first[20][FAN_MAC_BYTES], again[FAN_MAC_BYTES], key[32], data[50];
	memset(key, 0xaa, sizeof key);
	memset(data, 0xdd, sizeof data);
	for (unsigned round = 0; round < 3; round++) {
		c->mac(again, (const uint8_t *)"Jefe", 4,
		       (const uint8_t *)"what do ya want for nothing?", 28);
		assert_memory_equal(again, second, sizeof second);
		c->mac(again, key, 20, data, sizeof data);
		assert_memory_equal(again, third, sizeof third);
		for (uint8_t i = 0; i < 20; i++) {
			uint8_t own[32] = {i};
			c->mac(round ? again : first[i], own, 16 + i % 2 * 16u, data, sizeof data);
			if (round)
				assert_memory_equal(again, first[i], sizeof again);
			for (unsigned k = 0; k < i && !round; k++)
				assert_memory_not_equal(first[i], first[k], FAN_MAC_BYTES);
		}
	}
}

/* RFC 4231, test case 6: a key that is longer than a block. */
TEST(gcrypt__mac_under_a_long_key)
{
	static const uint8_t sixth[4] = {0x60, 0xe4, 0x31, 0x59};
	static const char text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	uint8_t got[FAN_MAC_BYTES], key[131];
	memset(key, 0xaa, sizeof key);
	fan_cipher_gcrypt()->mac(got, key, sizeof key, (const uint8_t *)text, sizeof text - 1);
	assert_memory_equal(got, sixth, sizeof sixth);
}

/* ---- replay ---- */

static struct fan_replay r;

static bool comes(uint64_t counter, uint64_t window)
{
	if (counter_of(&r, (uint32_t)counter) != counter)
		return false;
	if (!is_new(&r, counter, window))
		return false;
	note(&r, counter);
	return true;
}

TEST(replay__each_counter_comes_once)
{
	memset(&r, 0, sizeof r);
	assert_false(comes(0, 1024)); /* is nobody's */
	for (uint64_t n = 1; n <= 3000; n++)
		assert_true(comes(n, 1024));
	for (uint64_t n = 1; n <= 3000; n++)
		assert_false(comes(n, 1024));
}

TEST(replay__late_ones_come_within_the_window)
{
	const uint64_t window[] = {FAN_REPLAY_UP, FAN_REPLAY_DOWN};
	for (unsigned i = 0; i < 2; i++) {
		memset(&r, 0, sizeof r);
		assert_true(comes(10000, window[i]));
		assert_false(comes(10000 - window[i], window[i]));
		assert_true(comes(10000 - window[i] + 1, window[i]));
		assert_false(comes(10000 - window[i] + 1, window[i]));
		assert_true(comes(9999, window[i]));
	}
}

/* As a list of all that has come would say, whatever the order. */
TEST(replay__as_a_list_would_say)
{
	enum { COUNT = 100000 };
	static bool has[COUNT];
	struct fan_rng rng = test_rng();
	uint64_t highest = 0;
	memset(&r, 0, sizeof r);
	memset(has, 0, sizeof has);
	for (unsigned i = 0; i < 200000; i++) {
		uint64_t back = fan_rng_below(&rng, 3000), jump = fan_rng_below(&rng, 40);
		if (fan_rng_below(&rng, 5000) == 0)
			jump = 5000;
		uint64_t n = rng.state & 1 || highest < back ? highest + jump : highest - back;
		if (n >= COUNT)
			break;
		bool want = n > highest || (n && highest - n < 1024 && !has[n]);
		assert_int_equal(comes(n, 1024), want);
		if (want)
			has[n] = true;
		highest = n > highest ? n : highest;
	}
	assert_in_range(highest, 50000, COUNT);
}

TEST(replay__upper_bits_follow_from_what_has_come)
{
	memset(&r, 0, sizeof r);
	note(&r, UINT64_C(0xfffffffe));
	assert_true(comes(UINT64_C(0x100000001), 1024));
	assert_true(comes(UINT64_C(0xffffffff), 1024));
	assert_true(comes(UINT64_C(0x100000000), 1024));
	assert_false(comes(UINT64_C(0xffffffff), 1024));
	memset(&r, 0, sizeof r);
	assert_true(counter_of(&r, UINT32_MAX) == UINT32_MAX); /* none below 0 */
}

UNIT_MAIN
