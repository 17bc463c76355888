/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - the one table of error codes and the one table of drop reasons.
 *
 * Errors are for callers and end jobs; drop reasons are for packets.  A bad packet is never
 * an error: it is counted by reason. */
#ifndef FAN_BASE_ERR_H
#define FAN_BASE_ERR_H

/* X(name, value, word, text); values are part of the ABI (include/fanin.h) and of the
 * wire (causes in STATE, REFUSE and LEAVE), so they never change. */
#define FAN_ERRORS(X)                                                                              \
	X(FAN_OK, 0, "ok", "success")                                                              \
	X(FAN_E_INVALID, -1, "invalid", "invalid argument")                                        \
	X(FAN_E_NOMEM, -2, "nomem", "out of memory")                                               \
	X(FAN_E_SYSTEM, -3, "system", "the operating system refused a call")                       \
	X(FAN_E_BUSY, -4, "busy", "too many operations in flight")                                 \
	X(FAN_E_UNREACHABLE, -5, "unreachable", "the switch does not answer")                      \
	X(FAN_E_TIMEOUT, -6, "timeout", "not every rank joined in time")                           \
	X(FAN_E_RANK_LOST, -7, "rank_lost", "a rank stopped answering")                            \
	X(FAN_E_RANK_LEFT, -8, "rank_left", "a rank left while others still needed it")            \
	X(FAN_E_STALLED, -9, "stalled", "a rank did not take part in time")                        \
	X(FAN_E_MISMATCH, -10, "mismatch", "ranks disagree about the operation")                   \
	X(FAN_E_RANK_TAKEN, -11, "rank_taken", "the rank is already taken in this job")            \
	X(FAN_E_JOBS_FULL, -12, "jobs_full", "the switch serves as many jobs as it can")           \
	X(FAN_E_SLOTS_FULL, -13, "slots_full", "the switch has no slots left for the job")         \
	X(FAN_E_MEMBERS_FULL, -14, "members_full", "the switch has no room for the job's ranks")   \
	X(FAN_E_JOB_MISMATCH, -15, "job_mismatch",                                                 \
	  "ranks disagree about the job's size or options")                                        \
	X(FAN_E_RESTARTED, -16, "restarted", "the switch does not know the job: it was restarted") \
	X(FAN_E_VERSION, -17, "version", "the switch speaks another version of the protocol")      \
	X(FAN_E_SHORT, -18, "short", "shorter than its header or count promises")                  \
	X(FAN_E_FORMAT, -19, "format", "malformed message")                                        \
	X(FAN_E_CHECK, -20, "check", "checksum does not match")                                    \
	X(FAN_E_CLOSED, -21, "closed", "the communicator is closed")                               \
	X(FAN_E_PAYLOAD, -22, "payload",                                                           \
	  "the switch's slots are smaller than the fragments asked for")                           \
	X(FAN_E_MTU, -23, "mtu", "fragments do not fit the path MTU")                              \
	X(FAN_E_PENDING, -24, "pending", "not finished yet")                                       \
	X(FAN_E_CONFIG, -25, "config", "wrong configuration")                                      \
	X(FAN_E_SHARDS, -26, "shards",                                                             \
	  "the switch and the server behind it run different numbers of threads")                  \
	X(FAN_E_ROUTE, -27, "route", "the worker is not where the job's route has it join")        \
	X(FAN_E_SEALED, -28, "sealed", "of switch and rank only one has a key")                    \
	X(FAN_E_FILES, -29, "files", "a rank has too few file descriptors left")                   \
	X(FAN_E_STOPPED, -30, "stopped", "the switch is being stopped")                            \
	X(FAN_E_LAUNCHES, -31, "launches", "two launches of the program use one job name")

enum fan_err {
#define X(name, value, word, text) name = value,
	FAN_ERRORS(X)
#undef X
};

/* X(name, text): why a packet was dropped.  Counted per switch and per worker. */
#define FAN_DROPS(X)                                                                               \
	X(FAN_DROP_SHORT, "short")	   /* truncated: less than it promises */                  \
	X(FAN_DROP_LONG, "long")	   /* oversized: more than it promises */                  \
	X(FAN_DROP_VERSION, "version")	   /* another version byte */                              \
	X(FAN_DROP_CHECK, "check")	   /* checksum wrong */                                    \
	X(FAN_DROP_TYPE, "type")	   /* unknown or not for this role */                      \
	X(FAN_DROP_FORMAT, "format")	   /* a field out of its range */                          \
	X(FAN_DROP_JOB, "job")		   /* no such job */                                       \
	X(FAN_DROP_EPOCH, "epoch")	   /* another life of the job */                           \
	X(FAN_DROP_SENDER, "sender")	   /* not a member, or from another address */             \
	X(FAN_DROP_STATE, "state")	   /* the job is not ready, or has failed */               \
	X(FAN_DROP_DUPLICATE, "duplicate") /* already counted */                                   \
	X(FAN_DROP_STALE, "stale")	   /* of a round that is over */                           \
	X(FAN_DROP_AHEAD, "ahead")	   /* of a round that cannot have begun */                 \
	X(FAN_DROP_MISMATCH, "mismatch")   /* disagrees with the other ranks */                    \
	X(FAN_DROP_FULL, "full")	   /* no room to keep it */                                \
	X(FAN_DROP_ROUTE, "route")	   /* of no route that is known here, or off it */         \
	X(FAN_DROP_COLLISION, "collision") /* its slot was taken, and its rank gets NEED: grid */

enum fan_drop {
#define X(name, text) name,
	FAN_DROPS(X)
#undef X
		FAN_DROP_COUNT /* number of reasons */
};

/* The text of an error code; "unknown error" for any other value.  Never NULL. */
const char *fan_err_text(int err);

/* The name of an error code without its prefix, in lower case ("rank_lost"), as
 * logs and JSON print it; "unknown" for any other value. */
const char *fan_err_name(int err);

/* The word for a drop reason; "unknown" for any other value. */
const char *fan_drop_text(unsigned drop);

#endif
