/* SPDX-License-Identifier: Apache-2.0 */
/* no_names.c - in place of getaddrinfo (ld's --wrap): reads addresses, and asks nobody for names.
 */
#include <netdb.h>

int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list);

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **list)
{
	struct addrinfo h = *hints;

	h.ai_flags |= AI_NUMERICHOST;
	return __real_getaddrinfo(node, service, &h, list);
}
