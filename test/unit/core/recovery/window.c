/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/recovery/window.h"

#define W 8u

static _Alignas(8) uint8_t memory[1 << 18];
static struct fan_window w;

static int open_window(void **state __attribute__((unused)))
{
	assert_true(fan_window_bytes(W) < sizeof memory);
	memset(memory, 0xee, sizeof memory);
	fan_window_init(&w, memory, W);
	fan_window_open(&w, W);
	return 0;
}

static void ready_all(void)
{
	for (uint32_t i = 0; i < W; i++)
		fan_window_ready(&w, i);
}

/* Send what may be sent: how many of each kind, and the last one's slot. */
struct sent {
	unsigned first, probes, resends;
	uint32_t slot;
};

static struct sent send_all(uint32_t cwnd)
{
	struct sent n = {.slot = FAN_WSLOT_NONE};
	unsigned what;
	for (uint32_t i; (i = fan_window_next(&w, cwnd, &what)) != FAN_WSLOT_NONE;) {
		fan_window_sent(&w, i, w.seq, what);
		n.first += what == 0;
		n.probes += what == FAN_WSLOT_PROBE;
		n.resends += what == FAN_WSLOT_RESEND;
		n.slot = i;
	}
	assert_false(fan_window_may_send(&w, cwnd));
	return n;
}

TEST_WITH(window__sends_in_order_within_the_congestion_window, open_window, NULL)
{
	ready_all();
	struct sent n = send_all(3);
	assert_int_equal(n.first, 3);
	assert_int_equal(n.slot, 2);
	assert_int_equal(w.in_flight, 3);
	fan_window_done(&w, 0);
	assert_int_equal(w.slot[0].frag, W);
	n = send_all(3);
	assert_int_equal(n.first, 1);
	assert_int_equal(n.slot, 3);
	assert_int_equal(send_all(100).first, 4);
}

/* Whose round trip may be measured is told of each fragment anew. */
TEST_WITH(window__the_next_fragment_was_not_sent_twice, open_window, NULL)
{
	ready_all();
	assert_int_equal(send_all(100).first, W);
	assert_true(fan_window_need(&w, 0));
	assert_int_equal(send_all(100).resends, 1);
	assert_true(w.slot[0].flags & FAN_WSLOT_AGAIN);
	fan_window_done(&w, 0);
	fan_window_ready(&w, 0);
	assert_int_equal(send_all(100).first, 1);
	assert_int_equal(w.slot[0].frag, W);
	assert_false(w.slot[0].flags & FAN_WSLOT_AGAIN);
}

/* Results that wait for slow ranks do not close the window, once it is known that contributions
 * have arrived. */
TEST_WITH(window__runs_ahead, open_window, NULL)
{
	fan_window_run_ahead(&w, W);
	ready_all();
	assert_int_equal(send_all(3).slot, 2);
	fan_window_arrived(&w, 1); /* so have those before it */
	struct sent n = send_all(3);
	assert_int_equal(n.first, 2);
	assert_int_equal(n.slot, 4);
	assert_int_equal(w.in_flight, 5);
	fan_window_arrived(&w, 0); /* an old answer */
	assert_int_equal(send_all(3).first, 0);
	fan_window_done(&w, 3);
	assert_int_equal(send_all(3).first, 2);
	fan_window_arrived(&w, 6);
	assert_int_equal(send_all(100).first, 1);
	assert_int_equal(w.in_flight, 7);
}

TEST_WITH(window__asks_once_a_window, open_window, NULL)
{
	unsigned what, asks = 0;
	ready_all();
	assert_false(fan_window_asks(&w, 1)); /* results tell */
	fan_window_run_ahead(&w, W);
	for (uint32_t i; (i = fan_window_next(&w, 4, &what)) != FAN_WSLOT_NONE;) {
		asks += fan_window_asks(&w, 4);
		assert_int_equal(asks, w.turns == 3);
		fan_window_sent(&w, i, w.seq, what);
	}
	fan_window_arrived(&w, 3);
	for (uint32_t i; (i = fan_window_next(&w, 4, &what)) != FAN_WSLOT_NONE;) {
		asks += fan_window_asks(&w, 4);
		fan_window_sent(&w, i, w.seq, what);
	}
	assert_int_equal(asks, 4); /* more often from the fifth in flight on */
}

