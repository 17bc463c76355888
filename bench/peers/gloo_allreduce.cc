/* SPDX-License-Identifier: Apache-2.0
 *
 * The peer to beat: Gloo's ring all-reduce over TCP, which is what PyTorch runs
 * on Ethernet without NCCL.  One process a rank, met through a folder:
 *
 *     gloo_allreduce --rank R --size N --store DIR --host 127.0.0.1
 *                    --bytes 16777216 --iters 20 --warmup 5
 *
 * Every element of every result is checked, outside the timed part; a barrier
 * stands before each timed all-reduce, and one behind it.  The time of one all-reduce is that of
 * its slowest rank.  Rank 0 prints the line; exits 1 when an element was wrong.
 *
 * With --turns N the same processes run N all-reduces by Gloo, N by fanin, which FANIN_* and
 * MASTER_* tell where to join, and N of nothing but the barriers, again and again.  The line then
 * has, for each, every all-reduce's time, and every turn's processor time for an all-reduce: of all
 * ranks, of the aggregators' threads among that, of the switch whose process is --watch, and of the
 * whole machine.  Filling and checking tensors is not in that of the ranks.  --only names one of
 * the two, for a profile.
 */
#include <dirent.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "fanin.h"
#include "peer.h"

namespace
{

constexpr std::chrono::seconds timeout(60);

using context_ptr = std::shared_ptr<gloo::Context>;

context_ptr connect(const peer_args &args)
{
	gloo::transport::tcp::attr attr;
	if (args.iface)
		attr.iface = args.iface;
	else
		attr.hostname = args.host;
	auto device = gloo::transport::tcp::CreateDevice(attr);
	auto context = std::make_shared<gloo::rendezvous::Context>(args.rank, args.size);
	gloo::rendezvous::FileStore store(args.store);
	context->setTimeout(timeout);
	context->connectFullMesh(store, device);
	return context;
}

void barrier(const context_ptr &context)
{
	gloo::BarrierOptions options(context);
	options.setTag(1);
	gloo::barrier(options);
}

/* In place, as PyTorch calls it. */
void allreduce(const context_ptr &context, std::vector<float> &data)
{
	gloo::AllreduceOptions options(context);
	options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
	options.setOutput(data.data(), data.size());
	options.setReduceFunction([](void *c, const void *a, const void *b, size_t n) {
		gloo::sum<float>(c, a, b, n);
	});
	options.setTag(2);
	gloo::allreduce(options);
}

/* Element by element over the ranks: the slowest rank's times, all wrong elements. */
template <typename T>
void gather(const context_ptr &context, std::vector<T> &data, gloo::ReduceOptions::Func combine)
{
	std::vector<T> result(data.size());
	gloo::ReduceOptions options(context);
	options.setInput(data.data(), data.size());
	options.setOutput(result.data(), result.size());
	options.setReduceFunction(combine);
	options.setRoot(0);
	options.setTag(3);
	gloo::reduce(options);
	if (context->rank == 0)
		data = result;
}

long run(const peer_args &args)
{
	auto context = connect(args);
	size_t count = args.bytes / sizeof(float);
	std::vector<float> data(count), sum(count);
	std::vector<double> time_us(static_cast<size_t>(args.iters));
	std::vector<long> wrong(1, 0);

	peer_expect(sum.data(), count, args.size);
	for (int i = -args.warmup; i < args.iters; i++) {
		peer_fill(data.data(), count, args.rank);
		barrier(context);
		double start_us = peer_now_us();
		allreduce(context, data);
		if (i >= 0)
			time_us[static_cast<size_t>(i)] = peer_now_us() - start_us;
		barrier(context);
		wrong[0] += peer_wrong(data.data(), sum.data(), count);
	}
	gather(context, time_us, [](void *c, const void *a, const void *b, size_t n) {
		gloo::max<double>(c, a, b, n);
	});
	gather(context, wrong, [](void *c, const void *a, const void *b, size_t n) {
		gloo::sum<long>(c, a, b, n);
	});
	if (args.rank == 0)
		peer_print(&args, "gloo-ring", time_us.data(), wrong[0]);
	barrier(context);
	return wrong[0];
}

/* ---- in turns with fanin */

enum system { GLOO, FANIN, NOTHING, SYSTEMS };
enum clock { RANKS, AGGREGATORS, SWITCH, MACHINE, CLOCKS };

constexpr const char *system_names[SYSTEMS] = {"gloo", "fanin", "nothing"};
constexpr const char *clock_names[CLOCKS] = {"cpu_us", "aggregators_us", "switch_us", "machine_us"};

using clocks = std::array<double, CLOCKS>;

double clock_us(clockid_t which)
{
	struct timespec t;
	clock_gettime(which, &t);
	return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

/* The first words of a file of /proc, "" when it is gone. */
std::string words_of(const std::string &path)
{
	char text[256] = "";
	FILE *file = fopen(path.c_str(), "r");
	if (file) {
		if (!fgets(text, sizeof text, file))
			text[0] = '\0';
		fclose(file);
	}
	return text;
}

/* Of those threads of a process whose names begin so. */
double threads_us(const std::string &process, const std::string &name)
{
	std::string folder = "/proc/" + process + "/task";
	double us = 0;
	DIR *dir = opendir(folder.c_str());
	if (!dir)
		return 0;
	while (const dirent *entry = readdir(dir)) {
		std::string task = folder + "/" + entry->d_name;
		if (entry->d_name[0] != '.' &&
		    words_of(task + "/comm").compare(0, name.size(), name) == 0)
			us += strtod(words_of(task + "/schedstat").c_str(), nullptr) * 1e-3;
	}
	closedir(dir);
	return us;
}

/* All but idle time of all processors, of which the kernel counts ticks. */
double machine_us()
{
	std::string line =
		words_of("/proc/stat"); /* "cpu  user nice system idle iowait irq softirq" */
	const char *at = line.c_str() + strcspn(line.c_str(), " ");
	double ticks = 0;
	for (int i = 0; i < 7; i++) {
		char *end;
		double value = strtod(at, &end);
		ticks += i == 3 || i == 4 ? 0 : value;
		at = end;
	}
	return ticks * 1e6 / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/* This rank's share of each sum over the ranks: rank 0 reads what there is once. */
clocks others_now(const peer_args &args)
{
	clocks c = {};
	c[AGGREGATORS] = threads_us("self", "fanin-sw");
	if (args.rank == 0) {
		c[MACHINE] = machine_us();
		if (args.watch)
			c[SWITCH] = threads_us(std::to_string(args.watch), "");
	}
	return c;
}

/* Not inlined: a profile tells the bench's own work by these names. */
__attribute__((noinline)) void bench_fill(std::vector<float> &data, int rank)
{
	peer_fill(data.data(), data.size(), rank);
}

__attribute__((noinline)) long bench_wrong(const std::vector<float> &data,
					   const std::vector<float> &sum)
{
	return peer_wrong(data.data(), sum.data(), data.size());
}

__attribute__((noinline)) void bench_expect(std::vector<float> &sum, int size)
{
	peer_expect(sum.data(), sum.size(), size);
}

/* A rank of both systems. */
class pair
{
      public:
	explicit pair(const peer_args &args)
	    : args_(args), gloo_(connect(args)), data_(args.bytes / sizeof(float)),
	      sum_(data_.size())
	{
		bench_expect(sum_, args.size);
		if (wants(FANIN))
			join();
	}
	~pair()
	{
		fanin_comm_destroy(fanin_);
	}
	pair(const pair &) = delete;
	pair &operator=(const pair &) = delete;

	bool wants(system s) const
	{
		return !args_.only || strcmp(args_.only, system_names[s]) == 0;
	}
	void turn(system s, int count, std::vector<double> &times_us, std::vector<double> &spent);
	long finish(std::vector<double> *times_us, std::vector<double> *spent);

      private:
	void join();
	void sum_by(system s);
	void print(const std::vector<double> *times_us, const std::vector<double> *spent) const;

	const peer_args &args_;
	context_ptr gloo_;
	fanin_comm *fanin_ = nullptr;
	std::vector<float> data_, sum_;
	std::vector<long> wrong_ = std::vector<long>(1, 0);
};

void pair::join()
{
	fanin_options options = FANIN_OPTIONS_INIT;
	options.rank = args_.rank;
	options.ranks = args_.size;
	int error = fanin_comm_create(&options, &fanin_);
	if (error)
		throw std::runtime_error(fanin_ ? fanin_comm_error(fanin_) : fanin_strerror(error));
}

void pair::sum_by(system s)
{
	if (s == GLOO)
		allreduce(gloo_, data_);
	else if (s == FANIN && fanin_allreduce(fanin_, data_.data(), data_.data(), data_.size(),
					       FANIN_FLOAT32, FANIN_SUM) != 0)
		throw std::runtime_error(fanin_comm_error(fanin_));
}

/* Appends `count` times, and one microseconds an all-reduce for each clock. */
void pair::turn(system s, int count, std::vector<double> &times_us, std::vector<double> &spent)
{
	double own_us = 0; /* of the bench */
	barrier(gloo_);
	clocks before = others_now(args_);
	before[RANKS] = clock_us(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < count; i++) {
		double since_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
		bench_fill(data_, args_.rank);
		own_us += clock_us(CLOCK_THREAD_CPUTIME_ID) - since_us;
		barrier(gloo_);
		double start_us = peer_now_us();
		sum_by(s);
		times_us.push_back(peer_now_us() - start_us);
		barrier(gloo_);
		since_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
		long wrong = bench_wrong(data_, sum_);
		own_us += clock_us(CLOCK_THREAD_CPUTIME_ID) - since_us;
		wrong_[0] += s == NOTHING ? 0 : wrong;
	}
	double ranks_us = clock_us(CLOCK_PROCESS_CPUTIME_ID) - before[RANKS] - own_us;
	clocks after = others_now(args_);
	after[RANKS] = before[RANKS] + ranks_us;
	for (size_t c = 0; c < CLOCKS; c++)
		spent.push_back((after[c] - before[c]) / count);
}

/* What all ranks took, printed; the wrong elements of all. */
long pair::finish(std::vector<double> *times_us, std::vector<double> *spent)
{
	for (int s = 0; s < SYSTEMS; s++) {
		if (times_us[s].empty())
			continue;
		gather(gloo_, times_us[s], [](void *c, const void *a, const void *b, size_t n) {
			gloo::max<double>(c, a, b, n);
		});
		gather(gloo_, spent[s], [](void *c, const void *a, const void *b, size_t n) {
			gloo::sum<double>(c, a, b, n);
		});
	}
	gather(gloo_, wrong_, [](void *c, const void *a, const void *b, size_t n) {
		gloo::sum<long>(c, a, b, n);
	});
	if (args_.rank == 0)
		print(times_us, spent);
	barrier(gloo_);
	return wrong_[0];
}

/* One of every `step` values, from the first on. */
void print_list(const char *name, const std::vector<double> &values, size_t first, size_t step)
{
	printf("\"%s\":[", name);
	for (size_t i = first; i < values.size(); i += step)
		printf("%s%.3f", i == first ? "" : ",", values[i]);
	printf("]");
}

void pair::print(const std::vector<double> *times_us, const std::vector<double> *spent) const
{
	printf("{\"results\":[{\"bytes\":%zu,\"ranks\":%d,\"turn\":%d,\"wrong\":%ld", args_.bytes,
	       args_.size, args_.turns, wrong_[0]);
	for (int s = 0; s < SYSTEMS; s++) {
		if (times_us[s].empty())
			continue;
		printf(",\"%s\":{", system_names[s]);
		print_list("times_us", times_us[s], 0, 1);
		for (size_t c = 0; c < CLOCKS; c++) {
			printf(",");
			print_list(clock_names[c], spent[s], c, CLOCKS);
		}
		printf("}");
	}
	printf("}]}\n");
	fflush(stdout);
}

/* Who begins a round of turns changes from one to the next. */
long run_turns(const peer_args &args)
{
	pair both(args);
	std::vector<double> times_us[SYSTEMS], spent[SYSTEMS], nowhere, no_clocks;
	for (system s : {GLOO, FANIN}) {
		if (args.warmup && both.wants(s))
			both.turn(s, args.warmup, nowhere, no_clocks);
	}
	for (int done = 0; done < args.iters; done += args.turns) {
		for (int i = 0; i < SYSTEMS; i++) {
			auto s = static_cast<system>((i + done / args.turns) % SYSTEMS);
			if (both.wants(s))
				both.turn(s, args.turns, times_us[s], spent[s]);
		}
	}
	return both.finish(times_us, spent);
}

} // namespace

int main(int argc, char **argv)
{
	peer_args args = {};
	args.size = 1;
	args.iters = 20;
	args.warmup = 5;
	args.bytes = 16 << 20;
	peer_parse(&args, argc, argv);
	if (!args.store || (!args.host && !args.iface) || args.rank >= args.size) {
		fprintf(stderr, "gloo_allreduce: needs --store, --host or --iface, and "
				"--rank below --size\n");
		return 2;
	}
	if (args.only && strcmp(args.only, "gloo") != 0 && strcmp(args.only, "fanin") != 0) {
		fprintf(stderr, "--only: \"%s\": expected gloo or fanin\n", args.only);
		return 2;
	}
	try {
		return (args.turns ? run_turns(args) : run(args)) == 0 ? 0 : 1;
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo_allreduce: rank %d: %s\n", args.rank, e.what());
		return 1;
	}
}
