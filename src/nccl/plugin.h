/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - what the files of the plug-in call of each other.  Functions return an enum
 * fan_nccl_result, unless noted otherwise. */
#ifndef FAN_NCCL_PLUGIN_H
#define FAN_NCCL_PLUGIN_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "core/base/out.h"

/* ---- interface.c: devices, and the log ---- */

#define FAN_NCCL_INTERFACES_MAX 16
#define FAN_NCCL_PATH_BYTES	256
#define FAN_NCCL_INTERFACE_MBPS 10000 /* of an interface that reports none, as NCCL has it */
#define FAN_NCCL_SPEED_MIN_MBPS 1000  /* below 0.12 GB/s NCCL's search finds no way for CollNet */

struct fan_nccl_interface {
	char name[IF_NAMESIZE];
	char pci_path[FAN_NCCL_PATH_BYTES]; /* in /sys; "": it is no card */
	uint64_t guid;
	fan_peer at;	      /* IPv4, or IPv6 if it has no other; port 0 */
	unsigned prefix_bits; /* of `at`: all of its network share them */
	int speed_mbps;
};

/* How many there are; 0: none. */
int fan_nccl_interfaces(void);

/* Number `dev`; NULL: there is none. */
const struct fan_nccl_interface *fan_nccl_interface(int dev);

/* Is `to` in the network of another interface, and not in that of this one?  Then the kernel's
 * routes decide how it is reached: what came from this interface's address would enter the peer
 * where it does not expect it, and strict reverse-path filters drop that. */
bool fan_nccl_interface_is_beside(const struct fan_nccl_interface *interface, const fan_peer *to);

#define FAN_NCCL_LINE_BYTES 512 /* of a line; what is longer is cut */

/* Log to `log` from here on. */
void fan_nccl_log_to(fan_nccl_logger log);

/* Shown with NCCL_DEBUG=INFO. */
void fan_nccl_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shown with NCCL_DEBUG=WARN.  Returns `result`. */
int fan_nccl_warn(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- link.c: messages ---- */

#define FAN_NCCL_PIECES_MAX  8		/* of one receive */
#define FAN_NCCL_MESSAGE_MAX (1u << 30) /* bytes of a message */
#define FAN_NCCL_PEER_BYTES  80		/* of an address as text */

struct fan_nccl_link;

/* A link of the connected socket `fd`, which it owns from here on, to `peer`; it `sends`, or
 * receives.  NULL: no memory; `fd` is closed. */
struct fan_nccl_link *fan_nccl_link_new(int fd, bool sends, const fan_peer *peer);

/* Start to send, or to receive in `pieces` pieces.  The memory stays the caller's, and in use until
 * the request has ended.  `*request` NULL: not now, ask again.  An enum fan_nccl_result. */
int fan_nccl_link_send(struct fan_nccl_link *l, const void *data, size_t bytes, int tag,
		       void **request);
int fan_nccl_link_recv(struct fan_nccl_link *l, int pieces, void *const *data, const size_t *room,
		       const int *tag, void **request);

/* Has it ended?  Then its memory is the caller's again, `sizes`, unless NULL, gets the bytes of
 * each piece, and `request` is no longer valid; so it is after an error. */
int fan_nccl_link_test(void *request, int *done, int *sizes);

/* Close it.  Requests that are open end with it: their memory is the caller's again. */
void fan_nccl_link_close(struct fan_nccl_link *l);

/* ---- dial.c: how the two ends of a link find each other ---- */

/* As in ncclNet; `handle` has FAN_NCCL_HANDLE_BYTES bytes.  */
int fan_nccl_listen(int dev, void *handle, void **listening);
int fan_nccl_connect(int dev, void *handle, void **link); /* NULL: not yet, call again */
int fan_nccl_accept(void *listening, void **link);	  /* NULL: nobody yet, call again */
int fan_nccl_close_listen(void *listening);

/* ---- coll.c: ncclCollNet ---- */

/* As many as there are interfaces; none unless a switch or a controller is named, or FANIN_HOSTS=1.
 * NCCL's cost model takes CollNet for twice as fast as a ring, whoever sums, and hosts are not. */
int fan_nccl_coll_devices(int *count);

/* `handle` has FAN_NCCL_HANDLE_BYTES bytes. */
int fan_nccl_coll_listen(int dev, void *handle, void **listening);
int fan_nccl_coll_close_listen(void *listening);

/* Join; blocks until all ranks have, or one has not.  After an error NCCL does without. */
int fan_nccl_coll_connect(void *handles[], int ranks, int rank, void *listening, void **comm);

int fan_nccl_coll_supports(int type, int op, int *supported);

/* Start an operation.  `*request` NULL: not now, ask again. */
int fan_nccl_coll_allreduce(void *comm, const void *in, void *out, size_t count, int type, int op,
			    void **request);

/* The bytes offset .. offset + bytes of what all ranks have, rank_bytes each, to `out`; `in` has
 * what of them is this rank's. */
int fan_nccl_coll_allgather(void *comm, const void *in, const struct fan_nccl_piece *out,
			    size_t rank_bytes, size_t offset, size_t bytes, void **request);

/* The sum of all ranks' bytes offset .. offset + bytes, of which `out` gets this rank's. */
int fan_nccl_coll_reducescatter(void *comm, const struct fan_nccl_piece *in, void *out,
				size_t rank_bytes, size_t offset, size_t bytes, int type, int op,
				void **request);

/* Has it ended?  Then, or after an error, `request` is no longer valid. */
int fan_nccl_coll_test(void *request, int *done, int *size);

/* Leave; operations in progress end, and their memory is the caller's again. */
int fan_nccl_coll_close(void *comm);

#endif
