/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "csv.h"

#define IMAGE_CLASSES 1000
#define TOKENS	      128 /* in a sample of a transformer */
#define BERT_WORDS    30522
#define GPT2_WORDS    50257
#define NCF_USERS     138493 /* MovieLens-20M */
#define NCF_ITEMS     26744

/* The published times, and the multiply-adds to which they apply. */
#define VGG16_MACS	     UINT64_C(15470264320)
#define VGG16_FORWARD_NS     UINT64_C(252000000)
#define VGG16_BACKWARD_NS    UINT64_C(439000000)
#define RESNET50_MACS	     UINT64_C(4111412224)
#define RESNET50_FORWARD_NS  UINT64_C(202000000)
#define RESNET50_BACKWARD_NS UINT64_C(261000000)
#define MEASURED_BATCH	     64

/* A table under construction, and the multiply-adds of its layers. */
struct table {
	struct fan_model *m;
	uint64_t *macs; /* FAN_MODEL_LAYERS_MAX entries */
	bool failed;
};

bool fan_model_add(struct fan_model *m, const struct fan_layer *layer)
{
	bool full = (m->layers & (m->layers - 1)) == 0; /* its size is a power of two */
	if (m->layers == FAN_MODEL_LAYERS_MAX)
		return false;
	if (full) {
		size_t room = m->layers ? 2 * m->layers : 1;
		struct fan_layer *more = realloc(m->layer, room * sizeof *more);
		if (!more)
			return false;
		m->layer = more;
	}
	m->layer[m->layers++] = *layer;
	return true;
}

void fan_model_free(struct fan_model *m)
{
	free(m->layer);
	memset(m, 0, sizeof *m);
}

__attribute__((format(printf, 4, 5))) static void add(struct table *t, uint64_t numel,
						      uint64_t macs, const char *format, ...)
{
	struct fan_layer l = {.numel = numel};
	va_list args;
	va_start(args, format);
	vsnprintf(l.name, sizeof l.name, format, args);
	va_end(args);
	t->failed |= !fan_model_add(t->m, &l);
	if (!t->failed)
		t->macs[t->m->layers - 1] = macs;
}

/* ---- images ---- */

/* A convolution with `side` x `side` outputs. */
static void conv(struct table *t, const char *name, uint64_t in, uint64_t out, uint64_t kernel,
		 uint64_t side, bool bias)
{
	uint64_t weights = in * out * kernel * kernel;
	add(t, weights + (bias ? out : 0), weights * side * side, "%s", name);
}

static void norm(struct table *t, const char *name, uint64_t width, uint64_t places)
{
	add(t, 2 * width, 2 * width * places, "%s", name);
}

static void dense(struct table *t, const char *name, uint64_t in, uint64_t out, uint64_t places)
{
	add(t, in * out + out, in * out * places, "%s", name);
}

static void alexnet(struct table *t, unsigned depth)
{
	(void)depth;
	conv(t, "conv1", 3, 64, 11, 55, true);
	conv(t, "conv2", 64, 192, 5, 27, true);
	conv(t, "conv3", 192, 384, 3, 13, true);
	conv(t, "conv4", 384, 256, 3, 13, true);
	conv(t, "conv5", 256, 256, 3, 13, true);
	dense(t, "fc6", UINT64_C(256) * 6 * 6, 4096, 1);
	dense(t, "fc7", 4096, 4096, 1);
	dense(t, "fc8", 4096, IMAGE_CLASSES, 1);
}

static void vgg(struct table *t, unsigned depth)
{
	static const unsigned width[5] = {64, 128, 256, 512, 512};
	unsigned in = 3, side = 224;
	for (unsigned stage = 0; stage < 5; stage++, side /= 2) {
		unsigned convs = stage < 2 ? 2 : (depth - 7) / 3;
		for (unsigned i = 0; i < convs; i++, in = width[stage]) {
			char name[32];
			snprintf(name, sizeof name, "conv%u_%u", stage + 1, i + 1);
			conv(t, name, in, width[stage], 3, side, true);
		}
	}
	dense(t, "fc6", UINT64_C(512) * 7 * 7, 4096, 1);
	dense(t, "fc7", 4096, 4096, 1);
	dense(t, "fc8", 4096, IMAGE_CLASSES, 1);
}