/* Else ranks that lost different packets would wait for each other for ever. */
TEST_WITH(window__lowest_goes_beyond_the_congestion_window, open_window, NULL)
{
	ready_all();
	send_all(W);
	fan_window_done(&w, 2);
	fan_window_ready(&w, 2);
	fan_window_done(&w, 3);
	fan_window_ready(&w, 3);
	assert_int_equal(send_all(W).first, 2); /* 10 and 11 are on their way, 0 and 1 late */
	for (uint32_t i = 4; i < W; i++)
		fan_window_done(&w, i);
	for (uint32_t i = 0; i < 2; i++) {
		fan_window_done(&w, i);
		fan_window_ready(&w, i);
	}
	assert_int_equal(w.in_flight, 2);
	assert_int_equal(w.low, 8);
	struct sent n = send_all(2);
	assert_int_equal(n.first, 1); /* 8 though cwnd is used up, and not 9 */
	assert_int_equal(n.slot, 0);
	assert_int_equal(w.in_flight, 3);
	fan_window_done(&w, 0);
	n = send_all(2);
	assert_int_equal(n.first, 1);
	assert_int_equal(n.slot, 1);
}

TEST_WITH(window__gap_of_three_results, open_window, NULL)
{
	ready_all();
	send_all(W);
	fan_window_done(&w, 1);
	fan_window_done(&w, 2);
	assert_int_equal(send_all(W).probes, 0);
	fan_window_done(&w, 3); /* three later: slot 0 is late */
	struct sent n = send_all(W);
	assert_int_equal(n.probes, 1);
	assert_int_equal(n.slot, 0);
	fan_window_done(&w, 4); /* the probe is younger than these */
	fan_window_done(&w, 5);
	fan_window_done(&w, 6);
	assert_int_equal(send_all(W).probes, 0);
}

TEST_WITH(window__need_is_sent_once, open_window, NULL)
{
	ready_all();
	send_all(2);
	assert_true(fan_window_need(&w, 1));
	assert_false(fan_window_need(&w, 1)); /* is being sent anyway */
	assert_false(fan_window_need(&w, 5)); /* has not been sent at all */
	struct sent n = send_all(2);
	assert_int_equal(n.resends, 1);
	assert_int_equal(n.slot, 1);
	assert_int_equal(w.in_flight, 2);
	assert_true(w.slot[1].flags & FAN_WSLOT_AGAIN);
	assert_false(w.slot[0].flags & FAN_WSLOT_AGAIN);
}

/* What was dropped for want of a slot goes again in its turn, as if it had not been sent. */
TEST_WITH(window__refused, open_window, NULL)
{
	ready_all();
	send_all(4);
	assert_true(fan_window_refused(&w, 2));
	assert_false(fan_window_refused(&w, 2)); /* not out any more */
	assert_false(fan_window_refused(&w, 6)); /* nor yet */
	assert_int_equal(w.in_flight, 3);
	fan_window_audit(&w);
	assert_int_equal(send_all(3).first, 0); /* a smaller window has no room for it */
	struct sent n = send_all(4);
	assert_int_equal(n.first, 1);
	assert_int_equal(n.slot, 2);
	assert_int_equal(w.slot[2].refusals, 1);
	assert_int_equal(w.slot[2].frag, 2);
	assert_true(fan_window_refused(&w, 0));
	assert_int_equal(send_all(2).slot, 0); /* the lowest always has */
	assert_true(fan_window_need(&w, 1));
	assert_false(fan_window_refused(&w, 1)); /* is being sent anyway */
	fan_window_expire(&w, 4);
	assert_true(fan_window_refused(&w, 3));
	n = send_all(W);
	assert_int_equal(n.resends, 1);
	assert_int_equal(n.probes, 2); /* of 0 and 2; 3 is new, and sent with 4 to 7 */
	assert_int_equal(n.first, 5);
	fan_window_done(&w, 2);
	assert_int_equal(w.slot[2].refusals, 0);
	fan_window_audit(&w);
}

