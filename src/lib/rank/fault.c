/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - the sentences about a communicator's end, whom it blames, and for what it waits. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file/text.h"
#include "lib/base/fault_text.h"
#include "net/clock.h"
#include "net/netlink.h"
#include "thread.h"

#define FILES_RESERVE 16 /* that a communicator leaves to the rest of the process, at least */
#define LIST_BYTES    160
#define ADDRESS_BYTES 80

/* ---- sentences ---- */

/* Write the sentence for a full fragment that exceeds `mtu` to `why`. */
static void mtu_text(const struct fan_connection *cn, int mtu, char *why)
{
	char addr[80];
	int n = snprintf(why, FAN_CONNECTION_WHY_BYTES,
			 "packets of %u bytes do not fit the path to the switch %s",
			 fan_connection_ip_bytes(cn),
			 fan_peer_text(&cn->switch_addr, addr, sizeof addr));
	if (mtu)
		snprintf(why + n, FAN_CONNECTION_WHY_BYTES - (size_t)n,
			 ", which takes %d: set the mtu of all ranks to at most that", mtu);
}

/* Write the sentence for a path on which mtu_probe has found that large datagrams get lost. */
static void hole_text(const struct fan_connection *cn, char *why)
{
	const struct fan_mtu_probe *t = &cn->mtu_probe;
	const uint32_t more = fan_connection_ip_bytes(cn) - cn->packet_bytes;
	char addr[80];
	if (t->behind_bytes) {
		snprintf(why, FAN_CONNECTION_WHY_BYTES,
			 "packets of %u bytes get lost between the switch %s and where it sends "
			 "sums on, short ones do not: give all ranks and switches a smaller mtu",
			 t->behind_bytes + more,
			 fan_peer_text(&cn->switch_addr, addr, sizeof addr));
		return;
	}
	int n = snprintf(
		why, FAN_CONNECTION_WHY_BYTES,
		"the path to the switch %s loses packets of %u bytes (%u got no answer, short "
		"ones did): ",
		fan_peer_text(&cn->switch_addr, addr, sizeof addr), t->bytes + more, t->rounds);
	if (n < 0 || n >= FAN_CONNECTION_WHY_BYTES)
		return;
	if (t->told_heard)
		snprintf(why + n, FAN_CONNECTION_WHY_BYTES - (size_t)n,
			 "a router takes %d: set the mtu of all ranks to at most that",
			 t->told_mtu);
	else
		snprintf(why + n, FAN_CONNECTION_WHY_BYTES - (size_t)n,
			 "give all ranks a smaller mtu; `fanin doctor` finds which");
}

/* The switch has not answered: if a redirect sends packets to it elsewhere, add that
 * to the sentence `text`, which has room for `bytes` bytes. */
static void add_redirect(const struct fan_connection *cn, char *text, size_t bytes)
{
	struct fan_next_hop path;
	char gateway[80];
	size_t used = strlen(text);
	fan_next_hop_read(&path, &cn->switch_addr);
	if (!path.redirected)
		return;
	fan_peer_text(&path.gateway, gateway, sizeof gateway);
	char *port = strrchr(gateway, ':'); /* that it has not */
	snprintf(text + used, bytes - used,
		 "; an ICMP redirect, which can be forged, leads packets to it by %.*s",
		 port ? (int)(port - gateway) : 0, gateway);
}

/* The aggregator behind the connection's switch, as far as it may be named for `err`; NULL. */
static const fan_peer *server_of(const struct fan_rank *r, const struct fan_connection *cn, int err)
{
	const fan_peer *planned = &r->parts.job[cn->part].aggregator;
	if (!fan_peer_is_none(&cn->server_addr))
		return &cn->server_addr;
	return r->client.on && (err == FAN_E_STOPPED || err == FAN_E_RESTARTED) &&
			       !fan_peer_is_none(planned)
		       ? planned
		       : NULL;
}

/* Descriptors that a rank has, and the highest of them. */
struct files {
	unsigned count;
	int highest;
};

static void add_file(struct files *f, int fd)
{
	if (fd < 0)
		return;
	f->count++;
	f->highest = fd > f->highest ? fd : f->highest;
}

static struct files files_of(const struct fan_rank *r)
{
	struct files f = {.highest = -1};
	add_file(&f, r->thread.epoll_fd);
	add_file(&f, r->thread.wake_fd);
	for (unsigned i = 0; i < r->connections; i++) {
		const struct fan_connection *cn = &r->connection[i];
		if (!cn->w)
			continue;
		add_file(&f, cn->udp.fd);
		add_file(&f, cn->group.fd);
		add_file(&f, cn->failover.aside.fd);
		for (unsigned w = FAN_RING_PAIR_UP; cn->udp.pair[0] && w <= FAN_RING_PAIR_DOWN; w++)
			add_file(&f, fan_ring_pair_fd(cn->udp.pair[0], w));
	}
	return f;
}