static void conv_norm(struct table *t, const char *block, const char *part, unsigned in,
		      unsigned out, unsigned kernel, unsigned side)
{
	char name[FAN_MODEL_NAME_MAX + 1];
	snprintf(name, sizeof name, "%s.conv%s", block, part);
	conv(t, name, in, out, kernel, side, false);
	snprintf(name, sizeof name, "%s.bn%s", block, part);
	norm(t, name, out, (uint64_t)side * side);
}

/* Bottleneck blocks; the 3 x 3 convolution has the stride. */
static void resnet(struct table *t, unsigned depth)
{
	unsigned blocks[4] = {3, 4, depth == 152 ? 36 : depth == 101 ? 23 : 6, 3};
	blocks[1] = depth == 152 ? 8 : 4;
	conv_norm(t, "stem", "", 3, 64, 7, 112);
	unsigned in = 64, side = 56;
	for (unsigned stage = 0; stage < 4; stage++) {
		unsigned width = 64u << stage;
		for (unsigned i = 0; i < blocks[stage]; i++) {
			unsigned out_side = i == 0 && stage ? side / 2 : side;
			char name[24];
			snprintf(name, sizeof name, "layer%u.%u", stage + 1, i);
			conv_norm(t, name, "1", in, width, 1, side);
			conv_norm(t, name, "2", width, width, 3, out_side);
			conv_norm(t, name, "3", width, 4 * width, 1, out_side);
			if (i == 0)
				conv_norm(t, name, "_down", in, 4 * width, 1, out_side);
			in = 4 * width;
			side = out_side;
		}
	}
	dense(t, "fc", in, IMAGE_CLASSES, 1);
}

/* ---- words ---- */

static void part(struct table *t, unsigned layer, const char *name, uint64_t in, uint64_t out)
{
	add(t, in * out + out, in * out * TOKENS, "layer%u.%s", layer, name);
}

static void part_norm(struct table *t, unsigned layer, const char *name, uint64_t width)
{
	add(t, 2 * width, 2 * width * TOKENS, "layer%u.%s", layer, name);
}

/* Two products: of queries and keys, and of weights and values. */
static void attention(struct table *t, unsigned layer, uint64_t width)
{
	add(t, 0, 2 * width * TOKENS * TOKENS, "layer%u.attention", layer);
}

static void bert(struct table *t, unsigned layers)
{
	uint64_t width = layers == 24 ? 1024 : 768;
	add(t, BERT_WORDS * width, width * TOKENS, "embeddings.word");
	add(t, 512 * width, width * TOKENS, "embeddings.position");
	add(t, 2 * width, width * TOKENS, "embeddings.type");
	norm(t, "embeddings.norm", width, TOKENS);
	for (unsigned i = 0; i < layers; i++) {
		part(t, i, "query", width, width);
		part(t, i, "key", width, width);
		part(t, i, "value", width, width);
		attention(t, i, width);
		part(t, i, "output", width, width);
		part_norm(t, i, "norm1", width);
		part(t, i, "up", width, 4 * width);
		part(t, i, "down", 4 * width, width);
		part_norm(t, i, "norm2", width);
	}
	dense(t, "pooler", width, width, 1);
}

static void gpt2(struct table *t, unsigned layers)
{
	uint64_t width = 768;
	add(t, GPT2_WORDS * width, width * TOKENS, "wte");
	add(t, 1024 * width, width * TOKENS, "wpe");
	for (unsigned i = 0; i < layers; i++) {
		part_norm(t, i, "norm1", width);
		part(t, i, "query_key_value", width, 3 * width);
		attention(t, i, width);
		part(t, i, "output", width, width);
		part_norm(t, i, "norm2", width);
		part(t, i, "up", width, 4 * width);
		part(t, i, "down", 4 * width, width);
	}
	norm(t, "norm", width, TOKENS);
	add(t, 0, GPT2_WORDS * width * TOKENS, "head"); /* it reuses the matrix wte */
}

/* ---- recommendation ---- */

static void ncf(struct table *t, unsigned depth)
{
	(void)depth;
	add(t, UINT64_C(64) * NCF_USERS, 64, "mf.users");
	add(t, UINT64_C(64) * NCF_ITEMS, 64, "mf.items");
	add(t, UINT64_C(128) * NCF_USERS, 128, "mlp.users");
	add(t, UINT64_C(128) * NCF_ITEMS, 128, "mlp.items");
	dense(t, "mlp.1", 256, 256, 1);
	dense(t, "mlp.2", 256, 128, 1);
	dense(t, "mlp.3", 128, 64, 1);
	dense(t, "score", 128, 1, 1);
}

