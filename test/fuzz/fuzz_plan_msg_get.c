/* SPDX-License-Identifier: Apache-2.0 */
/* What a controller tells a worker.  What is accepted is within its bounds, and the parts of a
 * job are the whole of each tensor, once. */
#include "fuzz.h"

#include "core/base/err.h"
#include "lib/base/plan_msg.h"

static void check_job(const struct fan_plan_msg *o)
{
	uint64_t next = 0;
	FUZZ_CHECK(o->parts >= 1 && o->parts <= FAN_PARTS_MAX);
	for (unsigned k = 0; k < o->parts; k++) {
		const struct fan_job_part *p = &o->part[k];
		FUZZ_CHECK(p->route && *p->name && p->gbps >= 0 && p->at.port);
		FUZZ_CHECK(p->from == next && p->to >= p->from);
		next = p->to;
	}
	FUZZ_CHECK(next == FAN_CUT_WHOLE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fan_plan_msg o;
	char why[FAN_PLAN_MSG_WHY_BYTES];
	int err = fan_plan_msg_get(&o, (const char *)data, size, "j", why);

	FUZZ_CHECK((err != FAN_OK) == (why[0] != '\0'));
	if (err)
		return 0;
	if (o.kind == FAN_PLAN_MSG_JOB)
		check_job(&o);
	if (o.kind == FAN_PLAN_MSG_MOVE)
		FUZZ_CHECK(o.number < FAN_PARTS_MAX && o.route && o.at.port);
	return 0;
}