void fan_rank_fault_text(const struct fan_rank *r, const struct fan_connection *cn,
			 const struct fan_fault *f, char *text, size_t bytes)
{
	char addr[80], server[80];
	if (f->err == FAN_E_MTU && cn->mtu_probe.behind_bytes) { /* of all, not of the reporter */
		char why[FAN_CONNECTION_WHY_BYTES];
		hole_text(cn, why);
		snprintf(text, bytes, "%s", why);
		return;
	}
	assert(cn->part < r->parts.count);
	const fan_peer *behind = server_of(r, cn, f->err);
	struct fan_fault_about about = {
		.job = r->client.on ? r->parts.job[cn->part].name : r->cfg.job,
		.switch_addr = fan_peer_text(&cn->switch_addr, addr, sizeof addr),
		.server_addr = behind ? fan_peer_text(behind, server, sizeof server) : NULL,
		.rank = (uint16_t)r->cfg.rank,
		.ranks = (uint16_t)r->cfg.ranks,
		.global = r->column.global,
		.rank_at = r->column.rank_at,
		.alive_ms = (uint32_t)r->cfg.alive_ms,
		.timeout_ms = (uint32_t)(f->err == FAN_E_TIMEOUT ? fan_config_join_ms(&r->cfg)
								 : r->cfg.timeout_ms),
		.joined = fan_worker_welcome(cn->w) != NULL,
		.sealed = cn->seal != NULL,
		.answers = cn->failover.answered,
		.refused = cn->refused,
		.system_errno = fan_udp_is_refused(cn->udp.last_errno) ? cn->udp.last_errno : 0,
		.only = r->parts.count == 1,
		.inside = r->parts.inside[cn->part],
		.files = files_of(r).count,
		.files_max = fan_files_limit(),
	};
	fan_fault_text(text, bytes, f, &about);
	if (f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks))
		add_redirect(cn, text, bytes);
}

/* The aggregators of other parts report the rank to blame to the others. */
void fan_rank_blame_for_silence(struct fan_rank *r, unsigned k)
{
	assert(k < r->parts.count);
	int rank = r->parts.inside[k]; /* of the job; in a column, its rank of that host */
	for (int i = 0; r->column.global && rank >= 0 && i < r->cfg.ranks; i++)
		if (r->column.host_first[i] == r->parts.inside[k])
			rank = i;
	fan_ranks_set(r->fate.blamed, (unsigned)(rank < 0 ? r->cfg.rank : rank));
}

/* ---- failing ---- */

/* Has the socket refused a full fragment, beyond the MTU of the interface that leads to the switch?
 * Then that is `*mtu`. */
static bool too_long(struct fan_connection *cn, int *mtu)
{
	struct fan_next_hop path;
	if (cn->udp.last_errno != EMSGSIZE)
		return false;
	cn->udp.last_errno = 0; /* an ICMP message can cause this, too: ask the interface */
	fan_next_hop_read(&path, &cn->switch_addr);
	*mtu = path.mtu;
	return path.mtu && (uint32_t)path.mtu < fan_connection_ip_bytes(cn);
}

static void fail_by_mtu(struct fan_rank *r, const struct fan_connection *cn, int mtu)
{
	char text[FAN_FAULT_TEXT_BYTES];
	mtu_text(cn, mtu, text);
	fan_rank_fail(r, FAN_E_MTU, text);
}

void fan_rank_fail_by_core(struct fan_rank *r, const struct fan_connection *cn)
{
	char text[FAN_FAULT_TEXT_BYTES];
	if (cn->short_mtu) {
		fail_by_mtu(r, cn, cn->short_mtu);
		return;
	}
	struct fan_fault fault = *fan_worker_fault(cn->w), *f = &fault;
	if (f->err <= FAN_CAUSE_GONE(0) && f->err > FAN_CAUSE_GONE(FAN_CAUSE_PARTS_MAX))
		f->err = FAN_E_UNREACHABLE; /* for the ranks to blame, which report it themselves */
	if (f->err != FAN_E_MTU || !cn->mtu_probe.behind_bytes)
		memcpy(r->fate.blamed, f->ranks, sizeof r->fate.blamed);
	r->fate.cause = f->err;
	if ((f->err == FAN_E_UNREACHABLE && !fan_ranks_count(f->ranks)) || f->err == FAN_E_STOPPED)
		fan_rank_blame_for_silence(r, cn->part);
	if (f->err == FAN_E_UNREACHABLE && r->column.global && r->parts.inside[cn->part] >= 0)
		r->fate.cause = FAN_CAUSE_LOST(0); /* in which that host's aggregator is */
	fan_rank_fault_text(r, cn, f, text, sizeof text);
	if (f->err == FAN_E_STOPPED && r->client.on) { /* which may have another server */
		snprintf(
			text + strlen(text), sizeof text - strlen(text), "%s",
			"; a new communicator of the same job goes on where the controller has another");
		f->err = FAN_E_RESTARTED;
	}
	fan_rank_fail(r, f->err, text);
}

