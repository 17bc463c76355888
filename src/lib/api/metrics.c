/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - the counters of a rank in a file, as Prometheus' textfile collector reads it.
 *
 * FANIN_METRICS=FILE starts a thread for each communicator that the program makes, which writes the
 * file once a second, so that neither callers nor the progress thread ever wait for a disk.  A rank
 * that was killed leaves a file with 1 for up: it has its time, and the next to start removes
 * such files beside its own. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "file/option.h"
#include "lib/base/rank_file.h"
#include "lib/comm/comm.h"
#include "net/clock.h"
#include "net/expose.h"

#define WRITE_MS   1000 /* between two writes */
#define DEAD_S	   60	/* after which a file that says "up" is a killed rank's */
#define FILES_MAX  4096 /* looked at in a folder */
#define NS_PER_S   1e9
#define PPM	   1e6
#define BEGIN	   "# HELP fanin_rank_" /* of each file */
#define DEAD_BYTES (256 << 10)		/* many times what a rank writes */

struct fan_comm_metrics {
	struct fanin_comm *c;
	char path[FAN_RANK_FILE_BYTES];
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
};

#define STATS_AT(field) offsetof(struct fanin_stats, field)
static const struct fan_metric counters[] = {
	{"fanin_rank_operations_total", "Operations finished.", STATS_AT(ops)},
	{"fanin_rank_tensor_bytes_total", "Bytes of tensors in these operations.", STATS_AT(bytes)},
	{"fanin_rank_fragments_total", "Results received.", STATS_AT(fragments)},
	{"fanin_rank_contributions_total", "Contributions sent.", STATS_AT(sent)},
	{"fanin_rank_retransmits_total", "Contributions sent again.", STATS_AT(retransmits)},
	{"fanin_rank_probes_total", "Requests for a missing result.", STATS_AT(probes)},
	{"fanin_rank_replays_total", "Results received again.", STATS_AT(replays)},
	{"fanin_rank_dropped_packets_total", "Packets dropped on arrival.", STATS_AT(drops)},
	{"fanin_rank_marks_total", "Results with a congestion mark.", STATS_AT(marks)},
	{"fanin_rank_collisions_total", "Results of which a part found its shared slot taken.",
	 STATS_AT(collisions)},
	{"fanin_rank_moves_total", "Failovers: to the server and back, to other routes.",
	 STATS_AT(moves)},
};

/* In nanoseconds, shown in seconds. */
static const struct fan_metric times[] = {
	{"fanin_rank_smoothed_round_trip_seconds",
	 "Smoothed round trip, waits for other ranks included.", STATS_AT(srtt_ns)},
	{"fanin_rank_longest_gap_seconds", "Longest time without a result during operations.",
	 STATS_AT(gap_ns)},
};

/* Metrics of 32 bits, never negative. */
static const struct fan_metric numbers[] = {
	{"fanin_rank_window_fragments", "Fragments in flight that the switch grants.",
	 STATS_AT(window_frags)},
	{"fanin_rank_congestion_window_fragments",
	 "Of these, those that congestion control allows.", STATS_AT(cwnd_frags)},
	{"fanin_rank_at_server", "1: the switch is silent, and the rank goes through its server.",
	 STATS_AT(server)},
	{"fanin_rank_multicast", "1: results arrive by multicast.", STATS_AT(multicast)},
	{"fanin_rank_segment_offload", "1: UDP_SEGMENT is in use.", STATS_AT(segment_offload)},
	{"fanin_rank_receive_offload", "1: UDP_GRO is in use.", STATS_AT(receive_offload)},
	{"fanin_rank_ahead_fragments", "Distance to the slowest rank.", STATS_AT(ahead_now_frags)},
	{"fanin_rank_parts", "Parts of each tensor that are summed separately.", STATS_AT(parts)},
	{"fanin_rank_hosts", "Hosts of the job; 0: not known.", STATS_AT(hosts)},
};

