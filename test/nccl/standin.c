/* SPDX-License-Identifier: Apache-2.0 */
/* standin.c - stands in for NCCL: loads the plug-in and drives it as NCCL's proxies do.
 *
 *     nccl_standin PLUGIN [--version N] [--ranks N] [--seed N] [--seeds N] [--bytes N]
 *                  [--netns A,B,...] [--hostile] [--large BYTES] [--verbose]
 *
 * --hostile: also which devices are offered.  --waits: a rank is late, as the log says of the
 * others.  --rails: two links between two hosts;  --many: communicators until there may be no more.
 * --cut: with --kill, the victim's link goes down instead (test/net/netns.sh).  --sums and
 * --messages measure (timing.c).  Without --version, --ranks or --bytes each seed draws one. Prints
 * the seed of what failed. */
#include <getopt.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "programs.h"

/* NCCL's, of eight channels: each has 512 KiB of its buffers. */
#define PIECE_BYTES (4u << 20)

struct options {
	const char *plugin, *cut, *many, *names[WORLD_RANKS_MAX];
	char name_text[256];
	int version, ranks, named, turns, devices;
	bool hostile, verbose, warnings, waits, kill, kill_links, messages, rails;
	uint64_t seed, seeds;
	size_t bytes, large, piece;
};

static const struct options *chosen_options;
static int said_chosen;
char last_warning[1024];

void logger(int level, unsigned long about, const char *where, int line, const char *format, ...)
{
	char text[1024];
	va_list args;
	(void)about, (void)where, (void)line;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (level == FAN_NCCL_LOG_WARN)
		memcpy(last_warning, text, sizeof text);
	said_chosen += strstr(text, "was chosen") != NULL;
	if (chosen_options->verbose || (chosen_options->warnings && level == FAN_NCCL_LOG_WARN))
		fprintf(stderr, "%.3f %d %s\n", (double)now_ns() / 1e9, level, text);
}

/* ---- a rank's life: NCCL initialises the plug-in for each of its communicators ---- */

static int live(struct seat *s, void *arg)
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
	if (o->turns)
		return (o->messages ? timing_messages(s, &a, o->bytes, o->turns)
				    : timing_sums(s, &a, o->bytes, o->piece, o->turns)) ||
		       api_finalize(&a);
	if (o->hostile &&
	    (links_hostile(s, &a) || colls_support(&a) || colls_hostile(s, &a) || !seat_barrier(s)))
		return 1;
	if (o->waits && (colls_wait(s, &a) || !seat_barrier(s)))
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

static int life(struct seat *s, void *arg)
{
	int result = live(s, arg);
	if (result)
		fprintf(stderr, "rank %d: the last warning was: %s\n", s->rank, last_warning);
	return result;
}

/* ---- which interfaces are devices, where there is lo alone ---- */

static int count_devices(struct seat *s, void *arg)
{
	const struct options *o = arg;
	struct api a;
	int devices = -1;
	(void)s;
	if (api_load(&a, o->plugin, API_LAST) || api_init(&a, logger) ||
	    api_devices(&a, &devices) || devices != o->devices || said_chosen != devices ||
	    (!devices && !strstr(last_warning, "fanin is not used"))) {
		fprintf(stderr, "%d devices in place of %d; %s\n", devices, o->devices,
			last_warning);
		return 1;
	}
	return api_finalize(&a);
}

static int run_devices(const struct options *given)
{
	static const struct {
		const char *names;
		int count;
	} cases[] = {{"^lo", 0}, {"eth,l", 1}, {"=l", 0}, {"=eth0,lo", 1},
		     {"eth", 0}, {"^eth", 1},  {"", 1},	  {"^=l", 1}};
	struct options o = *given;
	int failed = 0;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct world *w = world_new(1);
		o.devices = cases[i].count;
		setenv("NCCL_SOCKET_IFNAME", cases[i].names, 1);
		if (world_run(w, NULL, -1, count_devices, &o)) {
			fprintf(stderr, "NCCL_SOCKET_IFNAME=%s\n", cases[i].names);
			failed++;
		}
		world_free(w);
	}
	unsetenv("NCCL_SOCKET_IFNAME");
	return failed;
}

/* ---- in which settings CollNet is offered, which NCCL then takes for large tensors ----
 *
 * So does the cost model of NCCL 2.30.7 (src/graph): the speed of a channel is one of a list, the
 * least 0.12 GB/s (search.cc), and a device's latency is that of rings as well (topo.cc), so a
 * device is at least as fast as that and has none. */

struct setting {
	const char *name[2], *value[2], *plugin, *mbps;
	bool collnet; /* it is wanted */
};

