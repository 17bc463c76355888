/* SPDX-License-Identifier: Apache-2.0
 *
 * Gloo's reduce-scatter (halving and doubling) and all-gather (a ring) over TCP: each by itself,
 * and both at once, on connections of their own.  Flags as those of gloo_allreduce; --bytes are of
 * the tensor of all ranks.  Every rank prints its medians; exits 1 when an element was wrong.
 */
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/barrier.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "peer.h"

namespace
{

using context_ptr = std::shared_ptr<gloo::Context>;

context_ptr connect(const peer_args &args, const std::string &name)
{
	gloo::transport::tcp::attr attr;
	attr.hostname = args.host;
	auto device = gloo::transport::tcp::CreateDevice(attr);
	auto context = std::make_shared<gloo::rendezvous::Context>(args.rank, args.size);
	gloo::rendezvous::FileStore files(args.store);
	gloo::rendezvous::PrefixStore store(name, files);
	context->setTimeout(std::chrono::seconds(60));
	context->connectFullMesh(store, device);
	return context;
}

void barrier(const context_ptr &context)
{
	gloo::BarrierOptions options(context);
	options.setTag(1);
	gloo::barrier(options);
}

/* The two, each with its tensors. */
class sets
{
      public:
	explicit sets(const peer_args &a)
	    : args(a), one(connect(a, "one")), other(connect(a, "other")), count(a.bytes / 4),
	      share(count / static_cast<size_t>(a.size)), scattered(count), own(share),
	      gathered(count), sum(count),
	      scatter(one, std::vector<float *>{scattered.data()}, static_cast<int>(count),
		      std::vector<int>(static_cast<size_t>(a.size), static_cast<int>(share)))
	{
		peer_expect(sum.data(), count, args.size);
	}

	/* Microseconds of a run. */
	double run(bool with_scatter, bool with_gather)
	{
		peer_fill(scattered.data(), count, args.rank);
		peer_fill(own.data(), share, args.rank);
		barrier(one);
		double begun_us = peer_now_us();
		std::thread gatherer;
		if (with_gather)
			gatherer = std::thread([this] { gather(); });
		if (with_scatter)
			scatter.run();
		if (with_gather)
			gatherer.join();
		double took_us = peer_now_us() - begun_us;
		barrier(one);
		size_t at = share * static_cast<size_t>(args.rank);
		if (with_scatter) /* this rank's share comes first */
			wrong += peer_wrong(scattered.data(), sum.data() + at, share);
		for (int r = 0; with_gather && r < args.size; r++)
			for (size_t i = 0; i < share; i++)
				wrong += gathered[static_cast<size_t>(r) * share + i] !=
					 peer_input(r, i);
		return took_us;
	}

	long wrong = 0;

      private:
	void gather()
	{
		gloo::AllgatherOptions options(other);
		options.setInput(own.data(), share);
		options.setOutput(gathered.data(), count);
		options.setTag(2);
		gloo::allgather(options);
	}

	peer_args args;
	context_ptr one, other;
	size_t count, share;
	std::vector<float> scattered, own, gathered, sum;
	gloo::ReduceScatterHalvingDoubling<float> scatter;
};

double median(std::vector<double> &values)
{
	qsort(values.data(), values.size(), sizeof(double), peer_compare);
	return values[values.size() / 2];
}

int run(const peer_args &args)
{
	sets both(args);
	std::vector<double> us[3];
	for (int i = -args.warmup; i < args.iters; i++)
		for (int what = 0; what < 3; what++) {
			double took_us = both.run(what != 1, what != 0);
			if (i >= 0)
				us[what].push_back(took_us);
		}
	printf("{\"reduce_scatter_us\": %.1f, \"allgather_us\": %.1f, \"both_us\": %.1f, "
	       "\"wrong\": %ld}\n",
	       median(us[0]), median(us[1]), median(us[2]), both.wrong);
	return both.wrong == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	peer_args args = {};
	args.size = 1;
	args.iters = 5;
	args.warmup = 1;
	args.bytes = 8 << 20;
	peer_parse(&args, argc, argv);
	if (!args.store || !args.host || args.rank >= args.size || args.bytes % (4 * args.size)) {
		fprintf(stderr,
			"gloo_sets: needs --store, --host, --rank below --size, and --bytes of "
			"as many elements for each rank\n");
		return 2;
	}
	try {
		return run(args);
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo_sets: rank %d: %s\n", args.rank, e.what());
		return 1;
	}
}
