/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include "core/wire/ctlmsg.h"
#include "core/wire/progress.h"

static struct fan_progress progress;

static int clear(void **state __attribute__((unused)))
{
	memset(&progress, 0, sizeof progress);
	return 0;
}

TEST_WITH(progress__notes_the_highest, clear, NULL)
{
	fan_progress_note(&progress, 0, 7);
	fan_progress_note(&progress, 0, 3); /* sent again */
	fan_progress_note(&progress, 1, 9);
	assert_int_equal(progress.next[0], 8);
	assert_int_equal(progress.front, 10);
}

/* There is no fragment behind the last number: it turns nothing back. */
TEST_WITH(progress__the_last_number, clear, NULL)
{
	fan_progress_note(&progress, 0, 7);
	fan_progress_note(&progress, 1, UINT64_MAX);
	assert_int_equal(progress.front, 8);
	assert_int_equal(progress.next[1], 0);
	fan_progress_note(&progress, 1, UINT64_MAX - 1);
	assert_true(progress.front == UINT64_MAX && progress.next[1] == UINT64_MAX);
	assert_int_equal(fan_progress_behind(&progress, 0), UINT16_MAX);
}

TEST_WITH(progress__answer_and_what_it_says, clear, NULL)
{
	for (uint16_t r = 0; r < 3; r++)
		fan_progress_note(&progress, r, 100 + 50 * r);
	const struct fan_frag asked = {
		.job = 0x100, .epoch = 9, .frag = 150, .sender = 1, .type = FAN_TYPE_DATA};
	struct fan_frag f = fan_progress_answer(&progress, 3, &asked), got;
	uint8_t head[FAN_HEAD_BYTES];
	fan_wire_put(head, &f);
	assert_int_equal(fan_wire_get(&got, head, sizeof head), -1);
	assert_int_equal(got.type, FAN_TYPE_PROGRESS);
	assert_int_equal(got.sender, FAN_RANK_NONE);
	assert_int_equal(got.frag, 150);
	assert_int_equal(got.behind, 50);
	assert_int_equal(got.before, 50);
}

/* The slowest may be before the one who asks, or too far behind for the field. */
TEST_WITH(progress__ends_of_the_range, clear, NULL)
{
	fan_progress_note(&progress, 0, 500);
	fan_progress_note(&progress, 1, 400000);
	struct fan_frag asked = {.frag = 10};
	struct fan_frag f = fan_progress_answer(&progress, 2, &asked);
	assert_int_equal(f.behind, 0);
	assert_int_equal(f.before, UINT16_MAX);
	asked.frag = 400000;
	f = fan_progress_answer(&progress, 2, &asked);
	assert_int_equal(f.behind, UINT16_MAX);
}

TEST_WITH(progress__how_a_rank_stands, clear, NULL)
{
	struct fan_standing s = {.flags = 0};
	fan_progress_note(&progress, 0, 99);
	fan_progress_note(&progress, 1,
			  20); /* heard of for the first time: it may have begun late */
	fan_progress_standing(&progress, 1, &s);
	assert_int_equal(s.behind, 79);
	assert_int_equal(s.most, 79);
	assert_int_equal(s.flags, FAN_RANK_STRAGGLES);
	fan_progress_note(&progress, 1, 97);
	fan_progress_note(&progress, 1, 60); /* sent again */
	s.flags = 0;
	fan_progress_standing(&progress, 1, &s);
	assert_int_equal(s.behind, 2);
	assert_int_equal(s.most, 79);
	assert_int_equal(s.flags, 0);
	fan_progress_note(&progress, 0, 200000);
	fan_progress_standing(&progress, 1, &s);
	assert_int_equal(s.behind, UINT16_MAX);
	fan_progress_standing(&progress, 0, &s);
	assert_int_equal(s.behind, 0);
	assert_int_equal(s.most, 0);
}

TEST_WITH(progress__who_straggles, clear, NULL)
{
	fan_progress_note(&progress, 0, 0);
	fan_progress_note(&progress, 1, FAN_LAG_FRAGS - 1);
	assert_false(fan_progress_straggles(&progress, 0));
	fan_progress_note(&progress, 1, FAN_LAG_FRAGS);
	assert_true(fan_progress_straggles(&progress, 0));
	assert_false(fan_progress_straggles(&progress, 1));
}