static int look(struct seat *seat, void *arg)
{
	const struct setting *l = arg;
	struct fan_nccl_props_v12 p;
	struct api a;
	int devices = 0, offered = -1;
	(void)seat;
	unsetenv("FANIN_SWITCH");
	unsetenv("FANIN_HOSTS");
	setenv("FANIN_LINK_MBPS", l->mbps, 1);
	for (int i = 0; i < 2 && l->name[i]; i++)
		setenv(l->name[i], l->value[i], 1);
	if (api_load(&a, l->plugin, API_LAST) || api_init(&a, logger) ||
	    api_devices(&a, &devices) || coll_devices(&a, &offered) || api_properties(&a, 0, &p))
		return 1;
	const int speed = atoi(l->mbps) > 1000 ? atoi(l->mbps) : 1000;
	if (p.speed == speed && p.latency == 0 && offered == (l->collnet ? devices : 0))
		return api_finalize(&a);
	fprintf(stderr, "%s, %s Mb/s: %d of %d devices for CollNet, %d Mb/s, %f us\n",
		l->name[0] ? l->name[0] : "nothing named", l->mbps, offered, devices, p.speed,
		(double)p.latency);
	return 1;
}

static int run_settings(const struct options *o)
{
	static const struct setting settings[] = {
		{{NULL}, {NULL}, NULL, "25000", false},
		{{"FANIN_HOSTS"}, {"0"}, NULL, "10000", false},
		{{"FANIN_HOSTS"}, {"1"}, NULL, "200", true},
		{{"FANIN_SWITCH"}, {"10.0.0.1:5000"}, NULL, "1000", true},
		{{"FANIN_SWITCH", "FANIN_HOSTS"}, {"10.0.0.1:5000", "0"}, NULL, "10000", true},
		{{"FANIN_CONTROLLER"}, {"10.0.0.1:5000"}, NULL, "25000", true},
		{{"FANIN_HOSTS"}, {"2"}, NULL, "200", true}, /* the error is that of joining */
	};
	int failed = 0;
	for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++) {
		struct setting l = settings[i];
		struct world *w = world_new(1);
		l.plugin = o->plugin;
		failed += world_run(w, NULL, -1, look, &l) != 0;
		world_free(w);
	}
	return failed;
}

/* ---- a rank that is killed ---- */

#define KILL_BYTES 65536

/* What a rank has of the others: a communicator, and a link to the next rank and from the one
 * before. */
struct hold {
	void *comm, *out, *in, *sum, *sent, *received;
	float *a, *b;
	uint8_t to[64], from[64];
};

/* Sums and messages without end.  The result of what fails first, `*by_link` if a message did. */
static int go_round(struct seat *s, const struct api *a, struct hold *h, bool *by_link, bool links)
{
	int result = 0, done;
	while (!result && seat_has_time(s, "who was killed")) {
		size_t room[1] = {sizeof h->from};
		void *data[1] = {h->from};
		int tags[1] = {0};
		*by_link = links;
		if (links && !h->received)
			result = api_irecv(a, h->in, 1, data, room, tags, &h->received);
		if (links && !result && !h->sent)
			result = api_isend(a, h->out, h->to, sizeof h->to, 0, &h->sent);
		done = 0;
		if (links && !result && h->received)
			result = api_test(a, h->received, &done, NULL);
		h->received = done ? NULL : h->received;
		done = 0;
		if (links && !result && h->sent)
			result = api_test(a, h->sent, &done, NULL);
		h->sent = done ? NULL : h->sent;
		if (result || links)
			continue;
		if (!h->sum)
			result = coll_allreduce(a, h->comm, h->a, h->b, KILL_BYTES / 4,
						FAN_NCCL_FLOAT32, FAN_NCCL_SUM, &h->sum);
		done = 0;
		if (!result && h->sum)
			result = coll_test(a, h->sum, &done, NULL);
		h->sum = done ? NULL : h->sum;
		usleep(100);
	}
	return result;
}

static int killed_life(struct seat *s, void *arg)
{
	const struct options *o = arg;
	uint64_t state = o->seed;
	int victim = (int)draw_below(&state, (unsigned)s->world->ranks);
	unsigned after_us = 100000 + draw_below(&state, 900000);
	bool links = o->kill_links, by_link;
	struct hold h = {.a = calloc(1, KILL_BYTES), .b = calloc(1, KILL_BYTES)};
	struct api a;
	if (api_load(&a, o->plugin, o->version) || api_init(&a, logger) || !h.a || !h.b ||
	    coll_meet(s, &a, s->world->ranks, s->rank, &h.comm) ||
	    links_ring(s, &a, &h.out, &h.in) || !seat_barrier(s))
		return 1;
	if (s->rank == victim && !fork()) { /* who kills it in the middle of whatever it does */
		char link[64];
		usleep(after_us);
		atomic_store(&s->world->at_ns, now_ns());
		snprintf(link, sizeof link, "ip -n %s-sw link set p%d down", o->cut ? o->cut : "",
			 victim);
		if (o->cut)
			_exit(system(link));
		kill(getppid(), SIGKILL);
		_exit(0);
	}
	int result = go_round(s, &a, &h, &by_link, links);
	atomic_store(&s->world->value[s->rank][0], now_ns());
	/* Of links only its neighbours', which then end, notice it. */
	if (result != FAN_NCCL_REMOTE_ERROR) {
		fprintf(stderr, "rank %d: result %d\n", s->rank, result);
		return 1;
	}
	free(h.a);
	free(h.b);
	return api_close_send(&a, h.out) || api_close_recv(&a, h.in) || coll_close(&a, h.comm) ||
	       api_finalize(&a);
}

