/* SPDX-License-Identifier: Apache-2.0 */
/* A sealed job of two ranks behind one switch with slots, or two, and somebody on the wire without
 * the key.  The input is a list of what happens: time passes, a sum is begun, a packet that was
 * there comes again, as it was or changed, from anywhere to anywhere, or one that is made of the
 * input; a switch starts again.
 *
 * Sums are exact and end, no pair of key and counter is used twice, and no key is left open. */
#include <stdbool.h>

#include "fuzz.h"

/* net.h is for cmocka; here what it asserts ends the process. */
#define TEST_UNIT_UNIT_H
#define assert_true(x)	       FUZZ_CHECK(x)
#define assert_int_equal(a, b) FUZZ_CHECK((a) == (b))
#define fail_msg(...)	       FUZZ_CHECK(false)
#define NET_QUEUE	       2048
#define NET_TAPE	       1024
#define RANK_ELEMS	       300

#include "core/base/rng.h"
#include "seal/net.h"

#define JOB_RANKS 2
#define KEY	  0x77 /* start_rank()'s */
#define ACTS_MAX  64
#define RESTARTS                                                                                   \
	2 /* a job stands for 1.7 s after each, of virtual time that all must be simulated */

static fan_peer anyone(unsigned n)
{
	n %= STATIONS + JOB_RANKS + 1;
	if (n < STATIONS)
		return station_at(n);
	return n < STATIONS + JOB_RANKS ? rank_at(n - STATIONS)
					: (fan_peer){.addr = {66}, .port = 6};
}

/* One that was there; to somebody else, from somebody else, or changed, as the input says. */
static void again(struct fuzz *z)
{
	if (!net.taped)
		return;
	struct packet p = net.tape[fuzz_16(z) % net.taped];
	const uint8_t how = fuzz_8(z);
	if (how & 1)
		p.from = anyone(fuzz_8(z));
	if (how & 2)
		p.to = anyone(fuzz_8(z));
	for (unsigned i = 0; i < (how >> 2 & 3u); i++)
		p.bytes[fuzz_16(z) % p.len] ^= (uint8_t)(1u << fuzz_8(z) % 8);
	if (how & 16)
		p.len = fuzz_16(z) % (p.len + 1);
	deliver(&p);
}

static void made(struct fuzz *z)
{
	struct packet p = {.from = anyone(fuzz_8(z)), .to = anyone(fuzz_8(z))};
	p.len = FAN_HEAD_BYTES + fuzz_8(z);
	fuzz_bytes(z, p.bytes, p.len < 64 ? p.len : 64);
	p.bytes[0] = FAN_WIRE_VERSION;
	p.bytes[3] |= FAN_F_SEALED >> 8;
	deliver(&p);
}

static void act(struct fuzz *z, unsigned levels, bool *summing, unsigned *restarts)
{
	const uint8_t what = fuzz_8(z);
	switch (what % 8) {
	case 0:
		for (unsigned i = 0; i <= what / 8; i++)
			step();
		break;
	case 1:
		if (*summing)
			end_sum(JOB_RANKS, 1);
		else
			begin_sum(JOB_RANKS, 1);
		*summing = !*summing;
		break;
	case 2:
		if ((*restarts)++ < RESTARTS) {
			const unsigned i = 1 + what / 8 % levels, above = net.station[i].above;
			stop_station(i);
			start_station(i, above, KEY);
		}
		break;
	case 3: made(z); break;
	default: again(z);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = {data, size};
	const unsigned levels = 1 + fuzz_8(&z) % 2;
	bool summing = false;
	unsigned restarts = 0;

	open_net(levels, KEY);
	form("alice/1", JOB_RANKS, levels);
	for (unsigned n = 0; z.left && n < ACTS_MAX; n++)
		act(&z, levels, &summing, &restarts);
	if (!summing)
		begin_sum(JOB_RANKS, 1);
	end_sum(JOB_RANKS, 1);
	close_net(NULL);
	return 0;
}
