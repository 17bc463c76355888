/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - what stands in the tables of several versions, of ncclNet and ncclCollNet: beginning,
 * devices, memory; and lines in NCCL's own log, by the logger that it hands to init. */
#ifndef FAN_NCCL_NET_H
#define FAN_NCCL_NET_H

#include "abi.h"

#define FAN_NCCL_NAME	   "Fanin"
#define FAN_NCCL_COMMS_MAX 65536 /* links of a device, as NCCL is told */

/* Log to `log` from here on, also for whom a rank has waited for 30 s, and say once that the
 * plug-in was chosen.  An enum fan_nccl_result. */
int fan_nccl_start(fan_nccl_logger log);

/* How many devices there are; with none NCCL takes another plug-in, and the log says why. */
int fan_nccl_devices(int *count);

/* Describe device `dev` in the newest version. */
int fan_nccl_properties(int dev, struct fan_nccl_props_v12 *props);

/* Describe device `dev` as each version has it; v10's is v9's. */
int fan_nccl_properties_v8(int dev, struct fan_nccl_props_v8 *props);
int fan_nccl_properties_v9(int dev, struct fan_nccl_props_v9 *props);
int fan_nccl_properties_v11(int dev, struct fan_nccl_props_v11 *props);

/* Memory is registered by nobody: only the host's is taken. */
int fan_nccl_reg_mr(void *comm, void *data, size_t size, int type, void **memory);
int fan_nccl_reg_mr_dma_buf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			    void **memory);
int fan_nccl_dereg_mr(void *comm, void *memory);

int fan_nccl_finalize(void *context);

/* ---- the log ---- */

#define FAN_NCCL_LINE_BYTES 512 /* of a line; what is longer is cut */

/* Shown with NCCL_DEBUG=INFO. */
void fan_nccl_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shown with NCCL_DEBUG=WARN.  Returns `result`. */
int fan_nccl_warn(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
