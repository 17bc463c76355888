/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "file/text.h"

#define add	   fan_text_add
#define LIST_BYTES 160 /* a list of ranks within a sentence */

/* One past the last of the run of ranks that begins with `first`. */
static unsigned run_end(const uint64_t *ranks, unsigned first)
{
	while (first < FAN_RANKS_MAX && fan_ranks_has(ranks, first))
		first++;
	return first;
}

unsigned fan_fault_ranks_text(char *text, size_t bytes, const uint64_t *ranks)
{
	enum { ROOM_FOR_MORE = 16 }; /* ", 200-210, ..." and its zero */
	struct fan_text t = fan_text_in(text, bytes);
	unsigned count = fan_ranks_count(ranks);
	bool cut = false;
	if (count)
		add(&t, count == 1 ? "rank" : "ranks");
	const char *comma = " ";
	for (unsigned r = 0; r < FAN_RANKS_MAX && !cut; r++) {
		if (!fan_ranks_has(ranks, r))
			continue;
		unsigned end = run_end(ranks, r);
		cut = t.bytes - t.used < ROOM_FOR_MORE + 4;
		if (cut)
			add(&t, "%s...", comma);
		else if (end - r < 2)
			add(&t, "%s%u", comma, r);
		else
			add(&t, end - r == 2 ? "%s%u, %u" : "%s%u-%u", comma, r, end - 1);
		comma = ", ";
		r = end;
	}
	return count;
}

static const char *op_text(unsigned op)
{
	static const char *const text[FAN_REDOP_COUNT] = {"sum",     "average",	  "minimum",
							  "maximum", "broadcast", "barrier"};
	return op < FAN_REDOP_COUNT ? text[op] : "unknown operation";
}

static const char *dtype_text(unsigned dtype)
{
	static const char *const text[FAN_DTYPE_COUNT] = {
		"float32",
		"float16",
		"bfloat16",
		"int32",
		"int64",
		"float32 in fixed point",
		"float32 in fixed point (exponents)",
		"uint8",
		"float64",
		"float32 in 8 bits",
	};
	_Static_assert(sizeof text / sizeof *text == FAN_BLOCK8 + 1, "every type has a name");
	return dtype < FAN_DTYPE_COUNT ? text[dtype] : "unknown type";
}

/* "reduce-scatter with sum of float32, 352 elements a rank" */
static void add_operation(struct fan_text *t, const struct fan_fault_asked *a)
{
	const bool member = a->kind & FAN_MARK_MEMBER, rooted = a->reduce || a->op == FAN_BCAST;
	const char *with = !a->reduce ? "" : member ? "reduce-scatter with " : "reduce with ";
	const char *op = member && a->op == FAN_BCAST ? "all-gather" : op_text(a->op);
	add(t, "%s%s of %s, %llu elements%s", with, op, dtype_text(a->dtype),
	    (unsigned long long)a->count, member ? " a rank" : "");
	if (rooted && !member && a->root != FAN_RANK_NONE)
		add(t, " %s rank %u", a->reduce ? "to" : "from", a->root);
}

/* "rank 3 sent sum of float32, 352 elements" */
static void add_asked(struct fan_text *t, const struct fan_fault_asked *a)
{
	const unsigned mark = a->kind & FAN_MARK_NAME;
	add(t, "rank %u sent ", a->rank);
	if (a->op == FAN_BARRIER)
		add(t, "a barrier");
	else
		add_operation(t, a);
	if (mark == FAN_MARK_OWN)
		add(t, " of the library's own");
	else if (mark)
		add(t, " with mark %u", mark);
}

void fan_fault_disagreement_text(char *text, size_t bytes, const struct fan_fault_asked *a,
				 const struct fan_fault_asked *b)
{
	struct fan_text t = fan_text_in(text, bytes);
	add(&t, "ranks disagree: ");
	add_asked(&t, a);
	add(&t, ", ");
	add_asked(&t, b);
}

