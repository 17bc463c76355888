/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "net/logline.h"
#include "net/udp.h"
#include "top.h"

#define AT_BYTES 80

void top_shares_begin(struct top_shares *s)
{
	for (unsigned i = 0; i < s->jobs; i++) {
		memcpy(s->job[i].before, s->job[i].now, sizeof s->job[i].before);
		memset(s->job[i].now, 0, sizeof s->job[i].now);
	}
}

static struct top_shares_job *job_of(struct top_shares *s, const struct fan_report *r)
{
	for (unsigned i = 0; i < s->jobs; i++)
		if (!strcmp(s->job[i].name, r->name))
			return &s->job[i];
	if (!s->job)
		s->job = calloc(TOP_SHARES_JOBS, sizeof *s->job);
	if (!s->job || s->jobs == TOP_SHARES_JOBS)
		return NULL;
	struct top_shares_job *j = &s->job[s->jobs++];
	memcpy(j->name, r->name, sizeof j->name);
	j->ranks = r->ranks;
	return j;
}

void top_shares_add(struct top_shares *s, unsigned at, const struct fan_report *r)
{
	struct top_shares_job *j = at < TOP_SWITCHES_MAX ? job_of(s, r) : NULL;

	if (j)
		j->now[at] += r->results;
}

/* The bytes of a part's name that are its job's; 0: it is no name of a part. */
static size_t stem_bytes(const char *name)
{
	const char *slash = strrchr(name, '/');

	if (!slash || slash == name || slash[1] < '1' || slash[1] > '9' ||
	    slash[1 + strspn(slash + 1, "0123456789")])
		return 0;
	return (size_t)(slash - name);
}

/* Is `part` a part of `whole`, and not the first? */
static bool is_part_of(const struct top_shares_job *part, const struct top_shares_job *whole)
{
	const size_t stem = stem_bytes(part->name);

	return stem && part->ranks == whole->ranks && !strncmp(part->name, whole->name, stem) &&
	       !whole->name[stem];
}

static bool is_whole(const struct top_shares *s, const struct top_shares_job *j)
{
	for (unsigned i = 0; i < s->jobs; i++)
		if (is_part_of(j, &s->job[i]))
			return false;
	return true;
}

/* Add what each aggregator has finished of the job and its parts since the last time to `of`; a
 * part that has begun anew counts from there.  Returns the sum. */
static uint64_t finished(const struct top_shares *s, const struct top_shares_job *whole,
			 unsigned count, uint64_t of[TOP_SWITCHES_MAX])
{
	uint64_t all = 0;

	memset(of, 0, TOP_SWITCHES_MAX * sizeof *of);
	for (unsigned i = 0; i < s->jobs; i++) {
		const struct top_shares_job *j = &s->job[i];
		if (j != whole && !is_part_of(j, whole))
			continue;
		for (unsigned k = 0; k < count; k++) {
			uint64_t before = j->now[k] >= j->before[k] ? j->before[k] : 0;
			of[k] += j->now[k] - before;
			all += j->now[k] - before;
		}
	}
	return all;
}

json_t *top_shares_json(const struct top_shares *s, const fan_peer *at, unsigned count)
{
	json_t *jobs = json_array();
	uint64_t of[TOP_SWITCHES_MAX];
	char text[AT_BYTES];

	for (unsigned i = 0; i < s->jobs; i++) {
		const struct top_shares_job *j = &s->job[i];
		struct fan_line name = {.used = 0};
		uint64_t all = is_whole(s, j) ? finished(s, j, count, of) : 0;
		if (!all)
			continue;
		json_t *shares = json_array();
		for (unsigned k = 0; k < count; k++)
			json_array_append_new(shares,
					      json_pack("{s:s, s:f}", "switch",
							fan_peer_text(&at[k], text, sizeof text),
							"share", (double)of[k] / (double)all));
		fan_line_escaped(&name, j->name, strlen(j->name));
		json_array_append_new(jobs,
				      json_pack("{s:s, s:o}", "name", name.text, "shares", shares));
	}
	return jobs;
}

void top_shares_print(const struct top_shares *s, const fan_peer *at, unsigned count)
{
	json_t *jobs = top_shares_json(s, at, count);

	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *j = json_array_get(jobs, i), *shares = json_object_get(j, "shares");
		printf("\nshares of %s:", json_string_value(json_object_get(j, "name")));
		for (size_t k = 0; k < json_array_size(shares); k++) {
			const json_t *one = json_array_get(shares, k);
			printf("%s %s %.1f %%", k ? "," : "",
			       json_string_value(json_object_get(one, "switch")),
			       100 * json_real_value(json_object_get(one, "share")));
		}
		printf("\n");
	}
	json_decref(jobs);
}

void top_shares_free(struct top_shares *s)
{
	free(s->job);
	*s = (struct top_shares){.jobs = 0};
}
