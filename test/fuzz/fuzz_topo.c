/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies as JSON.  What is accepted can be planned without aggregation. */
#include "core/base/err.h"
#include "fuzz.h"
#include "plan/algorithm.h"
#include "plan/eval.h"
#include "plan/topo.h"

#define NODES_PLANNED 64

static void plan(const struct fan_topo *t)
{
	struct fan_planned how = {0};
	struct fan_plan p;
	struct fan_eval e;
	struct fan_why why;

	if (t->nodes > NODES_PLANNED || t->jobs > NODES_PLANNED)
		return;
	if (fan_atp(t, &fan_plan_defaults, &p, &how))
		return;
	FUZZ_CHECK(fan_eval(&e, t, &p, &why) == FAN_OK);
	FUZZ_CHECK(e.gbps > 0);
	fan_eval_free(&e);
	fan_plan_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fan_topo t;
	struct fan_why why;
	json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);

	memset(why.text, 'w', sizeof why.text);
	int err = fan_topo_from_json(&t, root, &why);
	json_decref(root);
	if (err) {
		FUZZ_CHECK(t.nodes == 0 && !t.node && memchr(why.text, '\0', sizeof why.text));
		FUZZ_CHECK(why.text[0]);
		return 0;
	}
	plan(&t);
	fan_topo_free(&t);
	return 0;
}
