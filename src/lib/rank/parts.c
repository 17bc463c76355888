/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "net/clock.h"
#include "registry.h"
#include "thread.h"

/* The most fragments that a rank may have sent without their results; 0: no bound of ours. */
static uint16_t window_of(const struct fan_config *cfg)
{
	int frags = cfg->ahead ? cfg->ahead : cfg->window ? cfg->window : FAN_WINDOW_MAX;
	return (uint16_t)(frags < 2 ? 2 : frags);
}

/* Under a plan, parts of different rates share links: windows in proportion to the rates keep each
 * to its plan.  Without a plan all parts leave by this rank's link, whose queue must not grow with
 * their number.  In 1 / 65536; 0: all. */
static uint16_t window_share(const struct fan_rank *r, const struct fan_job_part *part)
{
	double most = 0;
	if (!r->client.on)
		return 0;
	for (unsigned k = 0; k < r->parts.count; k++)
		most = r->parts.job[k].gbps > most ? r->parts.job[k].gbps : most;
	double share = most > 0 ? part->gbps / most * 65536 : 65536;
	return (uint16_t)(share >= 65536 ? 0 : share < 1 ? 1 : share);
}

/* With several switches on spare hosts, each hears what the others multicast, unless the network
 * tracks who is in a group, and many do not.  Multicast would not relieve the links that are full:
 * an aggregator gets as many bytes as it sends by unicast. */
static bool wants_group(const struct fan_rank *r)
{
	return r->cfg.multicast < 0 ? r->parts.count < 2 || r->client.on : r->cfg.multicast;
}

static struct fan_worker_config worker_config(const struct fan_rank *r,
					      const struct fan_job_part *part, uint64_t now_ns)
{
	const struct fan_config *cfg = &r->cfg;
	uint64_t left_ms = r->when.join_by_ns > now_ns ? (r->when.join_by_ns - now_ns) / FAN_MS : 0;
	struct fan_worker_config w = {
		.rank = (uint16_t)cfg->rank,
		.ranks = (uint16_t)cfg->ranks,
		.payload_bytes = cfg->payload_bytes,
		.window_max = window_of(cfg),
		.burst_max = (uint16_t)(cfg->ahead ? cfg->window : 0),
		.options = (uint8_t)((wants_group(r) ? FAN_JOIN_GROUP : 0) | FAN_JOIN_WIDE |
				     (cfg->wire == FANIN_WIRE_INT8 ? FAN_JOIN_QUAD : 0) |
				     (cfg->ahead ? FAN_JOIN_AHEAD : 0) |
				     (cfg->keys.count ? 0 : FAN_JOIN_RUNS)),
		.congestion = (uint8_t)cfg->congestion,
		.alive_ms = (uint32_t)cfg->alive_ms,
		.rto_min_ms = fan_share_meter_rto_min_ms(r, r->parts.count, false),
		.join_ms = (uint32_t)left_ms + 1,
		.stall_ms = (uint32_t)cfg->timeout_ms,
		.authentic = cfg->keys.count > 0,
		.route = part->route,
		.share = window_share(r, part),
		.nonce = fan_clock_nonce(),
		.launch = cfg->launch,
		.priority = fan_priority_default,
		.cache_frags = (uint32_t)cfg->cache,
	};
	memcpy(w.name, part->name, sizeof w.name);
	return w;
}

