/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "net/locals.h"

#define PLACES (FAN_LOCALS_SETS * FAN_LOCALS_WAYS)

static struct fan_locals table;

/* A peer and an address that follow from a number. */
static fan_peer peer_of(uint64_t n)
{
	fan_peer p = {{0, 0x0a000001ffff0000 + (n & 255)}, 40000 + (uint32_t)(n >> 8), 0};
	return p;
}

static void put(uint64_t n)
{
	fan_peer p = peer_of(n);
	const uint64_t addr[2] = {n + 1, ~n};
	fan_locals_put(&table, &p, addr);
}

static bool has(uint64_t n)
{
	fan_peer p = peer_of(n);
	const uint64_t *addr = fan_locals_get(&table, &p);
	if (addr) {
		assert_true(addr[0] == n + 1);
		assert_true(addr[1] == ~n);
	}
	return addr != NULL;
}

static int clear(void **state)
{
	(void)state;
	memset(&table, 0, sizeof table);
	return 0;
}

static void get__nobody_at_first(void **state)
{
	(void)state;
	const fan_peer none = {{0, 0}, 0, 0};
	assert_false(has(0));
	assert_null(fan_locals_get(&table, &none));
}

static void get__what_was_put_last(void **state)
{
	(void)state;
	fan_peer p = peer_of(7);
	const uint64_t first[2] = {1, 2}, second[2] = {0, 3};
	fan_locals_put(&table, &p, first);
	fan_locals_put(&table, &p, second);
	assert_memory_equal(fan_locals_get(&table, &p), second, sizeof second);
	fan_locals_forget(&table, &p);
	assert_null(fan_locals_get(&table, &p)); /* it was there once only */
}

static void get__a_peer_is_all_of_its_fields(void **state)
{
	(void)state;
	fan_peer p = peer_of(7), q = p;
	put(7);
	q.port++;
	assert_null(fan_locals_get(&table, &q));
	q = p;
	q.scope++;
	assert_null(fan_locals_get(&table, &q));
	q = p;
	q.addr[0]++;
	assert_null(fan_locals_get(&table, &q));
	q = p;
	q.addr[1]++;
	assert_null(fan_locals_get(&table, &q));
}

/* As many as one job may have ranks: all are there.  As many as a switch may have
 * members, twice the load: nearly all are. */
static void put__members_find_room(void **state)
{
	(void)state;
	unsigned found = 0;
	for (unsigned n = 0; n < FAN_RANKS_MAX; n++)
		put(n);
	for (unsigned n = 0; n < FAN_RANKS_MAX; n++)
		assert_true(has(n));
	for (unsigned n = 0; n < FAN_MEMBERS_MAX; n++)
		put(n);
	for (unsigned n = 0; n < FAN_MEMBERS_MAX; n++)
		found += has(n);
	assert_in_range(found, FAN_MEMBERS_MAX * 95 / 100, FAN_MEMBERS_MAX);
}

/* Those who keep sending stay, however many strangers come and go. */
static void put__the_silent_give_way(void **state)
{
	(void)state;
	unsigned old = 0;
	for (uint64_t n = 0; n < 20 * PLACES; n++) {
		put(1000 + n);
		for (uint64_t m = 0; n % 64 == 0 && m < 100; m++)
			put(m);
	}
	for (unsigned m = 0; m < 100; m++)
		assert_true(has(m));
	for (uint64_t n = 0; n < 15 * PLACES; n++)
		old += has(1000 + n);
	assert_int_equal(old, 0);
}

static void forget__one_only(void **state)
{
	(void)state;
	fan_peer p = peer_of(3);
	for (unsigned n = 0; n < 200; n++)
		put(n);
	fan_locals_forget(&table, &p);
	fan_locals_forget(&table, &p);
	for (unsigned n = 0; n < 200; n++)
		assert_int_equal(has(n), n != 3);
	put(3);
	assert_true(has(3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(get__nobody_at_first, clear),
		cmocka_unit_test_setup(get__what_was_put_last, clear),
		cmocka_unit_test_setup(get__a_peer_is_all_of_its_fields, clear),
		cmocka_unit_test_setup(put__members_find_room, clear),
		cmocka_unit_test_setup(put__the_silent_give_way, clear),
		cmocka_unit_test_setup(forget__one_only, clear),
	};
	return RUN(tests);
}
