/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_ID	    "/proc/sys/kernel/random/boot_id"
#define NET_NS	    "/proc/self/ns/net"
#define BOOT_BYTES  64
#define HASH_PRIME  UINT64_C(0x100000001b3)
#define HASH_SECOND UINT64_C(0x9e3779b97f4a7c15) /* another start for the second half */

uint64_t fan_hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *p = data;
	for (size_t i = 0; i < bytes; i++)
		h = (h ^ p[i]) * HASH_PRIME;
	return h;
}

/* Read the host's id.  A source that cannot be read counts as empty: hosts then differ by the
 * rest. */
struct fan_host_id fan_host_id_read(uint64_t user)
{
	struct {
		char boot[BOOT_BYTES];
		uint64_t device, inode;
		uint64_t user;
	} about;
	struct stat net;
	memset(&about, 0, sizeof about);
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = read(fd, about.boot, sizeof about.boot);
		if (n < 0)
			memset(about.boot, 0, sizeof about.boot);
		close(fd);
	}
	if (!stat(NET_NS, &net)) {
		about.device = net.st_dev;
		about.inode = net.st_ino;
	}
	about.user = user;
	return (struct fan_host_id){{fan_hash(FAN_HASH_START, &about, sizeof about),
				     fan_hash(FAN_HASH_START ^ HASH_SECOND, &about, sizeof about)}};
}
