/* SPDX-License-Identifier: Apache-2.0 */
#include "neighbours.h"

#include <assert.h>
#include <string.h>

static const struct fan_arrival *known(const struct fan_neighbours *n,
				       const struct fan_neighbour *who)
{
	for (unsigned i = 0; i < n->count; i++)
		if (strcmp(n->of[i].who.name, who->name) == 0 &&
		    fan_peer_equal(&n->of[i].who.at, &who->at))
			return &n->of[i];
	return NULL;
}

void fan_neighbours_set(struct fan_neighbours *n, uint32_t number, const struct fan_neighbour *of,
			unsigned count, uint64_t now_ns)
{
	for (unsigned i = 0; i < count; i++) {
		const struct fan_arrival *before = known(n, &of[i]);
		if (before)
			n->next[i] = *before;
		else
			n->next[i] = (struct fan_arrival){.who = of[i]};
	}
	if (!n->count)
		n->due_ns = now_ns;
	memcpy(n->of, n->next, count * sizeof n->next[0]);
	n->count = count;
	n->number = number;
}

/* A neighbour that was not asked yet cannot have answered. */
static bool judge(struct fan_arrival *h)
{
	const unsigned enough = h->silent ? FAN_NEIGHBOUR_UP : FAN_NEIGHBOUR_DOWN;
	bool against = h->answered == h->silent;
	h->changed = false;
	if (!h->echo.asked)
		return false;
	h->run = against ? h->run + 1 : 0;
	h->answered = false;
	if (h->run < enough)
		return false;
	h->silent = !h->silent;
	h->changed = true;
	h->run = 0;
	return true;
}

bool fan_neighbours_turn(struct fan_neighbours *n, uint64_t now_ns)
{
	bool changed = false;
	for (unsigned i = 0; i < n->count; i++)
		changed |= judge(&n->of[i]);
	n->turn++;
	n->due_ns = now_ns + FAN_ECHO_MS * FAN_MS; /* one turn, however late it is */
	return changed;
}

void fan_neighbours_ask(struct fan_neighbours *n, unsigned i, struct fan_out *out)
{
	assert(i < n->count);
	static const uint8_t body[FAN_ECHO_MIN]; /* zeros: an answer as long as the question */
	fan_echo_put_question(&n->of[i].echo, out, &n->of[i].who.at, body, sizeof body);
}

bool fan_neighbours_take(struct fan_neighbours *n, const fan_peer *from, const uint8_t *p,
			 size_t bytes)
{
	bool any = false;
	for (unsigned i = 0; i < n->count; i++) {
		struct fan_arrival *h = &n->of[i];
		if (!fan_peer_equal(&h->who.at, from))
			continue;
		int64_t which = fan_echo_heard(&h->echo, p, bytes, NULL);
		if (which < 0 || (uint64_t)which + FAN_NEIGHBOUR_DOWN < h->echo.asked)
			continue;
		h->answered = true;
		any = true;
	}
	return any;
}
