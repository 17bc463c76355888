/* SPDX-License-Identifier: Apache-2.0 */
#include "kept_name.h"

#include <pthread.h>
#include <string.h>

#include "lib/base/fork_guard.h"

#define KEEP_MS (FAN_CLAIMS_NS / FAN_MS)

/* Communicators of this process that keep a name; anew in a child of fork(). */
static struct {
	pthread_mutex_t lock;
	unsigned fork_guard;
	struct fanin_comm *first;
} names = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_names(void)
{
	if (names.fork_guard != fan_fork_guard()) {
		pthread_mutex_init(&names.lock, NULL);
		names.first = NULL;
		names.fork_guard = fan_fork_guard();
	}
	pthread_mutex_lock(&names.lock);
}

/* Nothing tells the launch from others for certain: another may have this id, or none as well. */
static bool needs_name(const struct fan_config *cfg)
{
	return !(cfg->launch & 1);
}

uint64_t fan_comm_launch(const struct fanin_comm *c, const struct fan_meeting *m)
{
	return needs_name(&c->rank.cfg) ? m->host[0].nonce | 1 : c->rank.cfg.launch;
}

void fan_comm_keep_name(struct fanin_comm *c, struct fanin_comm *met)
{
	if (!needs_name(&met->rank.cfg)) {
		fan_comm_destroy(met);
		return;
	}
	pthread_mutex_lock(&met->rank.lock);
	met->rank.owner = &c->rank;
	pthread_mutex_unlock(&met->rank.lock);
	lock_names();
	c->name = met;
	c->next_name = names.first;
	names.first = c;
	pthread_mutex_unlock(&names.lock);
	fan_rank_close_in(&met->rank, KEEP_MS);
}

/* Let it leave: at an embedded switch, whose last user waits for jobs that are there, for all. */
static void end_name(struct fanin_comm *name)
{
	const uint64_t nobody[FAN_RANK_WORDS] = {0};
	pthread_mutex_lock(&name->rank.lock);
	name->rank.owner = NULL;
	pthread_mutex_unlock(&name->rank.lock);
	if (*name->rank.cfg.switch_addr)
		fan_rank_close_in(&name->rank, 0);
	else
		fan_rank_end(&name->rank, FAN_E_CLOSED, nobody);
}

/* Take the name that the communicator `*at` of the locked list keeps, if there is one: unlock the
 * list, and let the name leave. */
static struct fanin_comm *take_name(struct fanin_comm **at)
{
	struct fanin_comm *owner = *at, *name = NULL;
	if (owner) {
		name = owner->name;
		*at = owner->next_name;
		owner->name = owner->next_name = NULL;
	}
	pthread_mutex_unlock(&names.lock);
	if (name)
		end_name(name);
	return name;
}

struct fanin_comm *fan_comm_drop_name(struct fanin_comm *c)
{
	struct fanin_comm **at = &names.first;
	lock_names();
	while (*at && *at != c)
		at = &(*at)->next_name;
	return take_name(at);
}

static bool keeps_name_of(const struct fanin_comm *c, const struct fan_config *cfg)
{
	const struct fan_config *o = &c->name->rank.cfg;
	return o->rank == cfg->rank && !strcmp(o->job, cfg->job);
}

static struct fanin_comm *take_name_of(const struct fan_config *cfg)
{
	struct fanin_comm **at = &names.first;
	lock_names();
	while (*at && !keeps_name_of(*at, cfg))
		at = &(*at)->next_name;
	return take_name(at);
}

void fan_comm_drop_names_of(const struct fan_config *cfg)
{
	struct fanin_comm *name;
	while ((name = take_name_of(cfg)))
		fan_comm_destroy(name);
}
