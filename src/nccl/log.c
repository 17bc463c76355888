/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static _Atomic(fan_nccl_logger) logger;

void fan_nccl_log_to(fan_nccl_logger to)
{
	atomic_store(&logger, to);
}

static void say(int level, const char *format, va_list args)
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
	say(FAN_NCCL_LOG_INFO, format, args);
	va_end(args);
}

int fan_nccl_warn(int result, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say(FAN_NCCL_LOG_WARN, format, args);
	va_end(args);
	return result;
}
