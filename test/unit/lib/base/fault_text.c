/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/unit.h"

#include <errno.h>
#include <string.h>

#include "lib/base/fault_text.h"

static char text[FAN_FAULT_TEXT_BYTES];

static struct fan_fault f;
static struct fan_fault_about a;

/* Begin anew with a fault of these fields. */
#define fault(...) (a = about(), f = (struct fan_fault){__VA_ARGS__})

static struct fan_fault_about about(void)
{
	return (struct fan_fault_about){
		.inside = -1,
		.job = "train",
		.switch_addr = "10.0.0.1:5000",
		.rank = 1,
		.ranks = 8,
		.alive_ms = 10000,
		.timeout_ms = 30000,
		.joined = true,
	};
}

static void says(const char *want)
{
	assert_string_equal(fan_fault_text(text, sizeof text, &f, &a), want);
}

static const char *ranks_text(const unsigned *ranks, size_t count)
{
	uint64_t set[FAN_RANK_WORDS] = {0};
	for (size_t i = 0; i < count; i++)
		fan_ranks_set(set, ranks[i]);
	assert_int_equal(fan_fault_ranks_text(text, sizeof text, set), count);
	return text;
}

TEST(ranks_text__lists_and_runs)
{
	assert_string_equal(ranks_text(NULL, 0), "");
	assert_string_equal(ranks_text((unsigned[]){3}, 1), "rank 3");
	assert_string_equal(ranks_text((unsigned[]){2, 3}, 2), "ranks 2, 3");
	assert_string_equal(ranks_text((unsigned[]){2, 5, 6, 7}, 4), "ranks 2, 5-7");
	assert_string_equal(ranks_text((unsigned[]){0, 1, 2, 255}, 4), "ranks 0-2, 255");
	assert_string_equal(ranks_text((unsigned[]){254, 255}, 2), "ranks 254, 255");
}

TEST(ranks_text__long_lists_are_cut)
{
	uint64_t every_second[FAN_RANK_WORDS];
	char small[64];
	for (unsigned i = 0; i < FAN_RANK_WORDS; i++)
		every_second[i] = UINT64_C(0x5555555555555555);
	assert_int_equal(fan_fault_ranks_text(small, sizeof small, every_second), 128);
	assert_true(strlen(small) < sizeof small);
	assert_memory_equal(small, "ranks 0, 2, 4", 13);
	assert_string_equal(small + strlen(small) - 5, ", ...");
}

TEST(fault_text__ranks)
{
	fault(.err = FAN_E_RANK_LOST);
	fan_ranks_set(f.ranks, 3);
	says("rank 3 stopped answering (silent for more than 10.0 s)");
	f.err = FAN_E_RANK_LEFT;
	says("rank 3 left job \"train\" while other ranks still needed it");
	f.err = FAN_E_STALLED;
	f.frag = 7;
	says("no progress for 30 s: rank 3 did not take part (fragment 7)");
	memset(f.ranks, 0, sizeof f.ranks);
	says("no progress for 30 s: fragment 7 did not come back");
	f.err = FAN_E_TIMEOUT;
	says("some ranks of 8 have not joined job \"train\" within 30 s");
	fan_ranks_set(f.ranks, 2);
	says("rank 2 of 8 has not joined job \"train\" within 30 s");
	for (unsigned r = 5; r < 8; r++)
		fan_ranks_set(f.ranks, r);
	says("ranks 2, 5-7 of 8 have not joined job \"train\" within 30 s");
	memset(f.ranks, 0, sizeof f.ranks);
	fan_ranks_set(f.ranks, 0);
	a.inside = 0;
	says("rank 0 of 8 has not joined job \"train\" within 30 s, and runs the switch that "
	     "answers here, so it has met others: is rank 1 started twice?");
}

TEST(fault_text__stopped_and_other_versions)
{
	fault(.err = FAN_E_STOPPED);
	a.switch_addr = "10.0.0.1:5000";
	a.joined = true;
	says("the switch 10.0.0.1:5000 is being stopped");
	a.joined = false;
	says("the switch 10.0.0.1:5000 is being stopped, and takes no new jobs");
	a.joined = true;
	a.server_addr = "10.0.0.9:5000";
	says("the server 10.0.0.9:5000 behind the switch 10.0.0.1:5000 is being stopped");
	a.rank = 4;
	f = (struct fan_fault){.err = FAN_E_VERSION, .desc_a = 3, .desc_b = 2};
	says("the switch 10.0.0.1:5000 speaks version 3 of the protocol, rank 4 version 2: both "
	     "must be of releases that have one in common");
	f.desc_b = 0; /* it has not said which */
	says("the switch 10.0.0.1:5000 speaks another version of the protocol");
}

