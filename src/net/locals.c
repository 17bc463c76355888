/* SPDX-License-Identifier: Apache-2.0 */
#include "locals.h"

#include <string.h>

#define HASH_FACTOR UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */

static unsigned set_of(const fan_peer *p)
{
	uint64_t h = (p->addr[0] ^ p->scope) * HASH_FACTOR;

	h = (h ^ h >> 32 ^ p->addr[1]) * HASH_FACTOR;
	h = (h ^ h >> 32 ^ p->port) * HASH_FACTOR;
	return (unsigned)(h >> 32) % FAN_LOCALS_SETS;
}

static bool is_free(const struct fan_local *l)
{
	return !(l->addr[0] | l->addr[1]);
}

/* Where `peer` is in its set; FAN_LOCALS_WAYS: nowhere. */
static unsigned find(const struct fan_local *set, const fan_peer *peer)
{
	unsigned i = 0;

	while (i < FAN_LOCALS_WAYS && (is_free(&set[i]) || !fan_peer_equal(&set[i].peer, peer)))
		i++;
	return i;
}

/* Free places have been heard before all others. */
static unsigned oldest(const struct fan_local *set)
{
	unsigned at = 0;

	for (unsigned i = 1; i < FAN_LOCALS_WAYS; i++)
		if (set[i].heard_at < set[at].heard_at)
			at = i;
	return at;
}

void fan_locals_put(struct fan_locals *t, const fan_peer *peer, const uint64_t addr[2])
{
	struct fan_local *set = t->place[set_of(peer)];
	unsigned i = find(set, peer);

	if (i == FAN_LOCALS_WAYS)
		i = oldest(set);
	set[i] = (struct fan_local){*peer, {addr[0], addr[1]}, ++t->puts};
}

const uint64_t *fan_locals_get(const struct fan_locals *t, const fan_peer *peer)
{
	const struct fan_local *set = t->place[set_of(peer)];
	unsigned i = find(set, peer);

	return i < FAN_LOCALS_WAYS ? set[i].addr : NULL;
}

void fan_locals_forget(struct fan_locals *t, const fan_peer *peer)
{
	struct fan_local *set = t->place[set_of(peer)];
	unsigned i = find(set, peer);

	if (i < FAN_LOCALS_WAYS)
		memset(&set[i], 0, sizeof set[i]);
}