static void add_desc(struct fan_text *t, uint16_t rank, fan_desc d)
{
	const struct fan_fault_asked asked = {
		.rank = rank,
		.op = FAN_DESC_OP(d),
		.dtype = FAN_DESC_DTYPE(d),
		.kind = FAN_DESC_KIND(d),
		.reduce = FAN_DESC_REDUCE(d),
		.count = FAN_DESC_COUNT(d),
		.root = FAN_RANK_NONE,
	};
	add_asked(t, &asked);
	if (asked.op == FAN_BARRIER)
		return;
	add(t, " (%s of its operation)",
	    FAN_DESC_FIRST(d) && FAN_DESC_LAST(d) ? "the only fragment"
	    : FAN_DESC_FIRST(d)			  ? "the first fragment"
	    : FAN_DESC_LAST(d)			  ? "the last fragment"
						  : "in the middle");
}

static void add_mismatch(struct fan_text *t, const struct fan_fault *f)
{
	if (f->rank_a == FAN_RANK_NONE || f->rank_b == FAN_RANK_NONE) {
		add(t, "ranks disagree about count, type or operation");
		return;
	}
	add(t, "ranks disagree: ");
	add_desc(t, f->rank_a, f->desc_a);
	add(t, ", ");
	add_desc(t, f->rank_b, f->desc_b);
	if (f->desc_a == f->desc_b)
		add(t, ": they disagree about the root, or about type or average on their hosts");
}

/* A refusal that compares what the job has with what this rank asked for: its size, its
 * payload, or its options, distinguished by which of ours it quotes. */
static void add_job_mismatch(struct fan_text *t, const struct fan_fault *f,
			     const struct fan_fault_about *a)
{
	add(t, "ranks disagree about job \"%s\": ", a->job);
	uint32_t have = f->desc_a & 0xffffff, want = f->desc_b & 0xffffff;
	switch (f->desc_a >> 24) {
	case FAN_ABOUT_RANKS:
		add(t, "it has %u ranks, rank %u was started with %u", have, a->rank, want);
		break;
	case FAN_ABOUT_PAYLOAD:
		add(t, "it uses fragments of %u bytes, rank %u has %u: the mtu must be the same",
		    have, a->rank, want);
		break;
	case FAN_ABOUT_LAUNCH:
		add(t,
		    "rank %u %s the launch it is of, others %s: give all the same FANIN_RUN, or is "
		    "another launch of this name at work?",
		    a->rank, want ? "says" : "does not say", want ? "do not" : "do");
		break;
	case FAN_ABOUT_WINDOW:
		add(t, "it has a window of %u fragments, rank %u allows only %u", have, a->rank,
		    want);
		break;
	default:
		if ((have ^ want) & FAN_JOIN_AHEAD)
			add(t,
			    "rank %u asks %s run ahead, others %s: ahead must be set on all or "
			    "on none",
			    a->rank, want & FAN_JOIN_AHEAD ? "to" : "not to",
			    want & FAN_JOIN_AHEAD ? "do not" : "do");
		else if ((have ^ want) & FAN_JOIN_QUAD)
			add(t,
			    "rank %u has wire int8, others have not, or the reverse: wire must be the "
			    "same on all",
			    a->rank);
		else
			add(t,
			    "rank %u has checksum or narrow, options of older releases, others have not, or the reverse",
			    a->rank);
		break;
	}
}

static void add_unreachable_inside(struct fan_text *t, const struct fan_fault_about *a)
{
	if (a->joined)
		add(t,
		    "the switch %s inside rank %d stopped answering (silent for more than %.1f s): %s",
		    a->switch_addr, a->inside, a->alive_ms / 1e3,
		    a->refused ? "ICMP says that its port is closed"
			       : "the rank or its machine has died");
	else if (a->answers)
		add(t, "the switch %s inside rank %d answers, but takes nothing of this rank%s",
		    a->switch_addr, a->inside,
		    a->sealed ? ": FANIN_KEY_FILE must name the same key on all ranks" : "");
	else
		add(t,
		    "no switch at %s, where rank %d should have started one: did it start, and is "
		    "the UDP port open?  FANIN_SWITCH=HOST:PORT names another",
		    a->switch_addr, a->inside);
}

/* With ranks, those have lost this switch, where it is the only one, or that of another part, and
 * told this one. */
