/* SPDX-License-Identifier: Apache-2.0 */
/* graphml.c - GraphML to JSON; topo_json.h says what of it is used. */
#ifdef FAN_HAS_EXPAT
#include <expat.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "topo_json.h"

#ifdef FAN_HAS_EXPAT

#define NAME_BYTES  32	/* of an attribute; longer names are not used */
#define TEXT_BYTES  256 /* of an attribute's value */
#define BITS_A_GBIT 1e9

/* The state of the parser. */
struct graphml {
	XML_Parser xml;
	struct fan_why *why;
	json_t *keys; /* names of attributes by the id of their key */
	json_t *ids;  /* nodes by id, shared with `nodes` */
	json_t *nodes, *links;
	json_t *item;	       /* the present node or link; borrowed */
	char name[NAME_BYTES]; /* of the present attribute; empty: it is not used */
	char text[TEXT_BYTES];
	size_t bytes;
	bool graph;    /* a <graph> has begun */
	bool directed; /* edges are directed unless they say otherwise */
};

/* expat 2.9 has line numbers of 64 bits, and deprecates the others. */
#if XML_MAJOR_VERSION > 2 || (XML_MAJOR_VERSION == 2 && XML_MINOR_VERSION >= 9)
#define LINE_NUMBER XML_GetCurrentLineNumber64
#else
#define LINE_NUMBER XML_GetCurrentLineNumber
#endif

static void bad(struct graphml *g, const char *cause)
{
	fan_why_set(g->why, FAN_E_CONFIG, "line %lu: %s", (unsigned long)LINE_NUMBER(g->xml),
		    cause);
	XML_StopParser(g->xml, XML_FALSE);
}

static const char *attribute(const char **list, const char *name)
{
	for (; *list; list += 2)
		if (strcmp(list[0], name) == 0)
			return list[1];
	return NULL;
}

static void begin_node(struct graphml *g, const char **list)
{
	const char *id = attribute(list, "id");

	if (!id || !*id || json_object_get(g->ids, id)) {
		bad(g, id ? "a node whose id was there before" : "a node without an id");
		return;
	}
	g->item = json_pack("{ss ss}", "name", id, "kind", "switch");
	json_array_append_new(g->nodes, g->item);
	json_object_set(g->ids, id, g->item);
}

static void begin_edge(struct graphml *g, const char **list)
{
	const char *source = attribute(list, "source"), *target = attribute(list, "target");

	if (!source || !target) {
		bad(g, "an edge without source and target");
		return;
	}
	if (strcmp(source, target) == 0)
		return; /* some maps have such edges, which carry nothing */
	g->item = json_pack("{ss ss}", "a", source, "b", target);
	const char *directed = attribute(list, "directed");
	if (directed ? strcmp(directed, "true") == 0 : g->directed)
		json_object_set_new(g->item, "directed", json_true());
	json_array_append_new(g->links, g->item);
}

static void XMLCALL begin(void *user, const char *element, const char **list)
{
	struct graphml *g = user;

	if (strcmp(element, "graph") == 0) {
		const char *edges = attribute(list, "edgedefault");
		g->graph = true;
		g->directed = edges && strcmp(edges, "directed") == 0;
	} else if (strcmp(element, "key") == 0) {
		const char *id = attribute(list, "id"), *name = attribute(list, "attr.name");
		if (id && name)
			json_object_set_new(g->keys, id, json_string(name));
	} else if (strcmp(element, "node") == 0) {
		begin_node(g, list);
	} else if (strcmp(element, "edge") == 0) {
		begin_edge(g, list);
	} else if (strcmp(element, "data") == 0 && g->item) {
		const char *key = attribute(list, "key");
		const char *name = key ? json_string_value(json_object_get(g->keys, key)) : NULL;
		snprintf(g->name, sizeof g->name, "%s", name ? name : "");
		g->bytes = 0;
	}
}

