/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_redirects.c - can ICMP redirects divert packets from the switch? */
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "net/netlink.h"

#define NAME_BYTES 80

/* A knob of an interface, or of "all"; false also if it cannot be read. */
static bool is_on(const char *device, const char *knob)
{
	char name[NAME_BYTES];

	snprintf(name, sizeof name, "ipv4/conf/%s/%s", device, knob);
	return doctor_sysctl(name) > 0;
}

/* Linux's rule: a router accepts redirects only if both knobs are set, a host if one is. */
static bool takes_redirects(const char *device)
{
	bool all = is_on("all", "accept_redirects"), one = is_on(device, "accept_redirects");

	return is_on(device, "forwarding") ? all && one : all || one;
}

/* Redirects of IPv6 must come from the link, where neighbours can be forged as well. */
void doctor_check_redirects(struct doctor *d)
{
	char device[IF_NAMESIZE], gateway[80];
	struct fan_next_hop p;

	fan_next_hop_read(&p, &d->sw);
	if (!p.interface || !p.by_gateway || !if_indextoname(p.interface, device) ||
	    (!p.redirected && (fan_peer_family(&d->sw) != AF_INET || !takes_redirects(device))))
		return;
	fan_peer_text(&p.gateway, gateway, sizeof gateway);
	char *port = strrchr(gateway, ':'); /* a gateway has none */
	if (port)
		*port = '\0';
	struct doctor_finding *f =
		p.redirected
			? doctor_find(d, "redirects", DOCTOR_WARN,
				      "packets to the switch take gateway %s because of an ICMP "
				      "redirect, which can be forged",
				      gateway)
			: doctor_find(d, "redirects", DOCTOR_WARN,
				      "packets to the switch take gateway %s, and a forged ICMP "
				      "redirect can divert them",
				      gateway);
	doctor_value(f, "gateway", json_string(gateway));
	doctor_value(f, "redirected", json_boolean(p.redirected));
	doctor_advise(f,
		      "as root: sysctl -w net.ipv4.conf.all.accept_redirects=0 "
		      "net.ipv4.conf.%s.accept_redirects=0",
		      device);
	if (p.redirected)
		doctor_advise(f, "and: ip %sroute flush cache",
			      fan_peer_family(&d->sw) == AF_INET ? "" : "-6 ");
}
