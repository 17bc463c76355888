/* SPDX-License-Identifier: Apache-2.0 */
#include "xdp/level.h"

#include "unit/unit.h"

static void look(struct xdp_level *l, uint32_t waiting, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		xdp_level_look(l, waiting);
}

static void level__all_frames_at_first(void **state)
{
	struct xdp_level l;

	(void)state;
	xdp_level_init(&l);
	look(&l, 1, XDP_LEVEL_LOOKS - 1);
	assert_int_equal(l.frames, XDP_LEVEL_ALL);
	look(&l, 1, 1);
	assert_int_equal(l.frames, XDP_LEVEL_LEAST);
}

static void level__a_few_times_what_waits(void **state)
{
	struct xdp_level l;

	(void)state;
	xdp_level_init(&l);
	look(&l, 7, XDP_LEVEL_LOOKS - 1);
	look(&l, 200, 1);
	assert_int_equal(l.frames, 200 * XDP_LEVEL_ROOM);
	look(&l, 7, XDP_LEVEL_LOOKS);
	assert_int_equal(l.frames, XDP_LEVEL_LEAST);
	look(&l, XDP_LEVEL_ALL, XDP_LEVEL_LOOKS);
	assert_int_equal(l.frames, XDP_LEVEL_ALL);
}

/* While a quarter of the frames waits, three quarters are still to be filled. */
static void level__a_burst_finds_all_frames(void **state)
{
	struct xdp_level l;

	(void)state;
	xdp_level_init(&l);
	look(&l, 0, XDP_LEVEL_LOOKS);
	look(&l, XDP_LEVEL_LEAST / XDP_LEVEL_ROOM, 1);
	assert_int_equal(l.frames, XDP_LEVEL_LEAST);
	look(&l, XDP_LEVEL_LEAST / XDP_LEVEL_ROOM + 1, 1);
	assert_int_equal(l.frames, XDP_LEVEL_ALL);
	look(&l, 0, XDP_LEVEL_LOOKS / 2);
	assert_int_equal(l.frames, XDP_LEVEL_ALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(level__all_frames_at_first),
		cmocka_unit_test(level__a_few_times_what_waits),
		cmocka_unit_test(level__a_burst_finds_all_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