#define ROWS(table) (sizeof(table) / sizeof *(table))

static struct fan_labels labels_of(const struct fanin_comm *c)
{
	struct fan_labels l = {.used = 0};
	fan_labels_add(&l, "fanin_job", c->rank.cfg.job, strlen(c->rank.cfg.job));
	fan_labels_number(&l, "rank", (unsigned)c->rank.cfg.rank);
	return l;
}

static void put_parts(struct fan_expose *x, const struct fanin_comm *c, uint32_t parts)
{
	fan_expose_family(x, "fanin_rank_part_share_ratio", FAN_GAUGE,
			  "Share of every tensor that the part's aggregator sums.");
	for (uint32_t i = 0; i < parts && i < FAN_PARTS_MAX; i++) {
		struct fanin_part p = {.size = sizeof p};
		struct fan_labels l = labels_of(c);
		if (fanin_comm_part(c, i, &p))
			continue;
		fan_labels_number(&l, "part", i);
		fan_labels_add(&l, "aggregator", p.aggregator, strlen(p.aggregator));
		fan_expose_value(x, "fanin_rank_part_share_ratio", &l, p.share_ppm / PPM);
	}
}

static void put_trips(struct fan_expose *x, const struct fan_labels *l,
		      const struct fan_rtt_histogram *h)
{
	static const char name[] = "fanin_rank_round_trip_seconds";
	double bound[FAN_RTT_BINS];
	for (unsigned i = 0; i < FAN_RTT_BINS; i++)
		bound[i] = (double)(FAN_RTT_BIN_NS << i) / NS_PER_S;
	fan_expose_family(x, name, FAN_HISTOGRAM,
			  "Round trips from a contribution to its result, waits for other ranks "
			  "included.");
	fan_expose_histogram(x, name, l, bound, h->count, FAN_RTT_BINS,
			     (double)h->sum_ns / NS_PER_S);
}

static void put_gauge(struct fan_expose *x, const struct fan_labels *l, const char *name,
		      const char *help, double value)
{
	fan_expose_family(x, name, FAN_GAUGE, help);
	fan_expose_value(x, name, l, value);
}

static void put_stats(struct fan_expose *x, const struct fan_labels *l, const struct fanin_stats *s,
		      bool up)
{
	const char *from = (const char *)s;
	uint64_t value;
	uint32_t number;
	for (size_t i = 0; i < ROWS(counters); i++) {
		memcpy(&value, from + counters[i].at, sizeof value);
		fan_expose_family(x, counters[i].name, FAN_COUNTER, counters[i].help);
		fan_expose_count(x, counters[i].name, l, value);
	}
	put_gauge(x, l, "fanin_rank_up",
		  "1: the communicator works; 0: it has failed or was destroyed.", up);
	for (size_t i = 0; i < ROWS(times); i++) {
		memcpy(&value, from + times[i].at, sizeof value);
		put_gauge(x, l, times[i].name, times[i].help, (double)value / NS_PER_S);
	}
	for (size_t i = 0; i < ROWS(numbers); i++) {
		memcpy(&number, from + numbers[i].at, sizeof number);
		put_gauge(x, l, numbers[i].name, numbers[i].help, number);
	}
	put_gauge(x, l, "fanin_rank_written_time_seconds",
		  "Time at which this was written, since 1970: a rank that is up writes once a "
		  "second.",
		  (double)time(NULL));
}

static void write_file(struct fan_comm_metrics *m, bool ending)
{
	const struct fanin_comm *c = m->c;
	const struct fan_rank *net = fan_comm_net(c);
	struct fanin_stats stats = {.size = sizeof stats};
	struct fan_rtt_histogram trips = {.sum_ns = 0};
	char why[FAN_CONFIG_WHY_BYTES];
	struct fan_expose x = {.text = NULL};
	struct fan_labels l = labels_of(c);
	fanin_comm_stats(c, &stats);
	if (net)
		fan_rank_read_trips(net, &trips);
	put_stats(&x, &l, &stats, !ending && !atomic_load(&c->rank.error));
	put_parts(&x, c, stats.parts);
	put_trips(&x, &l, &trips);
	if (fan_expose_write(&x, m->path, why, sizeof why))
		fan_rank_file_fail("FANIN_METRICS", why);
	free(x.text);
}