static void XMLCALL characters(void *user, const char *text, int bytes)
{
	struct graphml *g = user;
	size_t n = (size_t)bytes;

	if (!g->name[0])
		return;
	if (n > TEXT_BYTES - 1 - g->bytes)
		n = TEXT_BYTES - 1 - g->bytes;
	memcpy(g->text + g->bytes, text, n);
	g->bytes += n;
}

static void end_data(struct graphml *g)
{
	static const char *const numbers[] = {"gbps", "background_gbps", "delay_us"};
	char *end;

	g->text[g->bytes] = '\0';
	double x = strtod(g->text, &end);
	bool is_number = end != g->text && *end == '\0';
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		if (strcmp(g->name, numbers[i]) == 0)
			json_object_set_new(g->item, g->name,
					    is_number ? json_real(x) : json_string(g->text));
	if (strcmp(g->name, "LinkSpeedRaw") == 0 && is_number && !json_object_get(g->item, "gbps"))
		json_object_set_new(g->item, "gbps", json_real(x / BITS_A_GBIT));
	if (strcmp(g->name, "kind") == 0 || strcmp(g->name, "name") == 0)
		json_object_set_new(g->item, g->name, json_string(g->text));
	g->name[0] = '\0';
}

static void XMLCALL end(void *user, const char *element)
{
	struct graphml *g = user;

	if (strcmp(element, "data") == 0 && g->name[0] && g->item)
		end_data(g);
	else if (strcmp(element, "node") == 0 || strcmp(element, "edge") == 0)
		g->item = NULL;
}

/* Replace ids of links' ends by names.  Unknown ids stay. */
static void name_ends(const struct graphml *g)
{
	static const char *const ends[] = {"a", "b"};

	for (size_t i = 0; i < json_array_size(g->links); i++)
		for (int k = 0; k < 2; k++) {
			json_t *link = json_array_get(g->links, i);
			const char *id = json_string_value(json_object_get(link, ends[k]));
			const json_t *node = json_object_get(g->ids, id ? id : "");
			if (node)
				json_object_set(link, ends[k], json_object_get(node, "name"));
		}
}

json_t *fan_graphml_to_json(const char *text, size_t bytes, struct fan_why *why)
{
	struct graphml g = {.why = why};
	json_t *root = NULL;

	g.xml = bytes <= INT32_MAX ? XML_ParserCreate(NULL) : NULL;
	g.keys = json_object();
	g.ids = json_object();
	g.nodes = json_array();
	g.links = json_array();
	if (!g.xml || !g.keys || !g.ids || !g.nodes || !g.links) {
		fan_why_set(why, FAN_E_NOMEM, "out of memory, or too large");
		goto out;
	}
	XML_SetUserData(g.xml, &g);
	XML_SetElementHandler(g.xml, begin, end);
	XML_SetCharacterDataHandler(g.xml, characters);
	if (XML_Parse(g.xml, text, (int)bytes, 1) != XML_STATUS_OK) {
		bad(&g, XML_ErrorString(XML_GetErrorCode(g.xml)));
		goto out;
	}
	if (!g.graph) {
		fan_why_set(why, FAN_E_CONFIG, "no <graph> in it: is this GraphML?");
		goto out;
	}
	name_ends(&g);
	root = json_pack("{sO sO}", "nodes", g.nodes, "links", g.links);
out:
	if (g.xml)
		XML_ParserFree(g.xml);
	json_decref(g.keys);
	json_decref(g.ids);
	json_decref(g.nodes);
	json_decref(g.links);
	return root;
}

#else

json_t *fan_graphml_to_json(const char *text, size_t bytes, struct fan_why *why)
{
	(void)text;
	(void)bytes;
	fan_why_set(why, FAN_E_CONFIG,
		    "this is GraphML, and fanin was built without expat, which reads it");
	return NULL;
}

#endif

bool fan_graphml_is(const char *text, size_t bytes)
{
	size_t i = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;

	while (i < bytes && strchr(" \t\r\n", text[i]) && text[i])
		i++;
	return i < bytes && text[i] == '<';
}