static int run_kill(const struct options *given, uint64_t seed)
{
	struct options o = *given;
	uint64_t state = seed, last_ns = 0;
	o.seed = seed;
	o.version = o.version ? o.version : API_LAST;
	o.ranks = o.ranks ? o.ranks : 4;
	struct world *w = world_new(o.ranks);
	int victim = (int)draw_below(&state, (unsigned)o.ranks);
	int failed = world_run(w, o.named ? o.names : NULL, victim, killed_life, &o);
	for (int r = 0; r < o.ranks; r++)
		if (r != victim && atomic_load(&w->value[r][0]) > last_ns)
			last_ns = atomic_load(&w->value[r][0]);
	uint64_t ms = (last_ns - atomic_load(&w->at_ns)) / 1000000;
	printf("seed %llu: rank %d of %d %s, %s: the last error came after %llu ms\n",
	       (unsigned long long)seed, victim, o.ranks, o.cut ? "cut off" : "killed",
	       o.kill_links ? "messages" : "sums", (unsigned long long)ms);
	world_free(w);
	return failed;
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

/* A network of its own, so that others' ports are not in the way; false: that cannot be had. */
static bool own_network(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	if (unshare(CLONE_NEWNET))
		return false;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo)) {
		perror("lo");
		exit(1);
	}
	close(fd);
	return true;
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
	      " [--netns A,B,...] [--hostile] [--large BYTES] [--kill] [--kill-links] [--cut PREFIX] [--sums TURNS] [--piece BYTES] [--messages TURNS]"
	      " [--rails] [--many COUNT:CAUSE] [--waits] [--verbose] [--warnings]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option names[] = {
		{"version", 1, NULL, 'v'},  {"ranks", 1, NULL, 'r'},
		{"seed", 1, NULL, 's'},	    {"seeds", 1, NULL, 'n'},
		{"bytes", 1, NULL, 'b'},    {"netns", 1, NULL, 'N'},
		{"hostile", 0, NULL, 'h'},  {"verbose", 0, NULL, 'V'},
		{"sums", 1, NULL, 't'},	    {"messages", 1, NULL, 'm'},
		{"piece", 1, NULL, 'p'},    {"cut", 1, NULL, 'c'},
		{"kill", 0, NULL, 'k'},	    {"kill-links", 0, NULL, 'K'},
		{"warnings", 0, NULL, 'W'}, {"waits", 0, NULL, 'w'},
		{"rails", 0, NULL, 'R'},    {"many", 1, NULL, 'M'},
		{"large", 1, NULL, 'l'},    {0}};
	static struct options o = {.seed = 1, .seeds = 1, .piece = PIECE_BYTES};
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
		case 't': o.turns = atoi(optarg); break;
		case 'm': o.turns = atoi(optarg), o.messages = true; break;
		case 'p': o.piece = strtoull(optarg, NULL, 10); break;
		case 'c': o.cut = optarg; break;
		case 'k': o.kill = true; break;
		case 'K': o.kill = o.kill_links = true; break;
		case 'R': o.rails = true; break;
		case 'M': o.many = optarg; break;
		case 'W': o.warnings = true; break;
		case 'w': o.waits = true; break;
		case 'V': o.verbose = true; break;
		default: return usage();
		}
	if (optind != argc - 1 || o.ranks > WORLD_RANKS_MAX)
		return usage();
	o.plugin = argv[optind];
	if (!o.kill) { /* a rank that has no processor for a while is not lost */
		setenv("FANIN_ALIVE_MS", "60000", 0);
		setenv("FANIN_JOIN_MS", "120000", 0);
	}
	chosen_options = &o;
	if (!o.named && own_network() && o.hostile)
		failed = run_devices(&o) + run_settings(&o);
	if (o.rails)
		failed += rails_run(o.plugin);
	if (o.many)
		failed += many_run(o.plugin, o.named ? o.names : NULL, atoi(o.many),
				   strchr(o.many, ':') ? strchr(o.many, ':') + 1 : "");
	for (uint64_t i = 0; i < o.seeds; i++)
		failed += (o.kill ? run_kill : run_seed)(&o, o.seed + i) != 0;
	if (!o.turns)
		printf("%llu seeds, %d failed\n", (unsigned long long)o.seeds, failed);
	return failed ? 1 : 0;
}
