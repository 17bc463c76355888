/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_judge.h - judges the doctor's figures: thresholds and words, no I/O. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_JUDGE_H
#define FAN_CMD_DOCTOR_DOCTOR_JUDGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOCTOR_TEXT_BYTES 400
#define DOCTOR_ADVICE_MAX 10

#define DOCTOR_LOSS_FAIL_PERMILLE 200	   /* windows stay at their least, so sums are slow */
#define DOCTOR_RTT_WARN_NS	  5000000  /* from here a full window of 512 is below 1 Gb/s */
#define DOCTOR_TAIL_WARN_NS	  20000000 /* p99: scheduling or queues, not the wire */

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_WARN, /* works, but slower than it could */
	DOCTOR_FAIL, /* aggregation cannot work */
	DOCTOR_SKIP, /* not checked */
};

struct doctor_finding {
	const char *name;
	enum doctor_status status;
	char found[DOCTOR_TEXT_BYTES];
	char advice[DOCTOR_ADVICE_MAX][DOCTOR_TEXT_BYTES];
	unsigned advice_count;
	json_t *values; /* object: the figures behind the text; NULL: none */
};

/* For qsort: uint64_t rise. */
int doctor_rising(const void *a, const void *b);

/* The smallest of `count` rising values that `permille` of them do not exceed; 0 if `count` is
 * 0. */
uint64_t doctor_percentile(const uint64_t *rising, unsigned count, unsigned permille);

/* Any loss is a warning; from DOCTOR_LOSS_FAIL_PERMILLE on aggregation fails. */
enum doctor_status doctor_judge_loss(unsigned sent, unsigned answered);

enum doctor_status doctor_judge_rtt(uint64_t p50_ns, uint64_t p99_ns);

/* The worse of two statuses. */
enum doctor_status doctor_worse(enum doctor_status a, enum doctor_status b);

/* Parse "max 100000" or "150000 100000" to thousandths of a core; 0: no limit, or not
 * understood. */
unsigned doctor_quota_millicores(const char *cpu_max);

/* The group of `controller` in the text of /proc/self/cgroup; "" asks for version 2.  False:
 * none. */
bool doctor_cgroup_path(const char *text, const char *controller, char *path, size_t bytes);

/* A size between one that passes and one that does not. */
struct doctor_bisect {
	int passes, fails; /* passes < fails */
};

/* The size to try next; 0: `passes` is the largest. */
int doctor_bisect_next(const struct doctor_bisect *b);

/* The usual MTU for slots of `payload_bytes`. */
int doctor_mtu_of_slots(unsigned payload_bytes);

#endif