/* ---- ctlmsg_fields: where each field of a control message lies: a decoder and an encoder that go
 * by one table would agree on a wrong place. ---- */

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

TEST(ctlmsg_fields__of_members_lie_where_the_page_says)
{
	fan_ctl_put(body, &(struct fan_join){1, 3, 5, 7, 8, 2, "ab", 15, 19, 27});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 4}, {14, 4}, {18, 8}, {26, 4});
	assert_memory_equal(body + 11, "\2ab", 3);
	fan_ctl_put(body,
		    &(struct fan_welcome){1, 3, 5, 9, 13, 14, "0123456789abcdef", 32, 34, 35});
	LIE({0, 2}, {2, 2}, {4, 4}, {8, 4}, {12, 1}, {13, 2}, {31, 2}, {33, 1}, {34, 8});
	assert_memory_equal(body + 15, "0123456789abcdef", 16);
	fan_ctl_put(body, &(struct fan_refuse){1, 2, 4, 8, {0}});
	LIE({0, 1}, {1, 2}, {3, 4}, {7, 4});
	fan_ctl_put(body, &(struct fan_beat){1, 2, {10, 12, 14}});
	LIE({0, 1}, {1, 8}, {9, 2}, {11, 2}, {13, 2});
	fan_ctl_put(body, &(struct fan_state){
				  1, 9, 10, 11, 12, 14, 16, 18, 22, {26, 34, 42, 50}, 58, {0}});
	LIE({0, 8}, {8, 1}, {9, 1}, {10, 1}, {11, 2}, {13, 2}, {15, 2}, {17, 4}, {21, 4}, {25, 8},
	    {33, 8}, {41, 8}, {49, 8}, {57, 4});
	fan_ctl_put(body, &(struct fan_leave){1, {2, 10, 18, 26}});
	LIE({0, 1}, {1, 8}, {9, 8}, {17, 8}, {25, 8});
}

TEST(ctlmsg_fields__of_reports_lie_where_the_page_says)
{
	fan_ctl_put(body, &(struct fan_query){1, 3});
	LIE({0, 2}, {2, 2});
	fan_ctl_put(body, &(struct fan_report){1,
					       3,
					       5,
					       6,
					       7,
					       8,
					       10,
					       12,
					       14,
					       22,
					       30,
					       38,
					       {42, 50, 58, 66},
					       1,
					       "a",
					       76,
					       80,
					       {0}});
	LIE({0, 2}, {2, 2}, {4, 1}, {5, 1}, {6, 1}, {7, 2}, {9, 2}, {11, 2}, {13, 8}, {21, 8},
	    {29, 8}, {37, 4}, {41, 8}, {49, 8}, {57, 8}, {65, 8}, {75, 4}, {79, 2});
	assert_memory_equal(body + 73, "\1a", 2);
	fan_ctl_put(body, &(struct fan_slot_stats){1, 3, 5, 6, 10, 14, 18, 22, 30, 38, 46, 54, 62,
						   70, 78, 86, 1, "b"});
	LIE({0, 2}, {2, 2}, {4, 1}, {5, 4}, {9, 4}, {13, 4}, {17, 4}, {21, 8}, {29, 8}, {37, 8},
	    {45, 8}, {53, 8}, {61, 8}, {69, 8}, {77, 8}, {85, 8});
	assert_memory_equal(body + 93, "\1b", 2);
	fan_ctl_put(body,
		    &(struct fan_rank_stats){
			    1, 3, 5, 7, 8, 1, "c", 16, 1, {{19, 20, 22, 24, 28, {32, 34, 36}}}});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 8}, {15, 2}, {18, 1}, {19, 2}, {21, 2}, {23, 4},
	    {27, 4}, {31, 2}, {33, 2}, {35, 2});
	assert_memory_equal(body + 37, "\1c", 2);
	fan_ctl_put(body, &(struct fan_helper_stats){1, 3, 5, 1, "d", 7, 9, 1, {{12, 14}}});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}, {11, 2}, {13, 4});
	assert_memory_equal(body + 17, "\1d", 2);
	fan_ctl_put(body, &(struct fan_echoed){1, 3, 5, 7, 8, "12345678", 17});
	LIE({0, 2}, {2, 2}, {4, 2}, {6, 1}, {7, 1}, {16, 2});
	assert_memory_equal(body + 8, "12345678", 8);
}

UNIT_MAIN
