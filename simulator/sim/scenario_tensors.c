/* SPDX-License-Identifier: Apache-2.0 */
/* scenario_tensors.c - jobs that are parts of one tensor: tensor.h. */
#include <string.h>

#include "scenario.h"
#include "tensor.h"

/* Of the part `k`, beside the first one, `i`. */
static int check_pair(const struct fan_scenario *s, uint32_t i, uint32_t k, struct fan_reader *r)
{
	const struct fan_job_config *a = &s->job[i].cfg, *b = &s->job[k].cfg;
	if (a->ranks != b->ranks || a->iterations != b->iterations ||
	    a->arrival_ns != b->arrival_ns)
		return fan_reader_fail(r, "tensor",
				       "\"%s\": expected the workers, iterations and arrival_s of "
				       "\"%s\"",
				       s->job[k].tensor, a->name);
	if (memcmp(a->host, b->host, a->ranks * sizeof *a->host) != 0)
		return fan_reader_fail(r, "tensor", "\"%s\": expected the hosts of \"%s\"",
				       s->job[k].tensor, a->name);
	return 0;
}

static int check_alone(const struct fan_scenario_job *j, struct fan_reader *r)
{
	const char *key = j->reduce == FAN_REDUCE_RING ? "reduce"
			  : j->cfg.ahead	       ? "ahead"
			  : j->cfg.retries	       ? "retries"
			  : j->cfg.overlap	       ? "overlap"
						       : NULL;
	if (!key)
		return 0;
	return fan_reader_fail(r, key, "does not go with tensor: its parts proceed in step");
}

int fan_scenario_check_tensors(const struct fan_scenario *s, struct fan_reader *r)
{
	for (uint32_t k = 0; k < s->jobs; k++) {
		const struct fan_scenario_job *j = &s->job[k];
		uint32_t first = k, parts = 0;
		if (!j->tensor[0])
			continue;
		for (uint32_t i = k + 1; i-- > 0;)
			if (strcmp(s->job[i].tensor, j->tensor) == 0) {
				first = i;
				parts++;
			}
		size_t back = fan_reader_enter(r, "jobs.%s", j->cfg.name);
		if (parts > FAN_TENSOR_PARTS_MAX)
			return fan_reader_fail(r, "tensor", "more than %d parts",
					       FAN_TENSOR_PARTS_MAX);
		if (check_alone(j, r) || check_pair(s, first, k, r))
			return -1;
		fan_reader_leave(r, back);
	}
	return 0;
}