/* ---- files of ranks that were killed ---- */

/* Is it the file of a rank of this user that was up, and has not written for a while?  A rank that
 * only looks so, because it stands still, writes its file again when it goes on. */
static bool is_of_killed(int folder, const char *name)
{
	char text[DEAD_BYTES + 1];
	struct stat s;
	const int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	const bool old = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
			 s.st_size <= DEAD_BYTES && time(NULL) - s.st_mtime > DEAD_S;
	const ssize_t bytes = old ? read(fd, text, DEAD_BYTES) : -1;
	close(fd);
	if (bytes <= 0)
		return false;
	text[bytes] = '\0';
	const char *up = strstr(text, "\nfanin_rank_up{");
	const char *value = up ? strstr(up, "} ") : NULL;
	return strncmp(text, BEGIN, strlen(BEGIN)) == 0 && value && strncmp(value, "} 1\n", 4) == 0;
}

/* In the folder of `path`, among names that end alike. */
static void remove_of_killed(const char *path)
{
	char folder[FAN_RANK_FILE_BYTES] = ".";
	const char *slash = strrchr(path, '/');
	const char *end = strrchr(slash ? slash : path, '.');
	if (slash)
		snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
	DIR *d = end ? opendir(folder) : NULL;
	struct dirent *e;
	for (unsigned i = 0; d && i < FILES_MAX && (e = readdir(d)); i++) {
		const char *its = strrchr(e->d_name, '.');
		if (its && strcmp(its, end) == 0 && is_of_killed(dirfd(d), e->d_name))
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
}

static void *run(void *arg)
{
	struct fan_comm_metrics *m = arg;
	remove_of_killed(m->path);
	pthread_mutex_lock(&m->lock);
	while (!m->stop) {
		struct timespec by;
		clock_gettime(CLOCK_MONOTONIC, &by);
		by.tv_sec += WRITE_MS / 1000;
		pthread_mutex_unlock(&m->lock);
		write_file(m, false);
		pthread_mutex_lock(&m->lock);
		while (!m->stop && pthread_cond_timedwait(&m->changed, &m->lock, &by) != ETIMEDOUT)
			;
	}
	pthread_mutex_unlock(&m->lock);
	write_file(m, true);
	return NULL;
}

/* Have it write a last time, and end.  The communicator is still whole. */
static void stop(struct fan_comm_metrics *m)
{
	pthread_mutex_lock(&m->lock);
	m->stop = true;
	pthread_cond_signal(&m->changed);
	pthread_mutex_unlock(&m->lock);
	pthread_join(m->thread, NULL);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
}

static void end(void *of, bool forked)
{
	if (!forked)
		stop(of);
	free(of);
}

void fan_comm_metrics_start(fanin_comm *c)
{
	sigset_t all, before;
	pthread_condattr_t clock;
	const char *pattern = fan_option_variable("FANIN_METRICS");
	struct fan_comm_metrics *m = pattern ? calloc(1, sizeof *m) : NULL;
	if (!m ||
	    !fan_rank_file(m->path, sizeof m->path, pattern, c->rank.cfg.job, c->rank.cfg.rank)) {
		if (pattern)
			fan_rank_file_fail("FANIN_METRICS",
					   m ? "the name is too long" : "no memory");
		free(m);
		return;
	}
	m->c = c;
	pthread_mutex_init(&m->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&m->changed, &clock);
	pthread_condattr_destroy(&clock);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int e = pthread_create(&m->thread, NULL, run, m);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (e)
		free(m);
	else
		c->watcher.of = m, c->watcher.end = end;
}
