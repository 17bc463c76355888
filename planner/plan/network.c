/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/err.h"
#include "topo_json.h"
#include "topo_make.h"

static int make(struct fan_topo *t, const char *from, struct fan_why *why)
{
	struct fan_make m;
	int err = fan_make_parse(&m, from, why);

	if (!err && !m.servers_given)
		m.servers = 0;
	return err ? err : fan_make_network(t, &m, why);
}

static int read(struct fan_topo *t, const char *text, size_t bytes, const struct fan_attach *a,
		struct fan_why *why)
{
	json_t *root = fan_topo_text(text, bytes, why);

	if (!root)
		return FAN_E_CONFIG;
	int err = fan_topo_network(t, root, a, why);
	json_decref(root);
	return err;
}

json_t *fan_network_json(const char *from, const char *text, size_t bytes, const char *attach,
			 char *why, size_t why_bytes)
{
	struct fan_why cause = {""};
	struct fan_topo t = {0};
	struct fan_attach a;
	json_t *network = NULL;
	int err = FAN_OK;

	if (attach && !text)
		err = fan_why_set(&cause, FAN_E_CONFIG, "attach: it is made with hosts already");
	else if (attach && fan_attach_parse(&a, attach, &cause))
		err = FAN_E_CONFIG;
	else if (text)
		err = read(&t, text, bytes, attach ? &a : NULL, &cause);
	else
		err = make(&t, from, &cause);
	if (!err)
		network = fan_topo_to_json(&t);
	fan_topo_free(&t);
	if (!network)
		snprintf(why, why_bytes, "%s", cause.text[0] ? cause.text : "out of memory");
	return network;
}