TEST(fault_text__no_descriptors)
{
	fault(.err = FAN_E_FILES);
	a.files = 6;
	a.files_max = 256;
	fan_ranks_set(f.ranks, 0);
	says("rank 0 has too few file descriptors left for job \"train\", which takes 6 here "
	     "of 256 that a process may have: raise the limit there (ulimit -n), or destroy "
	     "groups that are not used");
}

TEST(fault_text__unreachable)
{
	fault(.err = FAN_E_UNREACHABLE);
	says("the switch 10.0.0.1:5000 stopped answering (silent for more than 10.0 s)");
	a.answers = true;
	says("the server behind the switch 10.0.0.1:5000 stopped answering (silent for more than "
	     "10.0 s); the switch itself answers");
	a.answers = false;
	a.joined = false;
	says("the switch 10.0.0.1:5000 does not answer: is `fanin switch` running there and "
	     "is the UDP port open?");
	a.refused = true;
	says("the switch 10.0.0.1:5000 does not answer (port unreachable, ICMP says): no "
	     "`fanin switch` listens there, or a firewall rejects its UDP port");
	a.system_errno = EPERM;
	says("the operating system refuses this rank's packets to the switch "
	     "10.0.0.1:5000: Operation not permitted");
	a.system_errno = 0;
	a.answers = true;
	says("the switch 10.0.0.1:5000 is there, but does not answer to join: is the switch or "
	     "server running that it sends sums on to?");
	a.sealed = true;
	says("the switch 10.0.0.1:5000 is there, but does not answer to join: is FANIN_KEY_FILE "
	     "the key of this job's tenant there, and is the switch or server running that it "
	     "sends sums on to?");
}

TEST(fault_text__unreachable_for_another_rank)
{
	fault(.err = FAN_E_UNREACHABLE);
	fan_ranks_set(f.ranks, 4);
	says("rank 4 lost a switch that sums another part of the tensors");
	a.only = true;
	says("rank 4 lost the switch 10.0.0.1:5000, which answers this rank: see to the path "
	     "between them");
	a.only = false;
}

TEST(fault_text__unreachable_inside_a_rank)
{
	fault(.err = FAN_E_UNREACHABLE);
	a.inside = 3;
	says("the switch 10.0.0.1:5000 inside rank 3 stopped answering (silent for more than "
	     "10.0 s): the rank or its machine has died");
	a.refused = true;
	says("the switch 10.0.0.1:5000 inside rank 3 stopped answering (silent for more than "
	     "10.0 s): ICMP says that its port is closed");
	a.joined = false;
	says("no switch at 10.0.0.1:5000, where rank 3 should have started one: did it "
	     "start, and is the UDP port open?  FANIN_SWITCH=HOST:PORT names another");
	a.answers = a.sealed = true;
	says("the switch 10.0.0.1:5000 inside rank 3 answers, but takes nothing of this rank: "
	     "FANIN_KEY_FILE must name the same key on all ranks");
	f.err = FAN_E_SEALED;
	says("the switch 10.0.0.1:5000 inside rank 3 has no key, rank 1 has one: set "
	     "FANIN_KEY_FILE on all ranks, to the same key, or on none");
	a.sealed = false;
	says("the switch 10.0.0.1:5000 inside rank 3 has a key, rank 1 has none: set "
	     "FANIN_KEY_FILE on all ranks, to the same key, or on none");
}

/* In a column, rank r of which is called global[r], and whose hosts' switches have names of others.
 */
TEST(fault_text__ranks_of_a_column)
{
	static const uint16_t global[] = {1, 5};
	fault(.err = FAN_E_RANK_LOST);
	a.ranks = 2;
	a.global = global;
	fan_ranks_set(f.ranks, 1);
	says("rank 5 stopped answering (silent for more than 10.0 s)");
	static const uint16_t rank_at[2][FAN_HOST_RANKS_MAX] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
	f.err = FAN_CAUSE_LOST(2);
	a.rank_at = rank_at;
	says("rank 6 stopped answering (another rank says so)");
	f.err = FAN_E_UNREACHABLE;
	says("rank 5 lost a switch that sums another part of the tensors");
}

static fan_desc desc(uint16_t count, uint8_t dtype, uint8_t op, uint16_t flags)
{
	struct fan_frag frag = {.count = count, .dtype = dtype, .op = op, .flags = flags};
	return fan_desc_of(&frag);
}

