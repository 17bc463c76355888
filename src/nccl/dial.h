/* SPDX-License-Identifier: Apache-2.0 */
/* dial.h - how the two ends of a link find each other: listen, connect and accept of ncclNet.
 *
 * The handle that listen writes has the listener's address and a nonce from the kernel; NCCL
 * carries it to the other side, which connects and says the nonce.  A connection that does not
 * within FAN_NCCL_HELLO_MS is closed, so strangers only take places for a while.  connect and
 * accept return at once; connect keeps in the handle which attempt it goes on with. */
#ifndef FAN_NCCL_DIAL_H
#define FAN_NCCL_DIAL_H

#define FAN_NCCL_HELLO_MS     60000 /* until a connection has said the nonce */
#define FAN_NCCL_CONNECT_MS   30000 /* until an attempt fails */
#define FAN_NCCL_ATTEMPTS_MAX 256   /* of one process, under way at a time */
#define FAN_NCCL_GUESTS_MAX   16    /* connections to a listener that have not said the nonce */

/* As in ncclNet; `handle` has FAN_NCCL_HANDLE_BYTES bytes.  Links are those of link.h.  An
 * enum fan_nccl_result. */
int fan_nccl_listen(int dev, void *handle, void **listening);
int fan_nccl_connect(int dev, void *handle, void **link); /* NULL: not yet, call again */
int fan_nccl_accept(void *listening, void **link);	  /* NULL: nobody yet, call again */
int fan_nccl_close_listen(void *listening);

#endif
