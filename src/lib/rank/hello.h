/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h - a named switch that was lost (regroup.h), or said goodbye, is there again.
 *
 * Each rank asks the lost ones by ECHO, in turns.  After every so many operations, which are the
 * same on all ranks, an all-reduce of their own adds up who has had an answer of late.  Where all
 * have, all begin a regroup that takes the part in again.  A part is vouched for no sooner than
 * FAN_HELLO_WAIT_NS after it was lost, and twice as long each time that it is lost soon again, so
 * that one that comes and goes costs little. */
#ifndef FAN_LIB_RANK_HELLO_H
#define FAN_LIB_RANK_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/limits.h"
#include "lib/base/fault_text.h"
#include "net/echo.h"
#include "net/udp.h"

/* For which an answer counts, times those lost. */
#define FAN_HELLO_FRESH_NS (3000 * FAN_MS)
#define FAN_HELLO_WAIT_NS  (10000 * FAN_MS)
#define FAN_HELLO_WAITS	   7 /* it is doubled so often at most */
#define FAN_HELLO_CALM_NS                                                                          \
	(600000 * FAN_MS)	  /* who was there for so long may come back as at first */
#define FAN_HELLO_OPS	16	  /* operations between two of these all-reduces... */
#define FAN_HELLO_BYTES (4 << 20) /* ...or bytes, whichever comes first */

struct fan_rank;
struct fan_regroup;
struct fanin_op;

/* One part's data, by its number. */
struct fan_hello_part {
	uint64_t heard_ns; /* of its last answer; 0: none, or it was lost since */
	uint64_t from_ns;  /* it is not vouched for before */
	uint64_t back_ns;  /* when it came back last; 0: never */
	unsigned waits;	   /* doublings of FAN_HELLO_WAIT_NS */
};

struct fan_hello {
	struct fan_udp udp; /* to the one that was asked; fd -1: none was */
	unsigned asked;	    /* its number */
	struct fan_echo_asker echo;
	uint64_t back; /* bit i: all ranks have heard part number i */
	unsigned ops;  /* started since the last all-reduce, and their bytes */
	uint64_t bytes;
	struct fan_hello_part part[FAN_CAUSE_PARTS_MAX];
};

void fan_hello_init(struct fan_hello *h);
void fan_hello_free(struct fan_hello *h);

/* The parts that are lost, and come back, with part `number`, a bit each: itself, or all of its
 * rail. */
uint64_t fan_hello_lost_with(const struct fan_regroup *g, unsigned number);

/* Part `number` is lost, or is there again. */
void fan_hello_lost(struct fan_hello *h, unsigned number, uint64_t now_ns);
void fan_hello_back(struct fan_hello *h, unsigned number, uint64_t now_ns);

/* A caller's operation of `bytes` is started. */
void fan_hello_started(struct fan_rank *r, uint64_t bytes);

/* Before an operation is started: put the all-reduce in front of it, if it is due.  False: no
 * memory. */
bool fan_hello_offer(struct fan_rank *r);

/* It is done. */
void fan_hello_offered(struct fan_rank *r, const struct fanin_op *op);

/* Ask, if it is time.  The number of a part that is back, with all that were lost with it; -1: none
 * is. */
int fan_hello_work(struct fan_rank *r, uint64_t now_ns);

#endif