TEST(fault_text__mismatch)
{
	fault(.err = FAN_E_MISMATCH, .rank_a = 0, .rank_b = 3,
	      .desc_a = desc(352, FAN_FLOAT32, FAN_SUM, FAN_F_LAST),
	      .desc_b = desc(100, FAN_INT32, FAN_MAX, FAN_F_FIRST | FAN_F_LAST | FAN_F_REDUCE));
	says("ranks disagree: rank 0 sent sum of float32, 352 elements (the last fragment of "
	     "its operation), rank 3 sent reduce with maximum of int32, 100 elements (the "
	     "only fragment of its operation)");
	f.desc_b = desc(8, FAN_FLOAT64, FAN_MIN, 0);
	says("ranks disagree: rank 0 sent sum of float32, 352 elements (the last fragment of "
	     "its operation), rank 3 sent minimum of float64, 8 elements (in the middle of its "
	     "operation)");
	f.desc_b = desc(0, FAN_UINT8, FAN_BARRIER, FAN_F_FIRST | FAN_F_LAST);
	says("ranks disagree: rank 0 sent sum of float32, 352 elements (the last fragment of "
	     "its operation), rank 3 sent a barrier");
	f.rank_b = FAN_RANK_NONE;
	says("ranks disagree about count, type or operation");
}

TEST(fault_text__refusals)
{
	fault(.err = FAN_E_RANK_TAKEN, .rank_a = 1);
	says("rank 1 of job \"train\" is already taken: is another process using this rank, "
	     "or is an earlier run still there?");
	f = (struct fan_fault){.err = FAN_E_JOB_MISMATCH,
			       .desc_a = FAN_ABOUT_RANKS << 24 | 4,
			       .desc_b = FAN_ABOUT_RANKS << 24 | 8};
	says("ranks disagree about job \"train\": it has 4 ranks, rank 1 was started with 8");
	f = (struct fan_fault){.err = FAN_E_JOB_MISMATCH,
			       .desc_a = FAN_ABOUT_PAYLOAD << 24 | 8832,
			       .desc_b = FAN_ABOUT_PAYLOAD << 24 | 1408};
	says("ranks disagree about job \"train\": it uses fragments of 8832 bytes, rank 1 "
	     "has 1408: the mtu must be the same");
	f = (struct fan_fault){.err = FAN_E_SHARDS, .desc_a = 2, .desc_b = 1};
	says("the switch 10.0.0.1:5000 runs 2 threads, the server behind it 1: start both "
	     "with the same --threads");
	f = (struct fan_fault){.err = FAN_E_ROUTE};
	says("the switch 10.0.0.1:5000 has no route for rank 1 of job \"train\": has the plan "
	     "another first hop for it, or was the switch started anew?");
	f = (struct fan_fault){.err = FAN_E_PAYLOAD, .desc_a = 1408, .desc_b = 8832};
	says("the switch 10.0.0.1:5000 has slots of 1408 bytes, this job wants fragments of "
	     "8832: use a smaller mtu, or start the switch with a larger one");
}

/* No sentence is empty or too long, whatever the switch says. */
TEST(fault_text__every_error_has_one)
{
	for (int err = -128; err <= 0; err++) {
		fault(.err = err, .desc_a = UINT32_MAX, .desc_b = UINT32_MAX);
		memset(f.ranks, 0xff, sizeof f.ranks);
		size_t len = strlen(fan_fault_text(text, sizeof text, &f, &a));
		assert_true(len > 0 && len < sizeof text - 1);
	}
}

/* Told of by another rank: which fragment is not known. */
TEST(fault__no_fragment_where_none_is_known)
{
	fault(.err = FAN_E_STALLED, .frag = FAN_FRAG_NONE, .ranks = {8});
	says("no progress for 30 s: rank 3 did not take part");
	f.ranks[0] = 0;
	says("no progress for 30 s: a result did not come back");
}

/* Jobs live at the server behind a switch: it is the one that has gone or begun anew. */
TEST(fault__names_the_server)
{
	fault(.err = FAN_E_RESTARTED);
	a.server_addr = "10.0.0.9:6000";
	says("the server 10.0.0.9:6000 behind the switch 10.0.0.1:5000 does not know job "
	     "\"train\" any more: it was restarted");
	f.err = FAN_E_UNREACHABLE;
	says("the server 10.0.0.9:6000 stopped answering (silent for more than 10.0 s), "
	     "through the switch 10.0.0.1:5000 and past it");
}

UNIT_MAIN
