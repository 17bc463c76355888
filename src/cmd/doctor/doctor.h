/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - what the files of `fanin doctor` share: measurements.
 *
 *     doctor.c           flags, the order of the checks, lines of JSON for
 *                        python/fanin/operate/forecast, which prints; how all ranks meet
 *     doctor_local.c     this machine: cores, clock, buffers, offloads, memory; settings
 *     doctor_path.c      the path to the switch: answer, version, loss, sizes, bursts, shards
 *     doctor_sum.c       a job of two ranks that tries sums and multicast
 *     doctor_echo.c      trains and streams of ECHOs
 *     doctor_job.c       all ranks: the rates of streams, who sums, how long all-reduces take */
#ifndef FAN_CMD_DOCTOR_DOCTOR_H
#define FAN_CMD_DOCTOR_DOCTOR_H

#include <jansson.h>
#include <netinet/in.h>

#include "cmd/args.h"
#include "core/wire/ctlmsg.h"
#include "lib/base/config.h"
#include "lib/comm/meeting.h"
#include "net/echo.h"
#include "net/logline.h"
#include "net/udp.h"

#define DOCTOR_ADDRESS_BYTES 80
#define DOCTOR_DEVICE_BYTES  16
#define DOCTOR_SWITCHES_MAX  FAN_SHARDS_MAX

struct doctor_args {
	char sw[ARGS_TEXT_BYTES];   /* empty: FANIN_SWITCH, [worker] or none */
	char json[ARGS_TEXT_BYTES]; /* empty: none */
	int count;		    /* ECHOs of a train */
	int timeout_s;		    /* of the whole run, once all ranks have met */
	uint64_t bytes;		    /* of the tensor of the forecast */
	bool no_join, settings, all;
};

/* The doctors of all ranks of a job, which meet as its ranks do.  All take the same steps; what one
 * measures, all learn by an all-reduce. */
struct doctor_group {
	bool wanted; /* the environment has this rank and the number of ranks */
	bool met;    /* all ranks have met, and none is lost */
	bool first;  /* this is the first rank of its host */
	unsigned host;
	struct fan_meeting meeting;
	struct fanin_comm *comm; /* NULL: none */
	struct fan_embedded_switch *sw;
};

struct doctor {
	struct doctor_args args;
	struct fan_config cfg; /* as a worker that starts here reads it */
	uint64_t deadline_ns;  /* of the whole run */

	/* The switch; from `who` on only if it answers. */
	bool resolved; /* `sw` and `at` hold its address */
	bool lossy;
	bool no_path; /* no packet is sent to the switch */
	fan_peer sw;
	char at[DOCTOR_ADDRESS_BYTES];
	char device[DOCTOR_DEVICE_BYTES]; /* interface towards the switch; empty: not known */
	struct fan_echoed who;
	uint64_t rto_ns; /* time to wait for an answer */
	int mtu;	 /* largest that works for workers; 0: none */
	int path_mtu;	 /* of the largest packet tried that passes; 0: none */
	uint64_t rtt_ns; /* median of small packets; 0: not known */

	/* From the doctors of other ranks. */
	struct doctor_group group;
	fan_peer named[DOCTOR_SWITCHES_MAX];
	unsigned named_count;
	bool inside;		/* `sw` is embedded in another rank */
	struct fanin_comm *job; /* job of all ranks; NULL: not open */
};

/* Print the line {KIND: value}; takes the reference. */
void doctor_line(const char *kind, json_t *value);

/* Print what this machine gives a worker. */
void doctor_print_machine(void);

/* The checks of the path, and of a job on it.  Each prints what it finds, or why it is skipped. */
void doctor_check_path(struct doctor *d);
void doctor_check_sum(struct doctor *d);

/* Print what all ranks measure together: without other ranks nothing but, of links, the rates to
 * named switches. */
void doctor_measure_together(struct doctor *d);

/* Why the switch cannot be asked: "path" or "time"; NULL: it can. */
const char *doctor_no_path(const struct doctor *d);

/* Print that the check is skipped. */
void doctor_skip(const char *check, const char *why);

/* True if the switch cannot be asked; prints a skip. */
bool doctor_skips(const struct doctor *d, const char *check);

/* Print the line "settings": this build, the options of a rank as they are read here, and what
 * decides who sums its tensors. */
void doctor_print_settings(void);

/* All-reduce the words in place, by sum.  False: a rank is lost, which is printed. */
bool doctor_group_add(struct doctor *d, int32_t *words, unsigned count);

/* ---- doctor_echo.c: trains of ECHOs to one shard of a switch, and their answers ---- */

#define DOCTOR_TRAIN_MAX  65536	     /* ECHOs of a train */
#define DOCTOR_COUNT_MAX  5000	     /* of one that a user asks for */
#define DOCTOR_BURST_MAX  64	     /* ECHOs sent at once */
#define DOCTOR_STREAM_MAX (64 << 20) /* bytes of one stream, at most */

struct doctor_train {
	/* The packets to send. */
	unsigned count; /* 1 .. DOCTOR_TRAIN_MAX */
	unsigned burst; /* sent at once, 1 .. DOCTOR_BURST_MAX */
	uint64_t gap_ns;
	unsigned window;   /* in place of gaps: ECHOs in flight; 0: gaps */
	uint64_t wait_ns;  /* to wait for answers to the last */
	uint64_t until_ns; /* end by then, whatever is missing */
	uint16_t body_bytes, answer_bytes;
	bool once; /* end with the first answer */

	/* The result. */
	unsigned tried, sent; /* the difference: refused by the kernel */
	unsigned answered;
	unsigned version;	/* of the protocol, if another answered; 0: none */
	unsigned strays;	/* datagrams that are no switch's answer */
	unsigned batch;		/* most datagrams in one receive */
	int error;		/* last errno of a receive, ECONNREFUSED for one */
	int send_error;		/* last errno of a send */
	struct fan_echoed who;	/* valid if any were answered */
	const uint64_t *rtt_ns; /* `answered` times, rising; valid until the next train */
};

/* Open a socket to `to`.  It ignores the kernel's path MTU, and IP never fragments its datagrams.
 * 0, or -errno. */
int doctor_echo_open(struct fan_udp *udp, const fan_peer *to);

/* Send and wait; ends early when all answers have arrived, or when the interface refuses the size
 * (EMSGSIZE). */
void doctor_train_run(struct fan_udp *udp, struct doctor_train *tr);

/* Send ECHOs to `to` for `ns`, `window` in flight.  The answers per second once the path is full;
 * 0: there are none. */
double doctor_stream(const fan_peer *to, unsigned window, uint64_t ns, uint16_t body_bytes,
		     uint16_t answer_bytes);

#endif
