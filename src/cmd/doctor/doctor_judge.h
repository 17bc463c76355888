/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_judge.h - of the doctor's figures what needs no I/O. */
#ifndef FAN_CMD_DOCTOR_DOCTOR_JUDGE_H
#define FAN_CMD_DOCTOR_DOCTOR_JUDGE_H

#include <stdint.h>

/* For qsort: uint64_t rise. */
int doctor_rising(const void *a, const void *b);

/* The smallest of `count` rising values that `permille` of them do not exceed; 0 if `count` is
 * 0. */
uint64_t doctor_percentile(const uint64_t *rising, unsigned count, unsigned permille);

/* A size between one that passes and one that does not. */
struct doctor_bisect {
	int passes, fails; /* passes < fails */
};

/* The size to try next; 0: `passes` is the largest. */
int doctor_bisect_next(const struct doctor_bisect *b);

/* The usual MTU for slots of `payload_bytes`. */
int doctor_mtu_of_slots(unsigned payload_bytes);

#endif