TEST_WITH(window__result_cancels_what_was_urgent, open_window, NULL)
{
	unsigned what;
	ready_all();
	send_all(2);
	assert_true(fan_window_need(&w, 0));
	fan_window_done(&w, 0);
	assert_int_equal(fan_window_next(&w, 0, &what), FAN_WSLOT_NONE);
	assert_int_equal(w.urgent.count, 0);
}

TEST_WITH(window__unget, open_window, NULL)
{
	unsigned what;
	ready_all();
	uint32_t i = fan_window_next(&w, W, &what);
	fan_window_unget(&w, i, what);
	assert_int_equal(fan_window_next(&w, W, &what), i);
	fan_window_sent(&w, i, 0, what);
	assert_true(fan_window_need(&w, i));
	assert_int_equal(fan_window_next(&w, W, &what), i);
	fan_window_unget(&w, i, what);
	assert_int_equal(fan_window_next(&w, W, &what), i);
	assert_int_equal(what, FAN_WSLOT_RESEND);
}

TEST_WITH(window__timer_probes, open_window, NULL)
{
	assert_int_equal(fan_window_oldest(&w), FAN_WSLOT_NONE);
	fan_window_expire(&w, FAN_TAIL_PROBES);
	assert_int_equal(send_all(W).probes, 0);
	ready_all();
	send_all(2);
	assert_int_equal(fan_window_oldest(&w), 0);
	fan_window_expire(&w, FAN_TAIL_PROBES);
	struct sent n = send_all(2);
	assert_in_range(n.probes, 1, 2);
	assert_true(w.slot[0].seq > 2); /* the lowest is among them */
}

/* More transmissions than the log has entries: nothing is forgotten. */
TEST_WITH(window__full_log, open_window, NULL)
{
	ready_all();
	send_all(W);
	for (unsigned n = 0; n < 500; n++) {
		assert_true(fan_window_need(&w, 1 + n % (W - 1)));
		send_all(W);
		assert_int_not_equal(fan_window_oldest(&w), FAN_WSLOT_NONE);
	}
	uint64_t last = w.slot[0].seq;
	assert_true(last > 100); /* to keep its place it was probed for */
}

/* Any order of events: no slot is lost, none is in flight twice. */
TEST_WITH(window__random, open_window, NULL)
{
	struct fan_rng r = test_rng();
	uint64_t done = 0, refused = 0;
	ready_all();
	for (unsigned n = 0; n < 200000; n++) {
		uint32_t i = (uint32_t)fan_rng_below(&r, W), cwnd = (uint32_t)rng_range(&r, 1, W);
		unsigned what, in_flight = 0;
		uint64_t choice = fan_rng_below(&r, 7);
		if (choice < 2) {
			uint32_t k = fan_window_next(&w, cwnd, &what);
			if (k == FAN_WSLOT_NONE)
				continue;
			assert_int_equal(w.slot[k].state, what ? FAN_WSLOT_SENT : FAN_WSLOT_READY);
			if (fan_rng_below(&r, 4))
				fan_window_sent(&w, k, n, what);
			else
				fan_window_unget(&w, k, what);
		} else if (choice < 4 && w.slot[i].state == FAN_WSLOT_SENT) {
			fan_window_done(&w, i);
			fan_window_ready(&w, i);
			done++;
		} else if (choice == 4) {
			fan_window_need(&w, i);
		} else if (choice == 5) {
			refused += fan_window_refused(&w, i);
		} else if (fan_rng_below(&r, 4) == 0) {
			fan_window_expire(&w, FAN_TAIL_PROBES);
		}
		uint64_t low = UINT64_MAX;
		for (uint32_t k = 0; k < W; k++) {
			in_flight += w.slot[k].state == FAN_WSLOT_SENT;
			low = w.slot[k].frag < low ? w.slot[k].frag : low;
			assert_int_equal(w.slot[k].frag % W, k);
		}
		assert_int_equal(w.in_flight, in_flight);
		assert_int_equal(w.low, low);
		assert_true(in_flight == 0 || w.urgent.count || fan_window_oldest(&w) < W);
	}
	assert_true(done > 1000 && refused > 1000);
	fan_window_audit(&w);
}

UNIT_MAIN
