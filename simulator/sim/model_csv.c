/* SPDX-License-Identifier: Apache-2.0 */
/* model_csv.c - layer tables that somebody measured. */
#include <stdio.h>

#include "csv.h"
#include "model.h"

#define HEAD "layer,numel,forward_ns,backward_ns"

int fan_model_parse(struct fan_model *m, char *text, char *why, size_t why_bytes)
{
	struct fan_csv c;
	memset(m, 0, sizeof *m);
	if (!fan_csv_open(&c, text, HEAD)) {
		snprintf(why, why_bytes, "line %u: expected the columns " HEAD,
			 c.line ? c.line : 1);
		return -1;
	}
	while (fan_csv_next(&c)) {
		struct fan_layer l = {.numel = 0};
		const char *wrong = NULL;
		if (c.fields != 4)
			wrong = "expected 4 fields";
		else if (!fan_csv_number(c.field[1], FAN_MODEL_NUMEL_MAX, &l.numel))
			wrong = "numel: expected a whole number of at most 2^36";
		else if (!fan_csv_number(c.field[2], FAN_LAYER_NS_MAX, &l.forward_ns))
			wrong = "forward_ns: expected a whole number of at most an hour";
		else if (!fan_csv_number(c.field[3], FAN_LAYER_NS_MAX, &l.backward_ns))
			wrong = "backward_ns: expected a whole number of at most an hour";
		if (!wrong)
			snprintf(l.name, sizeof l.name, "%s", c.field[0]);
		if (!wrong && !fan_model_add(m, &l))
			wrong = "too many layers";
		if (wrong) {
			snprintf(why, why_bytes, "line %u: %s", c.line, wrong);
			fan_model_free(m);
			return -1;
		}
	}
	if (m->layers)
		return 0;
	snprintf(why, why_bytes, "expected at least one layer");
	return -1;
}
