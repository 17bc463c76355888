/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/wire/envelope.h"
#include "core/wire/route_table.h"

static const fan_peer a = {.port = 1}, b = {.port = 2}, c = {.port = 3}, aggregator = {.port = 9};
static const fan_peer worker = {.port = 77}, nobody;
static struct fan_route route;

/* An entry of the ranks whose bits are set. */
static struct fan_route_entry entry(fan_peer from, uint64_t ranks, fan_peer next, unsigned depth,
				    bool sums)
{
	return (struct fan_route_entry){.from = from,
					.next = next,
					.ranks = {ranks},
					.depth = (uint8_t)depth,
					.sums = sums};
}

static int set(const struct fan_route_entry *e, unsigned count)
{
	const struct fan_route_config config = {.number = 5, .entry = e, .entries = count};
	return fan_route_set(&route, &config);
}

TEST(route__up_by_who_sends_and_of_whom)
{
	const uint64_t two[FAN_RANK_WORDS] = {0x3}, more[FAN_RANK_WORDS] = {0x7};
	const struct fan_route_entry e[] = {
		entry(nobody, 0x3, b, 4, false), /* to be summed at b, and back here */
		entry(nobody, 0x4, aggregator, 1, true),
		entry(b, 0x3, aggregator, 1, true),
		entry(c, 0x8, b, 4, false),
	};
	assert_int_equal(set(e, 4), FAN_OK);
	assert_int_equal(fan_route_up(&route, &worker, two)->depth, 4);
	assert_int_equal(fan_route_up(&route, &b, two)->depth, 1);
	assert_null(fan_route_up(&route, &b, more));
	assert_null(fan_route_up(&route, &c, two));
	assert_true(fan_route_up_one(&route, &worker, 2)->sums);
	assert_null(fan_route_up_one(&route, &worker, 3)); /* comes from c */
	assert_null(fan_route_up_one(&route, &worker, FAN_RANK_NONE));
	assert_int_equal(route.sums[0], 0x7);
	assert_true(fan_peer_equal(&route.up, &aggregator));
	assert_int_equal(route.below.ranks, 2); /* b and c */
}

TEST(route__down)
{
	const struct fan_route_entry e[] = {
		entry(a, 0x1, aggregator, 1, false),  entry(nobody, 0x8, aggregator, 1, false),
		entry(b, 0x2, c, 3, false),	      entry(a, 0x4, aggregator, 1, true),
		entry(b, 0x10, aggregator, 2, false), /* another depth: no path of theirs */
	};
	assert_int_equal(set(e, 5), FAN_OK);
	assert_true(fan_route_leads_to(&route, &c));
	assert_false(fan_route_leads_to(&route, &b));
	const struct fan_route_entry *path = fan_route_path(&route, &aggregator, 0);
	const struct fan_group *hops = &route.path[path - route.entry];
	unsigned switches = 0;
	for (unsigned i = 0; i < hops->ranks; i++)
		switches += !fan_peer_is_none(&hops->peers[i]);
	assert_int_equal(hops->ranks, 3);
	assert_int_equal(switches, 1); /* a, once */
	assert_true(fan_route_path_has_workers(&route, path));
	assert_false(fan_route_path_has_workers(&route, fan_route_path(&route, &c, 2)));
	assert_null(fan_route_path(&route, &aggregator, 2));
	assert_null(fan_route_path(&route, &b, 0));
	assert_true(fan_peer_equal(&fan_route_down_one(&route, &c, 1)->from, &b));
	assert_null(fan_route_down_one(&route, &aggregator, 1));
	assert_true(fan_peer_is_none(&fan_route_down_one(&route, &c, 3)->from));
	assert_null(fan_route_down_one(&route, &aggregator, 0xff));
}

TEST(route__what_makes_no_sense)
{
	const struct fan_route_entry bad[][2] = {
		{entry(a, 0x1, nobody, 1, false), entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x0, aggregator, 1, false), entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x1, aggregator, 0, false), entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x1, aggregator, FAN_ROUTE_HOPS_MAX + 1, false),
		 entry(b, 0x2, aggregator, 1, false)},
		{entry(a, 0x3, aggregator, 1, false), entry(a, 0x2, c, 1, false)}, /* which, up? */
		{entry(a, 0x3, aggregator, 1, false),
		 entry(b, 0x2, aggregator, 1, false)},				 /* which, down? */
		{entry(a, 0x1, aggregator, 1, true), entry(b, 0x2, c, 1, true)}, /* two sums */
		{entry(a, 0x1, aggregator, 1, true), entry(b, 0x2, aggregator, 2, true)},
	};
	const struct fan_route_entry good[] = {entry(a, 0x1, aggregator, 1, true),
					       entry(b, 0x3, c, 2, false)};
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_int_equal(set(bad[i], 2), FAN_E_INVALID);
	assert_int_equal(set(good, 0), FAN_E_INVALID);
	assert_int_equal(set(good, FAN_ROUTE_ENTRIES_MAX + 1), FAN_E_INVALID);
	const struct fan_route_entry back = entry(a, 0x1, a, 2, true); /* summed, and back */
	assert_int_equal(set(&back, 1), FAN_OK);
	const struct fan_route_config zero = {.entry = good, .entries = 2};
	assert_int_equal(fan_route_set(&route, &zero), FAN_E_INVALID);
	assert_int_equal(set(good, 2), FAN_OK);
}