/* A rank that cannot take part informs the others: all of them once they have joined, or the ones
 * that have after FAN_RANK_COMPANY_MS. */
static bool may_give_up(const struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns)
{
	uint64_t missing[FAN_RANKS_MAX / 64];
	if (fan_worker_phase(cn->w) == FAN_W_READY)
		return true;
	if (!fan_worker_missing(cn->w, missing) ||
	    fan_ranks_count(missing) + 1 >= (unsigned)r->cfg.ranks)
		cn->company_ns = 0;
	else if (!cn->company_ns)
		cn->company_ns = now_ns;
	return cn->company_ns && now_ns - cn->company_ns >= FAN_RANK_COMPANY_MS * FAN_MS;
}

void fan_rank_fail_by_socket(struct fan_rank *r, struct fan_connection *cn, uint64_t now_ns)
{
	char text[FAN_FAULT_TEXT_BYTES], addr[80];
	int mtu;
	if (!r->ops.running_count)
		fan_mtu_probe_result(&cn->mtu_probe); /* nothing waits for one */
	if (too_long(cn, &mtu)) {
		fail_by_mtu(r, cn, mtu);
	} else if (cn->short_mtu) {
		if (may_give_up(r, cn, now_ns))
			fail_by_mtu(r, cn, cn->short_mtu);
	} else if (fan_worker_phase(cn->w) == FAN_W_READY &&
		   fan_mtu_probe_turn(&cn->mtu_probe, &cn->udp, &cn->switch_addr, true,
				      cn->stall_ms, now_ns)) {
		hole_text(cn, text);
		fan_rank_fail(r, FAN_E_MTU, text);
	} else if (cn->io_errno) {
		snprintf(text, sizeof text, "the socket to the switch %s is broken: %s",
			 fan_peer_text(&cn->switch_addr, addr, sizeof addr),
			 strerror(cn->io_errno));
		fan_rank_fail(r, FAN_E_SYSTEM, text);
	}
}

/* The kernel gives the lowest number that is free, so what is left is above the highest. */
void fan_rank_check_files(struct fan_rank *r)
{
	const struct files held = files_of(r);
	const unsigned long long all = fan_files_limit();
	const unsigned long long used = (unsigned long long)(held.highest + 1);
	char text[FAN_FAULT_TEXT_BYTES];
	if (!all || used + FILES_RESERVE <= all)
		return;
	snprintf(
		text, sizeof text,
		"this process may have %llu file descriptors, and with the %u of this communicator "
		"%llu are left: at least %d must be; raise the limit (ulimit -n) or destroy groups "
		"that are not used",
		all, held.count, all > used ? all - used : 0, FILES_RESERVE);
	fan_rank_fail(r, FAN_E_FILES, text);
}

/* ---- waiting ---- */

/* The first connection in `phase`; NULL: there is none. */
static const struct fan_connection *find(const struct fan_rank *r, enum fan_worker_phase phase)
{
	for (unsigned i = 0; i < r->connections; i++)
		if (r->connection[i].w && fan_worker_phase(r->connection[i].w) == phase)
			return &r->connection[i];
	return NULL;
}

static void for_switch(const struct fan_rank *r, const struct fan_connection *cn, char *text,
		       size_t bytes)
{
	char addr[80];
	const char *why = cn->short_mtu ? "no answer, and full packets do not fit the path to it"
			  : fan_udp_is_refused(cn->udp.last_errno)
				  ? "the operating system refuses packets"
			  : cn->failover.answered ? "it is there, but does not answer to join"
			  : cn->refused		  ? "port unreachable"
						  : "no answer";
	fan_peer_text(&cn->switch_addr, addr, sizeof addr);
	if (r->parts.inside[cn->part] < 0)
		snprintf(text, bytes, "waits for the switch %s: %s", addr, why);
	else
		snprintf(text, bytes, "waits for the switch inside rank %d at %s: %s",
			 r->parts.inside[cn->part], addr, why);
}

