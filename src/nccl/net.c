/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <fanin.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"
#include "interface.h"
#include "lib/base/config.h"
#include "link.h"

#define LIST_BYTES 256

static _Atomic(fan_nccl_logger) logger;

static void log_line(int level, const char *format, va_list args)
{
	char line[FAN_NCCL_LINE_BYTES];
	fan_nccl_logger to = atomic_load(&logger);
	if (!to)
		return;
	vsnprintf(line, sizeof line, format, args);
	to(level, FAN_NCCL_ABOUT_INIT | FAN_NCCL_ABOUT_NET, "fanin", 0, "NET/Fanin: %s", line);
}

void fan_nccl_info(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	log_line(FAN_NCCL_LOG_INFO, format, args);
	va_end(args);
}

int fan_nccl_warn(int result, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	log_line(FAN_NCCL_LOG_WARN, format, args);
	va_end(args);
	return result;
}

static void log_wait(void *arg, const char *text)
{
	(void)arg;
	fan_nccl_warn(FAN_NCCL_SUCCESS, "%s", text);
}

int fan_nccl_start(fan_nccl_logger log)
{
	static atomic_bool said;
	char list[LIST_BYTES];
	struct fan_text t = fan_text_in(list, sizeof list);
	atomic_store(&logger, log);
	fanin_on_wait(log_wait, NULL);
	fan_config_misspelt(log_wait, NULL);
	if (!fan_nccl_interfaces() || atomic_exchange(&said, true))
		return FAN_NCCL_SUCCESS;
	for (int i = 0; i < fan_nccl_interfaces(); i++)
		fan_text_add(&t, " [%d]%s", i, fan_nccl_interface(i)->name);
	const char *key = secure_getenv("FANIN_KEY_FILE");
	fan_nccl_info("fanin %s was chosen; devices:%s%s", fanin_version(), list,
		      key && *key ? "; sums are sealed, messages between ranks are in clear" : "");
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_devices(int *count)
{
	*count = fan_nccl_interfaces();
	if (*count)
		return FAN_NCCL_SUCCESS;
	return fan_nccl_warn(FAN_NCCL_SUCCESS, "fanin is not used: no network interface is up, has "
					       "an address and is named by NCCL_SOCKET_IFNAME");
}

int fan_nccl_properties(int dev, struct fan_nccl_props_v12 *props)
{
	const struct fan_nccl_interface *interface = fan_nccl_interface(dev);
	if (!interface)
		return fan_nccl_warn(FAN_NCCL_INVALID_ARGUMENT, "there is no device %d", dev);
	*props = (struct fan_nccl_props_v12){
		.name = (char *)interface->name,
		.pci_path = *interface->pci_path ? (char *)interface->pci_path : NULL,
		.guid = interface->guid,
		.ptr_support = FAN_NCCL_PTR_HOST,
		.speed = interface->speed_mbps,
		.comms_max = FAN_NCCL_COMMS_MAX,
		.recvs_max = FAN_NCCL_PIECES_MAX,
		.virtual = {.count = 1, .device = {dev}},
		.p2p_bytes_max = FAN_NCCL_MESSAGE_MAX,
		.coll_bytes_max = FAN_NCCL_MESSAGE_MAX,
		.multi_request_max = 1,
		.rail = -1,
		.plane = -1,
	};
	return FAN_NCCL_SUCCESS;
}

/* Copy the members that all versions have, by their own names. */
#define COPY(to, from)                                                                             \
	do {                                                                                       \
		memset((to), 0, sizeof *(to));                                                     \
		(to)->name = (from).name;                                                          \
		(to)->pci_path = (from).pci_path;                                                  \
		(to)->guid = (from).guid;                                                          \
		(to)->ptr_support = (from).ptr_support;                                            \
		(to)->speed = (from).speed;                                                        \
		(to)->comms_max = (from).comms_max;                                                \
		(to)->recvs_max = (from).recvs_max;                                                \
	} while (0)

#define COPY_V9(to, from)                                                                          \
	do {                                                                                       \
		COPY(to, from);                                                                    \
		(to)->virtual.count = (from).virtual.count;                                        \
		(to)->virtual.device[0] = (from).virtual.device[0];                                \
		(to)->p2p_bytes_max = (from).p2p_bytes_max;                                        \
		(to)->coll_bytes_max = (from).coll_bytes_max;                                      \
	} while (0)

#define COPY_V11(to, from)                                                                         \
	do {                                                                                       \
		COPY_V9(to, from);                                                                 \
		(to)->multi_request_max = (from).multi_request_max;                                \
	} while (0)

#define PROPERTIES(version, copy)                                                                  \
	int fan_nccl_properties_v##version(int dev, struct fan_nccl_props_v##version *props)       \
	{                                                                                          \
		struct fan_nccl_props_v12 p = {0};                                                 \
		int result = fan_nccl_properties(dev, &p);                                         \
		if (!result)                                                                       \
			copy(props, p);                                                            \
		return result;                                                                     \
	}

PROPERTIES(8, COPY)
PROPERTIES(9, COPY_V9)
PROPERTIES(11, COPY_V11)

int fan_nccl_reg_mr(void *comm, void *data, size_t size, int type, void **memory)
{
	(void)comm, (void)data, (void)size;
	*memory = NULL;
	return type == FAN_NCCL_PTR_HOST ? FAN_NCCL_SUCCESS : FAN_NCCL_INTERNAL_ERROR;
}

int fan_nccl_reg_mr_dma_buf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
			    void **memory)
{
	(void)comm, (void)data, (void)size, (void)type, (void)offset, (void)fd;
	*memory = NULL;
	return FAN_NCCL_INTERNAL_ERROR; /* of a device: not offered */
}

int fan_nccl_dereg_mr(void *comm, void *memory)
{
	(void)comm, (void)memory;
	return FAN_NCCL_SUCCESS;
}

int fan_nccl_finalize(void *context)
{
	(void)context;
	return FAN_NCCL_SUCCESS;
}
