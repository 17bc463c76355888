/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/err.h"
#include "file/file.h"
#include "file/option.h"
#include "net/clock.h"
#include "net/logline.h"
#include "rank_file.h"

#define NS_PER_S UINT64_C(1000000000)

struct fan_trace {
	char path[FAN_RANK_FILE_BYTES];
	char job[FAN_NAME_MAX + 1];
	int rank;
	uint64_t epoch_ns; /* 1970 by the monotonic clock */
	_Atomic uint64_t ids;
	pthread_mutex_t lock; /* for what follows */
	uint64_t count;	      /* of all events so far; the ring has the last ones */
	struct fan_trace_event event[FAN_TRACE_EVENTS];
};

struct fan_trace *fan_trace_open(const struct fan_config *c)
{
	const char *pattern = fan_option_variable("FANIN_TRACE");
	struct fan_trace *t = pattern ? calloc(1, sizeof *t) : NULL;
	struct timespec real;
	if (!t || !fan_rank_file(t->path, sizeof t->path, pattern, c->job, c->rank)) {
		if (pattern)
			fan_rank_file_fail("FANIN_TRACE", t ? "the name is too long" : "no memory");
		free(t);
		return NULL;
	}
	snprintf(t->job, sizeof t->job, "%s", c->job);
	t->rank = c->rank;
	clock_gettime(CLOCK_REALTIME, &real);
	t->epoch_ns = (uint64_t)real.tv_sec * NS_PER_S + (uint64_t)real.tv_nsec - fan_clock_ns();
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

uint64_t fan_trace_id(struct fan_trace *t)
{
	return atomic_fetch_add(&t->ids, 1) + 1;
}

void fan_trace_add(struct fan_trace *t, const struct fan_trace_event *e)
{
	assert(e->begin_ns <= e->end_ns);
	pthread_mutex_lock(&t->lock);
	t->event[t->count++ % FAN_TRACE_EVENTS] = *e;
	pthread_mutex_unlock(&t->lock);
}

/* Microseconds since 1970, with nanoseconds behind the point. */
static void put_time(FILE *f, const char *key, uint64_t ns)
{
	fprintf(f, ",\"%s\":%" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

/* Half of a slice that others may overlap: phase "b" begins it, "e" ends it. */
static void put_half(FILE *f, const struct fan_trace *t, const struct fan_trace_event *e,
		     char phase)
{
	uint64_t at_ns = phase == 'b' ? e->begin_ns : e->end_ns;
	fprintf(f,
		"{\"ph\":\"%c\",\"cat\":\"fanin\",\"id\":\"%d.%" PRIu64 "\",\"pid\":%d,\"tid\":0",
		phase, t->rank, e->id, t->rank);
	put_time(f, "ts", t->epoch_ns + at_ns);
	if (e->kind == FAN_TRACE_PART)
		fprintf(f, ",\"name\":\"part %u shard %u\"},\n", e->part, e->shard);
	else if (phase == 'b')
		fprintf(f,
			",\"name\":\"%s\",\"args\":{\"bytes\":%" PRIu64 ",\"result\":\"%s\"}},\n",
			e->name, e->bytes, fan_err_name(e->result));
	else
		fprintf(f, ",\"name\":\"%s\"},\n", e->name);
}

/* A slice that no other one of its thread overlaps. */
static void put_slice(FILE *f, const struct fan_trace *t, const struct fan_trace_event *e)
{
	fprintf(f, "{\"ph\":\"X\",\"cat\":\"fanin\",\"pid\":%d,\"tid\":1,\"name\":\"%s\"", t->rank,
		e->name);
	put_time(f, "ts", t->epoch_ns + e->begin_ns);
	put_time(f, "dur", e->end_ns - e->begin_ns);
	fprintf(f, "},\n");
}

static void put_event(FILE *f, const struct fan_trace *t, const struct fan_trace_event *e)
{
	if (e->kind == FAN_TRACE_OP || e->kind == FAN_TRACE_PART) {
		put_half(f, t, e, 'b');
		put_half(f, t, e, 'e');
	} else {
		put_slice(f, t, e);
	}
}

/* Name what counts as process and thread there. */
static void put_head(FILE *f, const struct fan_trace *t, uint64_t lost)
{
	static const char *const threads[] = {"operations", "waits"};
	char name[FAN_NAME_MAX + 32];
	snprintf(name, sizeof name, "fanin %s rank %d", t->job, t->rank);
	fprintf(f, "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":",
		t->rank);
	json_t *shown = fan_json_text(name);
	json_dumpf(shown, f, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	json_decref(shown);
	fprintf(f, ",\"lost\":%" PRIu64 "}},\n", lost);
	for (unsigned i = 0; i < sizeof threads / sizeof threads[0]; i++)
		fprintf(f,
			"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"%s\"}},\n",
			t->rank, i, threads[i]);
}

static void put_all(FILE *f, const struct fan_trace *t)
{
	uint64_t first = t->count > FAN_TRACE_EVENTS ? t->count - FAN_TRACE_EVENTS : 0;
	put_head(f, t, first);
	for (uint64_t i = first; i < t->count; i++)
		put_event(f, t, &t->event[i % FAN_TRACE_EVENTS]);
	fprintf(f,
		"{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}\n]\n",
		t->rank, t->rank);
}

void fan_trace_close(struct fan_trace *t, bool write)
{
	char why[FAN_CONFIG_WHY_BYTES];
	if (!t)
		return;
	FILE *f = write ? fan_file_renew(t->path, why, sizeof why) : NULL;
	if (f)
		put_all(f, t);
	if (write && (!f || fan_file_renewed(f, t->path, 0, why, sizeof why)))
		fan_rank_file_fail("FANIN_TRACE", why);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