static void for_ranks(const struct fan_rank *r, char *text, size_t bytes)
{
	uint64_t missing[FAN_RANKS_MAX / 64];
	char list[LIST_BYTES] = "";
	const struct fan_connection *cn = find(r, FAN_W_FORMING);
	if (cn && !r->column.global && fan_worker_missing(cn->w, missing))
		fan_fault_ranks_text(list, sizeof list, missing);
	snprintf(text, bytes, "waits for %s of %d to join job \"%s\"", *list ? list : "other ranks",
		 r->cfg.ranks, r->cfg.job);
}

void fan_wait_text(const struct fan_rank *r, uint64_t now_ns, char *text, size_t bytes)
{
	char what[FAN_FAULT_TEXT_BYTES - 32];
	const struct fan_connection *cn = find(r, FAN_W_JOINING);
	uint64_t left_ns = r->when.join_by_ns > now_ns ? r->when.join_by_ns - now_ns : 0;
	if (!r->parts.count)
		fan_plan_client_text(r, what, sizeof what);
	else if (cn)
		for_switch(r, cn, what, sizeof what);
	else if (find(r, FAN_W_FAILED))
		snprintf(
			what, sizeof what,
			"waits for the place of rank %d of job \"%s\", which another process or an "
			"earlier run has",
			r->cfg.rank, r->cfg.job);
	else
		for_ranks(r, what, sizeof what);
	snprintf(text, bytes, "%s; gives up in %" PRIu64 " s", what, left_ns / (1000 * FAN_MS) + 1);
}

/* ---- snapshots ---- */

static bool has_place(const struct fan_rank_snapshot *s, const char *job)
{
	for (unsigned i = 0; i < s->places; i++)
		if (!strcmp(s->place[i].job, job))
			return true;
	return false;
}

/* The aggregators from which the oldest operation lacks results. */
static void add_places(struct fan_rank_snapshot *s, const struct fan_rank *r)
{
	const struct fanin_op *op = r->ops.running[0];
	for (unsigned i = op->connections_done; i < op->connections; i++) {
		const struct fan_connection *cn = &r->connection[i];
		const bool done = op->id[i] == FAN_OP_NOWHERE || !cn->w ||
				  fan_worker_test(cn->w, op->id[i]) != FAN_E_PENDING;
		const struct fan_job_part *part = &r->parts.job[cn->part];
		if (done || s->places == FAN_RANK_SNAPSHOT_PLACES || has_place(s, part->name))
			continue;
		s->place[s->places].at = cn->switch_addr;
		memcpy(s->place[s->places++].job, part->name, sizeof part->name);
	}
}

static void write_places(struct fan_rank_snapshot *s)
{
	char at[ADDRESS_BYTES];
	struct fan_text t = fan_text_in(s->waits, sizeof s->waits);
	fan_text_add(&t, "waits for results from");
	for (unsigned i = 0; i < s->places; i++)
		fan_text_add(&t, "%s %s", i ? "," : "",
			     fan_peer_text(&s->place[i].at, at, sizeof at));
}

/* Ranks that have not joined, by the numbers of the job. */
static void add_missing(struct fan_rank_snapshot *s, const struct fan_rank *rank)
{
	uint64_t missing[FAN_RANK_WORDS];
	const bool known = rank->connections && rank->connection[0].w &&
			   fan_worker_missing(rank->connection[0].w, missing);
	for (unsigned r = 0; known && r < (unsigned)rank->cfg.ranks; r++)
		if (fan_ranks_has(missing, r))
			fan_ranks_set(s->missing, rank->column.global ? rank->column.global[r] : r);
}

void fan_rank_take_snapshot(struct fan_rank *r, uint64_t now_ns)
{
	struct fan_rank_snapshot *s = &r->shown.snapshot;
	const struct fan_regroup *g = r->regroup;
	*s = (struct fan_rank_snapshot){.at_ns = now_ns, .moved_ns = r->when.quiet_ns};
	for (unsigned i = 0; i < r->ops.running_count; i++)
		fan_rank_snapshot_add(s, r->ops.running[i]);
	if (atomic_load(&r->error))
		return;
	if (!r->ready) {
		fan_wait_text(r, now_ns, s->waits, sizeof s->waits);
		add_missing(s, r);
	} else if (g && g->phase != FAN_REGROUP_NONE) {
		snprintf(s->waits, sizeof s->waits, "waits for the others to go on: %.400s",
			 g->why);
	} else if (r->ops.running_count) {
		add_places(s, r);
		if (s->places)
			write_places(s);
	}
}
