/* SPDX-License-Identifier: Apache-2.0 */
/* Where each field of a control message lies: a decoder and an encoder that go by one table would
 * agree on a wrong place. */
#include "unit/unit.h"

#include "core/wire/ctlmsg.h"

static uint8_t body[FAN_CTL_BYTES_MAX - FAN_HEAD_BYTES];

/* Each field's value is its offset and one. */
static void lie(const unsigned (*field)[2], size_t fields)
{
	for (size_t i = 0; i < fields; i++) {
		uint64_t got = 0;
		for (unsigned k = 0; k < field[i][1]; k++)
			got |= (uint64_t)body[field[i][0] + k] << 8 * k;
		assert_int_equal(got, field[i][0] + 1);
	}
}

/* {OFFSET, BYTES}... of the body that was written last */
#define LIE(...)                                                                                   \
	lie((const unsigned[][2]){__VA_ARGS__},                                                    \
	    sizeof((const unsigned[][2]){__VA_ARGS__}) / sizeof(unsigned[2]))

static void ctlmsg_fields__of_members_lie_where_the_page_says(void **state)
{
	(void)state;
	fan_join_put(body, &(struct fan_join){1, 3, 5, 7, 8, 2, "ab", 15});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 4}, {14, 4});
	assert_memory_equal(body + 11, "\2ab", 3);
	fan_welcome_put(body,
			&(struct fan_welcome){1, 3, 5, 9, 13, 14, "0123456789abcdef", 32, 34, 35});
	LIE({0, 2}, {2, 2}, {4, 4}, {8, 4}, {12, 1}, {13, 2}, {31, 2}, {33, 1}, {34, 8});
	assert_memory_equal(body + 15, "0123456789abcdef", 16);
	fan_refuse_put(body, &(struct fan_refuse){1, 2, 4, 8});
	LIE({0, 1}, {1, 2}, {3, 4}, {7, 4});
	fan_beat_put(body, &(struct fan_beat){1, 2, {10, 12, 14}});
	LIE({0, 1}, {1, 8}, {9, 2}, {11, 2}, {13, 2});
	fan_state_put(body,
		      &(struct fan_state){1, 9, 10, 11, 12, 14, 16, 18, 22, {26, 34, 42, 50}, 58});
	LIE({0, 8}, {8, 1}, {9, 1}, {10, 1}, {11, 2}, {13, 2}, {15, 2}, {17, 4}, {21, 4}, {25, 8},
	    {33, 8}, {41, 8}, {49, 8}, {57, 4});
	fan_leave_put(body, &(struct fan_leave){1, {2, 10, 18, 26}});
	LIE({0, 1}, {1, 8}, {9, 8}, {17, 8}, {25, 8});
}

static void ctlmsg_fields__of_reports_lie_where_the_page_says(void **state)
{
	(void)state;
	fan_query_put(body, &(struct fan_query){1, 3});
	LIE({0, 2}, {2, 2});
	fan_report_put(body,
		       &(struct fan_report){
			       1, 3, 5, 6, 7, 8, 10, 12, 14, 22, 30, 38, {42, 50, 58, 66}, 1, "a"});
	LIE({0, 2}, {2, 2}, {4, 1}, {5, 1}, {6, 1}, {7, 2}, {9, 2}, {11, 2}, {13, 8}, {21, 8},
	    {29, 8}, {37, 4}, {41, 8}, {49, 8}, {57, 8}, {65, 8});
	assert_memory_equal(body + 73, "\1a", 2);
	fan_slot_stats_put(body, &(struct fan_slot_stats){1, 3, 5, 6, 10, 14, 18, 22, 30, 38, 46,
							  54, 62, 70, 78, 86, 1, "b"});
	LIE({0, 2}, {2, 2}, {4, 1}, {5, 4}, {9, 4}, {13, 4}, {17, 4}, {21, 8}, {29, 8}, {37, 8},
	    {45, 8}, {53, 8}, {61, 8}, {69, 8}, {77, 8}, {85, 8});
	assert_memory_equal(body + 93, "\1b", 2);
	fan_rank_stats_put(
		body, &(struct fan_rank_stats){
			      1, 3, 5, 7, 8, 1, "c", 16, 1, {{19, 20, 22, 24, 28, {32, 34, 36}}}});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 8}, {15, 2}, {18, 1}, {19, 2}, {21, 2}, {23, 4},
	    {27, 4}, {31, 2}, {33, 2}, {35, 2});
	assert_memory_equal(body + 37, "\1c", 2);
	fan_helper_stats_put(body,
			     &(struct fan_helper_stats){1, 3, 5, 1, "d", 7, 9, 1, {{12, 14}}});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}, {11, 2}, {13, 4});
	assert_memory_equal(body + 17, "\1d", 2);
	fan_echoed_put(body, &(struct fan_echoed){1, 3, 5, 7, 8, "12345678", 17});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 1}, {16, 2});
	assert_memory_equal(body + 8, "12345678", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ctlmsg_fields__of_members_lie_where_the_page_says),
		cmocka_unit_test(ctlmsg_fields__of_reports_lie_where_the_page_says),
	};
	return RUN(tests);
}