static void add_unreachable(struct fan_text *t, const struct fan_fault *f,
			    const struct fan_fault_about *a)
{
	char list[LIST_BYTES];
	if (fan_fault_ranks_text(list, sizeof list, f->ranks) && a->only)
		add(t,
		    "%s lost the switch %s, which answers this rank: see to the path between them",
		    list, a->switch_addr);
	else if (*list)
		add(t, "%s lost a switch that sums another part of the tensors", list);
	else if (a->system_errno)
		add(t, "the operating system refuses this rank's packets to the switch %s: %s",
		    a->switch_addr, strerror(a->system_errno));
	else if (a->inside >= 0)
		add_unreachable_inside(t, a);
	else if (a->joined && a->server_addr)
		add(t,
		    "the server %s stopped answering (silent for more than %.1f s), through the "
		    "switch %s and past it%s",
		    a->server_addr, a->alive_ms / 1e3, a->switch_addr,
		    a->refused ? ": ICMP says that its port is closed" : "");
	else if (a->joined && a->answers)
		add(t,
		    "the server behind the switch %s stopped answering (silent for more than %.1f s); "
		    "the switch itself answers",
		    a->switch_addr, a->alive_ms / 1e3);
	else if (a->joined)
		add(t, "the switch %s stopped answering (silent for more than %.1f s)%s",
		    a->switch_addr, a->alive_ms / 1e3,
		    a->refused ? ": ICMP says that its port is closed" : "");
	else if (a->answers)
		add(t,
		    "the switch %s is there, but does not answer to join: %sis the switch or server "
		    "running that it sends sums on to?",
		    a->switch_addr,
		    a->sealed ? "is FANIN_KEY_FILE the key of this job's tenant there, and " : "");
	else if (a->refused)
		add(t,
		    "the switch %s does not answer (port unreachable, ICMP says): no `fanin switch` "
		    "listens there, or a firewall rejects its UDP port",
		    a->switch_addr);
	else
		add(t,
		    "the switch %s does not answer: is `fanin switch` running there%s and is the UDP "
		    "port open?",
		    a->switch_addr,
		    a->sealed ? ", is FANIN_KEY_FILE the key of this job's tenant there," : "");
}

/* Sentences about ranks to blame. */
static void add_ranks(struct fan_text *t, const struct fan_fault *f,
		      const struct fan_fault_about *a)
{
	char list[LIST_BYTES];
	unsigned n = fan_fault_ranks_text(list, sizeof list, f->ranks);
	const char *who = n ? list : "a rank";
	switch (f->err) {
	case FAN_E_TIMEOUT:
		if (!n)
			who = "some ranks";
		add(t, "%s", who);
		if (!a->global) /* a column has a rank for each host */
			add(t, " of %u", a->ranks);
		add(t, " %s not joined job \"%s\" within %.4g s", n == 1 ? "has" : "have", a->job,
		    a->timeout_ms / 1e3);
		if (!a->global && a->inside >= 0 && fan_ranks_has(f->ranks, (unsigned)a->inside))
			add(t,
			    ", and runs the switch that answers here, so it has met others: is rank "
			    "%u started twice?",
			    a->rank);
		break;
	case FAN_E_RANK_LOST:
		if (a->reported)
			add(t, "%s stopped answering (another rank says so)", who);
		else
			add(t, "%s stopped answering (silent for more than %.1f s)", who,
			    a->alive_ms / 1e3);
		break;
	case FAN_E_RANK_LEFT:
		add(t, "%s left job \"%s\" while other ranks still needed %s", who, a->job,
		    n > 1 ? "them" : "it");
		break;
	case FAN_E_MTU: /* the others reported what they found */
		add(t,
		    "packets of %s do not fit its path to the switch: give all ranks a smaller mtu",
		    who);
		break;
	case FAN_E_FILES:
		add(t,
		    "%s %s too few file descriptors left for job \"%s\", which takes %u here of %llu "
		    "that a process may have: raise the limit there (ulimit -n), or destroy groups "
		    "that are not used",
		    who, n > 1 ? "have" : "has", a->job, a->files, a->files_max);
		break;
	default:
		add(t, "no progress for %.4g s: ", a->timeout_ms / 1e3);
		if (n)
			add(t, "%s did not take part", list);
		else if (f->frag == FAN_FRAG_NONE)
			add(t, "a result did not come back");
		if (n && f->frag != FAN_FRAG_NONE)
			add(t, " (fragment %llu)", (unsigned long long)f->frag);
		else if (!n && f->frag != FAN_FRAG_NONE)
			add(t, "fragment %llu did not come back", (unsigned long long)f->frag);
		break;
	}
}