/* ---- all ---- */

static const struct {
	const char *name;
	void (*make)(struct table *t, unsigned depth);
	unsigned depth, batch;
	bool like_resnet; /* a multiply-add takes as long as ResNet50's; else as VGG16's */
} models[] = {
	{"alexnet", alexnet, 8, 64, false},   {"vgg16", vgg, 16, 64, false},
	{"vgg19", vgg, 19, 64, false},	      {"resnet50", resnet, 50, 64, true},
	{"resnet101", resnet, 101, 64, true}, {"resnet152", resnet, 152, 64, true},
	{"bert-base", bert, 12, 64, false},   {"bert-large", bert, 24, 64, false},
	{"gpt2-small", gpt2, 12, 64, false},  {"ncf", ncf, 4, 65536, false},
};
#define MODELS (sizeof models / sizeof *models)

const char *const fan_model_names[] = {"alexnet",    "vgg16",	  "vgg19",     "resnet50",
				       "resnet101",  "resnet152", "bert-base", "bert-large",
				       "gpt2-small", "ncf",	  NULL};

/* Spread the model's time over the layers so that rounding loses none of it. */
static void spread(struct table *t, uint64_t forward_ns, uint64_t backward_ns)
{
	uint64_t all = 0, done = 0, forward = 0, backward = 0;
	for (uint32_t i = 0; i < t->m->layers; i++)
		all += t->macs[i];
	for (uint32_t i = 0; i < t->m->layers; i++) {
		struct fan_layer *l = &t->m->layer[i];
		done += t->macs[i];
		uint64_t f = (uint64_t)((unsigned __int128)forward_ns * done / all);
		uint64_t b = (uint64_t)((unsigned __int128)backward_ns * done / all);
		l->forward_ns = f - forward;
		l->backward_ns = b - backward;
		forward = f;
		backward = b;
	}
}

static uint64_t scaled(uint64_t ns, uint64_t macs, uint64_t of)
{
	return (uint64_t)((unsigned __int128)ns * macs / of);
}

static bool make(struct fan_model *m, const char *name, uint64_t *macs)
{
	memset(m, 0, sizeof *m);
	struct table t = {m, malloc(FAN_MODEL_LAYERS_MAX * sizeof *t.macs), false};
	unsigned i = 0;
	while (i < MODELS && strcmp(models[i].name, name))
		i++;
	if (i == MODELS || !t.macs) {
		free(t.macs);
		return false;
	}
	snprintf(m->name, sizeof m->name, "%s", name);
	models[i].make(&t, models[i].depth);
	*macs = 0;
	for (uint32_t l = 0; l < m->layers && !t.failed; l++)
		*macs += t.macs[l];
	uint64_t batch = *macs * models[i].batch;
	uint64_t of = (models[i].like_resnet ? RESNET50_MACS : VGG16_MACS) * MEASURED_BATCH;
	if (models[i].like_resnet)
		spread(&t, scaled(RESNET50_FORWARD_NS, batch, of),
		       scaled(RESNET50_BACKWARD_NS, batch, of));
	else
		spread(&t, scaled(VGG16_FORWARD_NS, batch, of),
		       scaled(VGG16_BACKWARD_NS, batch, of));
	free(t.macs);
	if (t.failed)
		fan_model_free(m);
	return !t.failed;
}

bool fan_model_make(struct fan_model *m, const char *name)
{
	uint64_t macs;
	return make(m, name, &macs);
}

uint64_t fan_model_macs(const char *name)
{
	struct fan_model m;
	uint64_t macs = 0;
	if (make(&m, name, &macs))
		fan_model_free(&m);
	return macs;
}

/* ---- layer tables from CSV ---- */

#define CSV_HEAD "layer,numel,forward_ns,backward_ns"

int fan_model_parse(struct fan_model *m, char *text, char *why, size_t why_bytes)
{
	struct fan_csv c;
	memset(m, 0, sizeof *m);
	if (!fan_csv_open(&c, text, CSV_HEAD)) {
		snprintf(why, why_bytes, "line %u: expected the columns " CSV_HEAD,
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