void fan_rank_open_connection(struct fan_rank *r, unsigned number, uint64_t now_ns)
{
	assert(number < FAN_SHARDS_MAX);
	struct fan_connection *cn = &r->connection[number];
	assert(cn->part < r->parts.count);
	const struct fan_job_part *part = &r->parts.job[cn->part];
	struct fan_worker_config cfg = worker_config(r, part, now_ns);
	char why[FAN_CONNECTION_WHY_BYTES];
	if (cn->w && fan_worker_fault(cn->w)->err == FAN_E_RANK_TAKEN &&
	    !fan_registry_has_rank_of(r))
		cfg.claim = fan_worker_fault(cn->w)->desc_a;
	fan_connection_close(cn);
	cn->number = number;
	cn->again_ns = 0;
	cn->behind = false;
	cn->epoll_fd = r->thread.epoll_fd;
	cn->server_addr = r->server_addr;
	if (!fan_peer_is_none(&r->server_addr))
		cn->server_addr.port += cn->shard;
	const uint8_t *key = r->cfg.keys.count ? r->cfg.keys.key[0] : NULL;
	int e = fan_connection_open(cn, &cfg, &part->at, key, now_ns, why);
	if (e)
		fan_rank_fail(r, e, why);
	else if (r->own)
		fan_connection_shorten(cn, r->own);
}

static void fail_for_shards(struct fan_rank *r)
{
	fan_rank_fail(
		r, FAN_E_SHARDS,
		"the job has more parts, times the threads of their switches, than a rank can be "
		"in: at most 64");
}

/* One more connection: shard `shard` of part `k`. */
static void add_connection(struct fan_rank *r, unsigned k, unsigned shard, uint64_t now_ns)
{
	assert(k < r->parts.count && r->connections < FAN_SHARDS_MAX);
	struct fan_connection *cn = &r->connection[r->connections];
	cn->part = k;
	cn->shard = shard;
	cn->refusals = 0;
	fan_rank_open_connection(r, r->connections, now_ns);
	if (cn->w)
		r->connections++;
}

void fan_rank_open_parts(struct fan_rank *r, uint64_t now_ns)
{
	fan_share_meter_init(r);
	for (unsigned k = 0; k < r->parts.count && !atomic_load(&r->error); k++)
		add_connection(r, k, 0, now_ns);
}

void fan_rank_join_more_parts(struct fan_rank *r, unsigned count)
{
	uint64_t now_ns = fan_clock_ns();
	assert(count <= r->parts.count && !r->ops.running_count);
	if (r->connections + count > FAN_SHARDS_MAX) {
		fail_for_shards(r);
		return;
	}
	r->when.join_by_ns = now_ns + (uint64_t)fan_config_join_ms(&r->cfg) * FAN_MS;
	fan_share_meter_init(r);
	for (unsigned k = r->parts.count - count; k < r->parts.count && !atomic_load(&r->error);
	     k++)
		add_connection(r, k, 0, now_ns);
}

/* Each connection of a part has its share of the plan's rate. */
void fan_rank_set_rate_limit(struct fan_rank *r, unsigned k)
{
	assert(k < r->parts.count);
	for (unsigned i = 0; i < r->connections && r->parts.shards[k]; i++)
		if (r->connection[i].part == k)
			fan_connection_set_rate_limit(&r->connection[i],
						      r->parts.job[k].gbps * r->cfg.pace / 100 /
							      r->parts.shards[k]);
}

/* The aggregator of part `k` has `shards` shards: its connections share what its cut has. */
static void set_shards(struct fan_rank *r, unsigned k, unsigned shards)
{
	r->parts.shards[k] = shards;
	fan_rank_set_rate_limit(r, k);
}

void fan_rank_open_shards(struct fan_rank *r, unsigned k, uint64_t now_ns)
{
	unsigned first = 0;
	assert(k < r->parts.count);
	if (r->parts.shards[k])
		return;
	while (r->connection[first].part != k || r->connection[first].shard)
		first++; /* ends: each part has one to its first shard */
	assert(first < r->connections);
	const struct fan_welcome *m = fan_worker_welcome(r->connection[first].w);
	if (!m)
		return;
	unsigned shards = m->shards < FAN_SHARDS_MAX ? m->shards : FAN_SHARDS_MAX;
	if (r->connections + shards - 1 > FAN_SHARDS_MAX) {
		fail_for_shards(r);
		return;
	}
	for (unsigned i = 1; i < shards && !atomic_load(&r->error); i++)
		add_connection(r, k, i, now_ns);
	set_shards(r, k, shards ? shards : 1);
}
