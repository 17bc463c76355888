/* SPDX-License-Identifier: Apache-2.0 */
/* standin.c - stands in for NCCL: loads the plug-in and drives it as NCCL's proxies do.
 *
 *     nccl_standin PLUGIN [--version N] [--ranks N] [--seed N] [--seeds N] [--bytes N]
 *                  [--netns A,B,...] [--hostile] [--large BYTES] [--verbose]
 *
 * Without --version, --ranks or --bytes each seed draws one.  Prints the seed of what failed. */
#include <getopt.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"

struct options {
	const char *plugin, *names[WORLD_RANKS_MAX];
	char name_text[256];
	int version, ranks, named;
	bool hostile, verbose, warnings;
	uint64_t seed, seeds;
	size_t bytes, large;
};

static const struct options *chosen_options;
static int said_chosen;

static void logger(int level, unsigned long about, const char *where, int line, const char *format,
		   ...)
{
	char text[1024];
	va_list args;
	(void)about, (void)where, (void)line;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	said_chosen += strstr(text, "was chosen") != NULL;
	if (chosen_options->verbose || (chosen_options->warnings && level == FAN_NCCL_LOG_WARN))
		fprintf(stderr, "%.3f %d %s\n", (double)now_ns() / 1e9, level, text);
}

/* ---- a rank's life: NCCL initialises the plug-in for each of its communicators ---- */

static int life(struct seat *s, void *arg)
{
	const struct options *o = arg;
	uint64_t state = o->seed;
	struct api a;
	struct fan_nccl_props_v12 p;
	int devices = 0;
	if (api_load(&a, o->plugin, o->version) || api_init(&a, logger) || api_init(&a, logger))
		return 1;
	if (api_devices(&a, &devices) || devices < 1 || api_properties(&a, 0, &p) || !p.name ||
	    p.ptr_support != FAN_NCCL_PTR_HOST || p.speed <= 0 || p.recvs_max < 1 ||
	    said_chosen != 1) {
		fprintf(stderr, "devices %d, speed %d, chosen %d\n", devices, p.speed, said_chosen);
		return 1;
	}
	if (o->hostile &&
	    (links_hostile(s, &a) || colls_support(&a) || colls_hostile(s, &a) || !seat_barrier(s)))
		return 1;
	if (o->large && (colls_large(s, &a, o->large) || !seat_barrier(s)))
		return 1;
	for (unsigned phases = o->large ? 0 : 2 + draw_below(&state, 3); phases; phases--) {
		unsigned kind = draw_below(&state, 8);
		if (o->verbose)
			fprintf(stderr, "%.3f rank %d: phase %u\n", (double)now_ns() / 1e9, s->rank,
				kind);
		if (kind < 3   ? links_run(s, &a, &state, o->bytes)
		    : kind < 7 ? colls_run(s, &a, &state, o->bytes)
			       : colls_leave(s, &a, &state))
			return 1;
		if (!seat_barrier(s))
			return 1;
	}
	return api_finalize(&a) || api_finalize(&a);
}

/* ---- programs ---- */

static int run_seed(const struct options *given, uint64_t seed)
{
	struct options o = *given;
	uint64_t state = seed * 2 + 1;
	int version = 8 + (int)draw_below(&state, 5), ranks = 2 + (int)draw_below(&state, 3);
	size_t bytes = draw_below(&state, 4) ? 65536 : 1 << 20;
	o.seed = seed;
	o.version = o.version ? o.version : version;
	o.ranks = o.ranks ? o.ranks : ranks;
	o.bytes = o.bytes ? o.bytes : bytes;
	struct world *w = world_new(o.ranks);
	int failed = world_run(w, o.named ? o.names : NULL, -1, life, &o);
	if (failed)
		fprintf(stderr, "seed %llu: version %d, %d ranks: failed\n",
			(unsigned long long)seed, o.version, o.ranks);
	world_free(w);
	return failed;
}

/* A network of its own, so that others' ports are not in the way; where that cannot be had, this
 * one. */
static void own_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	if (unshare(CLONE_NEWNET))
		return;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo)) {
		perror("lo");
		exit(1);
	}
	close(fd);
}

static void split_names(struct options *o, const char *text)
{
	snprintf(o->name_text, sizeof o->name_text, "%s", text);
	for (char *at = strtok(o->name_text, ","); at && o->named < WORLD_RANKS_MAX;
	     at = strtok(NULL, ","))
		o->names[o->named++] = at;
	o->ranks = o->named;
}

static int usage(void)
{
	fputs("usage: nccl_standin PLUGIN [--version N] [--ranks N] [--seed N] [--seeds N] "
	      "[--bytes N]"
	      " [--netns A,B,...] [--hostile] [--large BYTES] [--verbose] [--warnings]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {{"version", 1, NULL, 'v'},
					      {"ranks", 1, NULL, 'r'},
					      {"seed", 1, NULL, 's'},
					      {"seeds", 1, NULL, 'n'},
					      {"bytes", 1, NULL, 'b'},
					      {"netns", 1, NULL, 'N'},
					      {"hostile", 0, NULL, 'h'},
					      {"verbose", 0, NULL, 'V'},
					      {"warnings", 0, NULL, 'W'},
					      {"large", 1, NULL, 'l'},
					      {0}};
	struct options o = {.seed = 1, .seeds = 1};
	int c, failed = 0;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1)
		switch (c) {
		case 'v': o.version = atoi(optarg); break;
		case 'r': o.ranks = atoi(optarg); break;
		case 's': o.seed = strtoull(optarg, NULL, 10); break;
		case 'n': o.seeds = strtoull(optarg, NULL, 10); break;
		case 'b': o.bytes = strtoull(optarg, NULL, 10); break;
		case 'N': split_names(&o, optarg); break;
		case 'l': o.large = strtoull(optarg, NULL, 10); break;
		case 'h': o.hostile = true; break;
		case 'W': o.warnings = true; break;
		case 'V': o.verbose = true; break;
		default: return usage();
		}
	if (optind != argc - 1 || o.ranks > WORLD_RANKS_MAX)
		return usage();
	o.plugin = argv[optind];
	chosen_options = &o;
	if (!o.named)
		own_network();
	for (uint64_t i = 0; i < o.seeds; i++)
		failed += run_seed(&o, o.seed + i) != 0;
	printf("%llu seeds, %d failed\n", (unsigned long long)o.seeds, failed);
	return failed ? 1 : 0;
}
