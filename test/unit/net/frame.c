/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <arpa/inet.h>

#include "net/frame.h"
#include "net/udp.h"

#define DATA_BYTES 37 /* odd, so that the last word is not whole */

struct frame {
	uint8_t byte[128];
	size_t bytes, ip, udp; /* offsets of the headers */
};

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* As RFC 1071 has it, two bytes at a time. */
static unsigned sum(const uint8_t *p, size_t bytes, unsigned begin)
{
	unsigned s = begin;

	for (size_t i = 0; i < bytes; i++)
		s += i % 2 ? p[i] : p[i] * 256u;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

static unsigned pseudo(const struct frame *f)
{
	bool four = f->udp - f->ip == 20;
	unsigned bytes = f->byte[f->udp + 4] * 256u + f->byte[f->udp + 5];

	return sum(f->byte + f->ip + (four ? 12 : 8), four ? 8 : 32, 17 + bytes);
}

/* Make the sums of a frame right again. */
static void finish(struct frame *f)
{
	unsigned bytes = f->byte[f->udp + 4] * 256u + f->byte[f->udp + 5];

	if (f->udp - f->ip == 20) {
		put16(f->byte + f->ip + 10, 0);
		put16(f->byte + f->ip + 10, 0xffff - sum(f->byte + f->ip, 20, 0));
	}
	put16(f->byte + f->udp + 6, 0);
	unsigned s = 0xffff - sum(f->byte + f->udp, bytes, pseudo(f));
	put16(f->byte + f->udp + 6, s ? s : 0xffff);
}

static void put_udp(struct frame *f)
{
	put16(f->byte + f->udp, 40001);
	put16(f->byte + f->udp + 2, 5000);
	put16(f->byte + f->udp + 4, 8 + DATA_BYTES);
	for (unsigned i = 0; i < DATA_BYTES; i++)
		f->byte[f->udp + 8 + i] = (uint8_t)(i * 7 + 1);
	f->bytes = f->udp + 8 + DATA_BYTES;
	finish(f);
}

static struct frame ipv4(void)
{
	struct frame f = {.ip = 14, .udp = 34};
	const uint8_t ip[20] = {
		0x45, 2, 0, 28 + DATA_BYTES, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9};

	put16(f.byte + 12, 0x0800);
	memcpy(f.byte + f.ip, ip, sizeof ip);
	put_udp(&f);
	return f;
}

static struct frame ipv6(void)
{
	struct frame f = {.ip = 14, .udp = 54};

	put16(f.byte + 12, 0x86dd);
	f.byte[14] = 0x60;
	put16(f.byte + 18, 8 + DATA_BYTES);
	f.byte[20] = 17;
	f.byte[21] = 64;
	inet_pton(AF_INET6, "fd00::1", f.byte + 22);
	inet_pton(AF_INET6, "fd00::9", f.byte + 38);
	put_udp(&f);
	return f;
}

static enum fan_frame_fault read_frame(const struct frame *f)
{
	struct fan_plane_datagram d;

	return fan_frame_read(&d, f->byte, f->bytes);
}

static void expect_good(const struct frame *f, const char *from, const char *to)
{
	struct fan_plane_datagram d;
	fan_peer want;

	assert_int_equal(fan_frame_read(&d, f->byte, f->bytes), FAN_FRAME_GOOD);
	assert_true(fan_peer_read(&want, from));
	assert_true(fan_peer_equal(&d.from, &want));
	assert_true(fan_peer_read(&want, to));
	assert_memory_equal(d.to, want.addr, sizeof d.to);
	assert_ptr_equal(d.data, f->byte + f->udp + 8);
	assert_int_equal(d.bytes, DATA_BYTES);
	assert_false(d.marked);
}

static void test_good(void **state)
{
	(void)state;
	struct frame f = ipv4();
	expect_good(&f, "10.0.0.1:40001", "10.0.0.9:5000");
	f.bytes += 9; /* padding of short frames, or a trailer */
	expect_good(&f, "10.0.0.1:40001", "10.0.0.9:5000");
	f = ipv6();
	expect_good(&f, "[fd00::1]:40001", "[fd00::9]:5000");
}

static void test_congestion(void **state)
{
	(void)state;
	struct fan_plane_datagram d;
	struct frame f = ipv4();

	f.byte[f.ip + 1] = 3;
	finish(&f);
	assert_int_equal(fan_frame_read(&d, f.byte, f.bytes), FAN_FRAME_GOOD);
	assert_true(d.marked);
	f = ipv6();
	f.byte[f.ip + 1] = 0x30;
	assert_int_equal(fan_frame_read(&d, f.byte, f.bytes), FAN_FRAME_GOOD);
	assert_true(d.marked);
}

/* Every byte of the headers and data but what sums do not cover. */
static void test_damage(void **state)
{
	(void)state;
	for (unsigned six = 0; six < 2; six++) {
		const struct frame good = six ? ipv6() : ipv4();
		for (size_t i = six ? good.ip + 8 : good.ip; i < good.bytes; i++) {
			struct frame f = good;
			f.byte[i] ^= 0x10;
			assert_int_not_equal(read_frame(&f), FAN_FRAME_GOOD);
		}
	}
}

static void test_short(void **state)
{
	(void)state;
	for (unsigned six = 0; six < 2; six++) {
		struct frame f = six ? ipv6() : ipv4();
		while (f.bytes--)
			assert_int_equal(read_frame(&f), FAN_FRAME_LENGTH);
	}
}

static void test_lengths_disagree(void **state)
{
	(void)state;
	struct frame f = ipv4();

	put16(f.byte + f.udp + 4, 9 + DATA_BYTES);
	finish(&f);
	assert_int_equal(read_frame(&f), FAN_FRAME_LENGTH);
	put16(f.byte + f.udp + 4, 7);
	assert_int_equal(read_frame(&f), FAN_FRAME_LENGTH);
	f = ipv4();
	put16(f.byte + f.ip + 2, 27);
	assert_int_equal(read_frame(&f), FAN_FRAME_LENGTH);
}

/* Options, pieces, another protocol, another kind of frame. */
static void test_others(void **state)
{
	(void)state;
	const struct {
		unsigned six, at;
		uint8_t value;
	} row[] = {{0, 14, 0x46}, {0, 20, 0x20}, {0, 21, 1},   {0, 23, 6},
		   {0, 12, 0x81}, {1, 20, 0},	 {1, 14, 0x40}};

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		struct frame f = row[i].six ? ipv6() : ipv4();
		f.byte[row[i].at] = row[i].value;
		assert_int_equal(read_frame(&f), FAN_FRAME_OTHER);
	}
}

static void test_without_sum(void **state)
{
	(void)state;
	struct frame f = ipv4();

	put16(f.byte + f.udp + 6, 0);
	expect_good(&f, "10.0.0.1:40001", "10.0.0.9:5000");
	f = ipv6();
	put16(f.byte + f.udp + 6, 0);
	assert_int_equal(read_frame(&f), FAN_FRAME_CHECKSUM);
}

static void test_sum_of_pseudo_header(void **state)
{
	(void)state;
	struct frame f = ipv4();

	put16(f.byte + f.udp + 6, pseudo(&f));
	assert_int_equal(read_frame(&f), FAN_FRAME_CHECKSUM);
	f = ipv6();
	put16(f.byte + f.udp + 6, pseudo(&f));
	assert_int_equal(read_frame(&f), FAN_FRAME_CHECKSUM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_congestion),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_lengths_disagree),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_without_sum),
		cmocka_unit_test(test_sum_of_pseudo_header),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
