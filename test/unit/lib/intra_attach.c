/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks, as threads, that find the segment of their host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "lib/intra_attach.h"
#include "net/clock.h"

#define RANKS	   4
#define PATIENT_MS 20000

struct rank {
	struct fan_intra_host host;
	struct fan_intra_segment *s;
	char why[256];
	int error;
};

static void *attach(void *arg)
{
	struct rank *r = arg;
	r->error = fan_intra_attach(&r->s, &r->host, r->why, sizeof r->why);
	return NULL;
}

static void intra_attach__all_map_the_same(void **state)
{
	(void)state;
	pthread_t thread[RANKS];
	struct rank r[RANKS] = {0};
	uint64_t nonce = fan_clock_nonce();
	for (unsigned i = 0; i < RANKS; i++) {
		r[i].host = (struct fan_intra_host){nonce, RANKS - 1 - i, RANKS, 2, PATIENT_MS};
		assert_int_equal(pthread_create(&thread[i], NULL, attach, &r[i]), 0);
	}
	for (unsigned i = 0; i < RANKS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(r[i].error, 0);
		assert_int_equal(r[i].s->ranks, RANKS);
		assert_int_equal(r[i].s->columns, 2);
	}
	r[0].s->data[5] = 0x5a;
	assert_int_equal(r[RANKS - 1].s->data[5], 0x5a);
	for (unsigned i = 0; i < RANKS; i++)
		fan_intra_detach(r[i].s);
}

static void intra_attach__nobody_there(void **state)
{
	(void)state;
	struct rank r = {.host = {fan_clock_nonce(), 1, 2, 1, 50}};
	attach(&r);
	assert_int_equal(r.error, FAN_E_TIMEOUT);
	assert_null(r.s);
	assert_non_null(strstr(r.why, "share memory"));
	r.host.me = 0; /* the first one waits for the other */
	attach(&r);
	assert_int_equal(r.error, FAN_E_TIMEOUT);
}

/* Of another size than this rank expects: another number of ranks. */
static void intra_attach__not_what_it_must_be(void **state)
{
	(void)state;
	pthread_t thread;
	uint64_t nonce = fan_clock_nonce();
	struct rank first = {.host = {nonce, 0, 2, 1, PATIENT_MS}};
	struct rank other = {.host = {nonce, 1, 3, 1, PATIENT_MS}};
	assert_int_equal(pthread_create(&thread, NULL, attach, &first), 0);
	attach(&other);
	pthread_join(thread, NULL);
	assert_int_equal(other.error, FAN_E_FORMAT);
	assert_null(other.s);
	fan_intra_detach(first.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intra_attach__all_map_the_same),
		cmocka_unit_test(intra_attach__nobody_there),
		cmocka_unit_test(intra_attach__not_what_it_must_be),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