TEST(route__is)
{
	struct fan_route_entry e[] = {entry(a, 0x1, aggregator, 1, false),
				      entry(b, 0x2, c, 2, false)};
	const struct fan_route_entry swapped[] = {e[1], e[0]};
	struct fan_route_config config = {.number = 5, .entry = swapped, .entries = 2};
	assert_int_equal(set(e, 2), FAN_OK);
	assert_true(fan_route_is(&route, &config));
	config.quota = 1;
	assert_false(fan_route_is(&route, &config));
	config.quota = 0;
	e[0].sums = true;
	config.entry = e;
	assert_false(fan_route_is(&route, &config));
}

TEST(route__a_result_passes_once)
{
	const struct fan_route_entry e = entry(a, 0x1, aggregator, 1, false);
	assert_int_equal(set(&e, 1), FAN_OK);
	assert_true(fan_route_passes(&route, 0, 7, 0));
	assert_false(fan_route_passes(&route, 0, 7, 0));
	assert_true(fan_route_passes(&route, 0, 7, 1));
	assert_true(fan_route_passes(&route, 0, 7, FAN_WINDOW_MAX)); /* in the place of 0 */
	assert_true(fan_route_passes(&route, 0, 8, FAN_WINDOW_MAX)); /* another epoch */
	assert_true(fan_route_passes(&route, 1, 8, FAN_WINDOW_MAX));
	assert_false(fan_route_passes(&route, 0, 7, 1));
}

/* ---- envelope ---- */

static uint8_t packet[2 * FAN_CTL_BYTES_MAX];

/* The envelope `v` of a BEAT, as a datagram; its length. */
static size_t encode(const struct fan_envelope *v)
{
	uint8_t scratch[512], body[FAN_CTL_BYTES_MAX];
	struct fan_out_item item, *it = &item;
	struct fan_out out;
	fan_out_init(&out, &item, 1, scratch, sizeof scratch);
	struct fan_frag h = {.nonce = 77, .job = 5, .epoch = 6, .sender = 1, .type = FAN_TYPE_BEAT};
	const struct fan_beat m = {.flags = 1};
	struct fan_out_item beat;
	fan_ctl_finish(&beat, &h, body, fan_ctl_put(body, &m));
	fan_envelope_put(it, &out, v, 5, 6, beat.head, beat.payload, beat.payload_bytes);
	return fan_out_item_copy(it, packet);
}

TEST(envelope__round_trip)
{
	const struct fan_envelope v = {.token = 2048,
				       .hops = 3,
				       .rank = 255,
				       .ranks = 256,
				       .window = FAN_WINDOW_MAX,
				       .payload_bytes = FAN_PAYLOAD_MAX};
	size_t len = encode(&v);
	struct fan_frag f, inner;
	struct fan_envelope w;
	assert_int_equal(fan_wire_get(&f, packet, len), -1);
	assert_int_equal(f.job, 5);
	assert_int_equal(fan_envelope_get(&w, &f), FAN_OK);
	assert_true(w.token == v.token && w.hops == 3 && w.rank == 255 && w.ranks == 256);
	assert_true(w.window == v.window && w.payload_bytes == v.payload_bytes);
	assert_int_equal(fan_wire_get(&inner, w.inner, w.inner_bytes), -1);
	struct fan_beat m;
	assert_int_equal(fan_ctl_get(&m, &inner), FAN_OK);
	assert_int_equal(m.flags, 1);
	assert_int_equal(inner.nonce, 77);
}

TEST(envelope__nothing_known)
{
	const struct fan_envelope v = {.token = 1};
	size_t len = encode(&v);
	struct fan_frag f;
	struct fan_envelope w;
	assert_int_equal(fan_wire_get(&f, packet, len), -1);
	assert_int_equal(fan_envelope_get(&w, &f), FAN_OK);
	assert_int_equal(w.ranks, 0);
}

TEST(envelope__drops_by_field)
{
	struct fan_frag f;
	struct fan_envelope good = {.token = 1, .ranks = 4, .window = 2, .payload_bytes = 64}, v, w;
	size_t len = encode(&good);
	assert_int_equal(fan_wire_get(&f, packet, len), -1);
	f.payload_bytes = FAN_HEAD_BYTES - 1;
	assert_int_equal(fan_envelope_get(&w, &f), FAN_E_SHORT);
	const struct fan_envelope bad[] = {
		{.token = 0},
		{.token = 1, .hops = FAN_ENVELOPE_HOPS_MAX + 1},
		{.token = 1, .ranks = 4, .rank = 4, .window = 2, .payload_bytes = 64},
		{.token = 1, .ranks = 4, .window = 0, .payload_bytes = 64},
		{.token = 1, .ranks = 4, .window = FAN_AHEAD_MAX + 1, .payload_bytes = 64},
		{.token = 1, .ranks = 4, .window = 2, .payload_bytes = FAN_PAYLOAD_MIN - 1},
		{.token = 1, .ranks = 4, .window = 2, .payload_bytes = FAN_PAYLOAD_MAX + 8},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		v = bad[i];
		len = encode(&v);
		assert_int_equal(fan_wire_get(&f, packet, len), -1);
		assert_int_equal(fan_envelope_get(&w, &f), FAN_E_FORMAT);
	}
}

TEST(envelope__addresses)
{
	const fan_peer hop = {.addr = {1, 2}, .port = 0xffff, .scope = 3};
	fan_peer p = fan_peer_behind(&hop, 0xfffe);
	assert_int_equal(fan_peer_token(&p), 0xfffe);
	assert_int_equal(fan_peer_token(&hop), 0);
	assert_false(fan_peer_equal(&p, &hop));
	assert_true(fan_peer_same_hop(&p, &hop));
	fan_peer back = fan_peer_hop(&p);
	assert_true(fan_peer_equal(&back, &hop));
	fan_peer other = fan_peer_behind(&p, 7); /* a token takes the place of one */
	assert_int_equal(fan_peer_token(&other), 7);
}

UNIT_MAIN
