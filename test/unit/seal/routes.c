/* SPDX-License-Identifier: Apache-2.0 */
/* routes.c - sealed jobs on routes, which change while they run.
 *
 * Station 0 is the aggregator, 1 and 2 are switches that are linked to it and to each other.  Ranks
 * 0 and 1 join at one of them, 2 and 3 at the other one, or all at the same. */
#include "seal/gate_priv.h"
#include "seal/net.h"

#define ROUTES 4
#define LOW    UINT64_C(0x3) /* ranks 0 and 1... */
#define HIGH   UINT64_C(0xc) /* ...2 and 3... */
#define ALL    (LOW | HIGH)

#define HERE STATIONS /* as a `from`: workers */

/* Contributions of `ranks` come from station `from` and go on to `next`. */
struct leg {
	unsigned from, next, depth;
	uint64_t ranks;
	bool sums;
};

static void install(unsigned station, uint16_t number, const struct leg *leg, unsigned legs)
{
	struct fan_route_entry entry[4];
	memset(entry, 0, sizeof entry);
	for (unsigned i = 0; i < legs; i++) {
		if (leg[i].from != HERE)
			entry[i].from = station_at(leg[i].from);
		entry[i].next = station_at(leg[i].next);
		entry[i].depth = (uint8_t)leg[i].depth;
		entry[i].ranks[0] = leg[i].ranks;
		entry[i].sums = leg[i].sums;
	}
	const struct fan_route_config c = {.number = number, .entry = entry, .entries = legs};
	assert_int_equal(fan_switch_route(net.station[station].node->slots, &c), FAN_OK);
}

/* Route 1, switch 1 and then 2; 2, the other way round; 3, each half by its own switch and then the
 * other one, which is both below and above; 4, the upper half by switch 2 and then 1, the lower one
 * by 1 alone. */
static void install_all(unsigned station)
{
	const unsigned other = 3 - station;
	const uint64_t own = station == 1 ? LOW : HIGH;
	const struct leg first = {HERE, other, 2, ALL, true}, second = {other, 0, 1, ALL, true};
	const struct leg crossed[] = {{HERE, other, 2, own, false}, {other, 0, 1, ALL ^ own, true}};
	const struct leg meet[] = {{HERE, 0, 1, LOW, true}, {2, 0, 1, HIGH, true}};
	const struct leg pass = {HERE, 1, 2, HIGH, false};
	install(station, 1, station == 1 ? &first : &second, 1);
	install(station, 2, station == 2 ? &first : &second, 1);
	install(station, 3, crossed, 2);
	install(station, 4, station == 1 ? meet : &pass, station == 1 ? 2 : 1);
}

static void open_routes(uint16_t route, unsigned low_at, unsigned high_at)
{
	open_routed_net(2, 0x77, ROUTES);
	net.route = route;
	install_all(1);
	install_all(2);
	for (unsigned r = 0; r < RANKS; r++)
		start_rank(r, RANKS, "alice/run", "alice", r < 2 ? low_at : high_at);
	assert_true(until(RANKS, FAN_W_READY, 500));
}

/* As libfanin does it: the socket first, then the worker. */
static void move(unsigned r, uint16_t route, unsigned at)
{
	net.rank[r].at = at;
	fan_worker_reroute(net.rank[r].w, net.now_ns, route);
}

static bool all_moved(uint16_t route)
{
	for (unsigned r = 0; r < RANKS; r++)
		if (fan_worker_route(net.rank[r].w) != route)
			return false;
	return true;
}

static void until_moved(uint16_t route)
{
	for (unsigned ms = 0; ms < 3000 && !all_moved(route); ms++)
		step();
	assert_true(all_moved(route));
}

static void begin_again(unsigned station)
{
	stop_station(station);
	start_station(station, 0, 0x77);
	install_all(station);
}

TEST_WITH(routes__job_sums, NULL, close_net)
{
	for (uint16_t route = 1; route <= ROUTES; route++) {
		open_routes(route, route == 2 ? 2 : 1, route == 1 ? 1 : 2);
		for (unsigned i = 0; i < 5; i++)
			sum(RANKS, i);
		leave(RANKS);
		assert_int_equal(tags(), 0);
		for (unsigned i = 0; i < STATIONS; i++)
			assert_int_equal(stats(i)->unsent, 0);
		for (unsigned i = 0; i < net.taped; i++) /* nothing travels in clear */
			assert_true(fan_get16(net.tape[i].bytes + 2) & FAN_F_SEALED);
		if (route < ROUTES)
			close_net(NULL);
	}
}