static void add_version(struct fan_text *t, const struct fan_fault *f,
			const struct fan_fault_about *a)
{
	if (f->desc_b && f->desc_a == f->desc_b)
		add(t,
		    "the switch %s is of a release that does not sum eight bits: expected a newer one "
		    "there, or another wire than int8",
		    a->switch_addr);
	else if (f->desc_b)
		add(t,
		    "the switch %s speaks version %u of the protocol, rank %u version %u: both must "
		    "be of releases that have one in common",
		    a->switch_addr, f->desc_a, a->rank, f->desc_b);
	else
		add(t, "the switch %s speaks another version of the protocol", a->switch_addr);
}

/* An address in network order, INET6_ADDRSTRLEN bytes of text.  False: there is none. */
static bool host_text(char *text, const uint8_t *at)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, none[16];
	const bool v4 = !memcmp(at, mapped, sizeof mapped);
	return memcmp(at, none, sizeof none) != 0 &&
	       inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? at + sizeof mapped : at, text,
			 INET6_ADDRSTRLEN) != NULL;
}

/* Two processes were the same rank, which this one may be. */
static void add_launches(struct fan_text *t, const struct fan_fault *f,
			 const struct fan_fault_about *a)
{
	char list[LIST_BYTES], first[INET6_ADDRSTRLEN], second[INET6_ADDRSTRLEN];
	const unsigned n = fan_fault_ranks_text(list, sizeof list, f->ranks);
	if (!n && f->rank_a != FAN_RANK_NONE)
		snprintf(list, sizeof list, "rank %u", f->rank_a);
	add(t, "two launches use the name \"%s\" at once: %s %s started", a->job,
	    *list ? list : "a rank", n > 1 ? "were" : "was");
	if (host_text(first, f->hosts) && host_text(second, f->hosts + FAN_HOSTS_BYTES / 2))
		add(t, " at %s and at %s", first, second);
	else
		add(t, " twice");
	add(t, "; give each launch a FANIN_JOB or a FANIN_RUN of its own");
}

static void add_sealed(struct fan_text *t, const struct fan_fault_about *a)
{
	if (a->inside >= 0)
		add(t,
		    "the switch %s inside rank %d has %s key, rank %u has %s: set FANIN_KEY_FILE on "
		    "all ranks, to the same key, or on none",
		    a->switch_addr, a->inside, a->sealed ? "no" : "a", a->rank,
		    a->sealed ? "one" : "none");
	else
		add(t,
		    a->sealed
			    ? "the switch %s has no key, so nothing would be sealed: start it with "
			      "--key, or unset FANIN_KEY_FILE"
			    : "the switch %s takes sealed jobs only: set FANIN_KEY_FILE to the file "
			      "with the key of this job's tenant (fanin key job)",
		    a->switch_addr);
}

