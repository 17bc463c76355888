/* SPDX-License-Identifier: Apache-2.0 */
/* Topologies as JSON, and as numbers.  What is accepted can be planned without
 * aggregation, and reads the same after it was written. */
#include "fuzz.h"

#include "core/base/err.h"
#include "plan/algorithm.h"
#include "plan/eval.h"
#include "plan/topo_json.h"
#include "plan/topo_make.h"

#define NUMBERS_BYTES 200
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

static void numbers(const uint8_t *data, size_t size)
{
	char text[NUMBERS_BYTES + 1] = {0};
	struct fan_make m;
	struct fan_topo t;
	struct fan_why why = {""};

	memcpy(text, data, size < NUMBERS_BYTES ? size : NUMBERS_BYTES);
	if (fan_make_parse(&m, text, &why)) {
		FUZZ_CHECK(why.text[0]);
		return;
	}
	if (m.workers > NODES_PLANNED || m.servers > NODES_PLANNED || m.k > 4 || m.leaves > 8 ||
	    m.spines > 8 || m.hosts > NODES_PLANNED)
		return; /* right, and slow */
	if (fan_make(&t, &m, &why) == FAN_OK)
		fan_topo_free(&t);
}

static void xml(const uint8_t *data, size_t size)
{
	struct fan_topo t;
	struct fan_why why = {""};

	if (!fan_graphml_is((const char *)data, size))
		return;
	json_t *o = fan_graphml_to_json((const char *)data, size, &why);
	FUZZ_CHECK(o || why.text[0]);
	if (o && fan_topo_from_json(&t, o, &why) == FAN_OK)
		fan_topo_free(&t);
	json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fan_topo t, again;
	struct fan_why why;

	numbers(data, size);
	xml(data, size);
	memset(why.text, 'w', sizeof why.text);
	if (fan_topo_parse(&t, (const char *)data, size, &why)) {
		FUZZ_CHECK(t.nodes == 0 && !t.node && memchr(why.text, '\0', sizeof why.text));
		FUZZ_CHECK(why.text[0]);
		return 0;
	}
	json_t *o = fan_topo_to_json(&t);
	FUZZ_CHECK(o && fan_topo_from_json(&again, o, &why) == FAN_OK);
	FUZZ_CHECK(again.nodes == t.nodes && again.links == t.links && again.jobs == t.jobs);
	FUZZ_CHECK(!memcmp(again.cap, t.cap, fan_topo_resources(&t) * sizeof *t.cap));
	json_decref(o);
	fan_topo_free(&again);
	plan(&t);
	fan_topo_free(&t);
	return 0;
}