/* What a next hop has sent before is no news when a rank comes back to it. */
TEST_WITH(drill_4__replayed_to_who_comes_back, NULL, close_net)
{
	open_routes(1, 1, 1);
	sum(RANKS, 1);
	const unsigned taped = net.taped;
	for (uint16_t route = 2; route; route--) {
		for (unsigned r = 0; r < RANKS; r++)
			move(r, route, route);
		until_moved(route);
		sum(RANKS, route);
	}
	const struct fan_seal_rank *s = &net.rank[0].seal;
	const fan_peer rank = rank_at(0), at = station_at(1);
	const uint64_t before = s->drops[FAN_SEAL_REPLAY];
	unsigned repeated = 0;
	for (unsigned i = 0; i < taped; i++) {
		const struct packet *p = &net.tape[i];
		if (!fan_peer_equal(&p->to, &rank) || !fan_peer_equal(&p->from, &at) ||
		    !fan_get32(p->bytes + 32))
			continue;
		assert_false(to_rank(0, p->bytes, p->len, false) != FAN_DROP);
		repeated++;
	}
	assert_in_range(repeated, 10, taped);
	assert_int_equal(s->drops[FAN_SEAL_REPLAY], before + repeated);
	sum(RANKS, 5);
}

/* All that was ever sent comes once more, when the job has moved, in the midst of a sum. */
TEST_WITH(drill_4__replayed_after_a_move, NULL, close_net)
{
	open_routes(1, 1, 1);
	sum(RANKS, 1);
	for (unsigned r = 0; r < RANKS; r++)
		move(r, 2, 2);
	until_moved(2);
	const unsigned taped = net.taped;
	for (unsigned turn = 0; turn < 4; turn++) {
		begin_sum(RANKS, turn);
		for (unsigned i = 0; i < taped; i++) {
			struct packet p = net.tape[i];
			if (turn)
				p.from = station_at(turn - 1);
			if (!fan_peer_equal(&p.from, &p.to))
				deliver(&p);
			carry();
			if (i % 64 == 0)
				step();
		}
		end_sum(RANKS, turn);
	}
	assert_true(all_moved(2));
}

/* A switch of another fabric on the new route: the job stays where it is until it may move on. */
TEST_WITH(drill_1__route_over_a_switch_of_another_fabric, NULL, close_net)
{
	open_routes(4, 1, 2);
	sum(RANKS, 1);
	stop_station(2);
	start_station(2, 0, 0x66);
	install_all(2);
	move(0, 2, 2);
	for (unsigned ms = 0; ms < 400; ms++)
		step();
	assert_int_equal(fan_worker_phase(net.rank[0].w), FAN_W_READY);
	assert_int_equal(fan_worker_route(net.rank[0].w), 0);
	assert_in_range(stats(2)->drops[FAN_SEAL_TAG], 4, 1000);
	begin_again(2);
	for (unsigned r = 0; r < RANKS; r++)
		move(r, 4, r < 2 ? 1 : 2);
	until_moved(4);
	sum(RANKS, 2);
}

/* Jobs of several aggregators, each the first one there: the low byte of all numbers is the same.
 */
TEST_WITH(gate__jobs_of_several_aggregators, NULL, close_net)
{
	enum { JOBS = 64 };
	const fan_peer at = {.port = 1};
	memset(&net, 0, sizeof net);
	toy_reset(3);
	struct station s;
	give_key(&s, 0x77, true);
	for (uint32_t i = 0; i < JOBS; i++) {
		s.gate->join = (struct fan_gate_join){.nonce = 1 + i, .tenant = {(uint8_t)i}};
		assert_non_null(fan_gate_answer_epoch(s.gate, (i + 1) << 8, i * 77777, &at));
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		const struct fan_gate_epoch *l =
			fan_gate_find_epoch(s.gate, (i + 1) << 8, i * 77777);
		assert_non_null(l);
		assert_int_equal(l->tenant[0], i);
	}
	fan_gate_free(s.gate);
}

/* Of more lives than a row has room for, those that somebody has proved stay. */
TEST_WITH(gate__proved_lives_stay, NULL, close_net)
{
	enum { FIRST = 5, JOBS = 4 * FAN_GATE_PLACES * FAN_GATE_WAYS };
	const fan_peer at = {.port = 1};
	memset(&net, 0, sizeof net);
	toy_reset(3);
	struct station s;
	give_key(&s, 0x77, true);
	s.gate->join = (struct fan_gate_join){.nonce = 1};
	struct fan_gate_epoch *l = fan_gate_answer_epoch(s.gate, FIRST, 6, &at);
	assert_non_null(l);
	fan_gate_note_packet(s.gate, l);
	for (uint32_t i = 0; i < JOBS; i++)
		fan_gate_answer_epoch(s.gate, 0x100 + i % 0xff00, i, &at);
	assert_ptr_equal(fan_gate_find_epoch(s.gate, FIRST, 6), l);
	fan_gate_free(s.gate);
}

UNIT_MAIN