/* Sentences about what the switch refused. */
static void add_refusal(struct fan_text *t, const struct fan_fault *f,
			const struct fan_fault_about *a)
{
	const char *sw = a->switch_addr;
	switch (f->err) {
	case FAN_E_RANK_TAKEN:
		add(t,
		    "rank %u of job \"%s\" is already taken: is another process using this rank, or "
		    "is an earlier run still there?",
		    a->rank, a->job);
		break;
	case FAN_E_JOBS_FULL:
		add(t, "the switch %s serves %u jobs and takes no more", sw, f->desc_a);
		break;
	case FAN_E_SLOTS_FULL:
		add(t,
		    "the switch %s has no slots left for job \"%s\" (%u in all): start it with more "
		    "--slots, or wait for another job to end",
		    sw, a->job, f->desc_a);
		break;
	case FAN_E_MEMBERS_FULL:
		add(t, "the switch %s has no room for %u more ranks (%u in all)", sw, a->ranks,
		    f->desc_a);
		break;
	case FAN_E_PAYLOAD:
		add(t,
		    "the switch %s has slots of %u bytes, this job wants fragments of %u: use a "
		    "smaller mtu, or start the switch with a larger one",
		    sw, f->desc_a, f->desc_b);
		break;
	case FAN_E_SHARDS:
		add(t,
		    "the switch %s runs %u threads, the server behind it %u: start both with the "
		    "same --threads",
		    sw, f->desc_a, f->desc_b);
		break;
	case FAN_E_ROUTE:
		add(t,
		    "the switch %s has no route for rank %u of job \"%s\": has the plan another first "
		    "hop for it, or was the switch started anew?",
		    sw, a->rank, a->job);
		break;
	case FAN_E_SEALED: add_sealed(t, a); break;
	case FAN_E_VERSION: add_version(t, f, a); break;
	case FAN_E_STOPPED:
		if (a->server_addr)
			add(t, "the server %s behind ", a->server_addr);
		add(t, "the switch %s is being stopped%s", sw,
		    a->joined ? "" : ", and takes no new jobs");
		break;
	default:		    /* FAN_E_RESTARTED */
		if (a->server_addr) /* jobs are known there, and not at the switch */
			add(t,
			    "the server %s behind the switch %s does not know job \"%s\" any more: "
			    "it was restarted",
			    a->server_addr, sw, a->job);
		else
			add(t, "the switch %s does not know job \"%s\" any more: it was restarted",
			    sw, a->job);
		break;
	}
}

/* The fault with ranks as they are called. */
static struct fan_fault renamed(const struct fan_fault *f, const struct fan_fault_about *a)
{
	struct fan_fault o = *f;
	if (!a->global)
		return o;
	int number = FAN_CAUSE_LOST(0) - f->err;
	bool lost = a->rank_at && number >= 0 && number < FAN_HOST_RANKS_MAX;
	memset(o.ranks, 0, sizeof o.ranks);
	for (unsigned r = 0; r < a->ranks; r++)
		if (fan_ranks_has(f->ranks, r))
			fan_ranks_set(o.ranks, lost ? a->rank_at[r][number] : a->global[r]);
	if (lost)
		o.err = FAN_E_RANK_LOST;
	if (o.rank_a < a->ranks)
		o.rank_a = a->global[o.rank_a];
	if (o.rank_b < a->ranks)
		o.rank_b = a->global[o.rank_b];
	return o;
}

static void add_fault(struct fan_text *t, const struct fan_fault *f,
		      const struct fan_fault_about *a)
{
	switch (f->err) {
	case FAN_E_TIMEOUT:
	case FAN_E_RANK_LOST:
	case FAN_E_RANK_LEFT:
	case FAN_E_STALLED:
	case FAN_E_FILES:
	case FAN_E_MTU: add_ranks(t, f, a); break;
	case FAN_E_MISMATCH: add_mismatch(t, f); break;
	case FAN_E_LAUNCHES: add_launches(t, f, a); break;
	case FAN_E_JOB_MISMATCH: add_job_mismatch(t, f, a); break;
	case FAN_E_UNREACHABLE: add_unreachable(t, f, a); break;
	case FAN_E_RANK_TAKEN:
	case FAN_E_JOBS_FULL:
	case FAN_E_SLOTS_FULL:
	case FAN_E_MEMBERS_FULL:
	case FAN_E_PAYLOAD:
	case FAN_E_SHARDS:
	case FAN_E_ROUTE:
	case FAN_E_SEALED:
	case FAN_E_VERSION:
	case FAN_E_STOPPED:
	case FAN_E_RESTARTED: add_refusal(t, f, a); break;
	default: add(t, "%s", fan_err_text(f->err)); break;
	}
}

const char *fan_fault_text(char *text, size_t bytes, const struct fan_fault *f,
			   const struct fan_fault_about *a)
{
	struct fan_text t = fan_text_in(text, bytes);
	struct fan_fault_about about = *a;
	struct fan_fault fault = renamed(f, a);
	if (a->global && a->rank < a->ranks)
		about.rank = a->global[a->rank];
	about.reported = fault.err != f->err; /* of a number of a host */
	add_fault(&t, &fault, &about);
	return text;
}
