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
 */
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

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
	try {
		return run(args) == 0 ? 0 : 1;
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo_allreduce: rank %d: %s\n", args.rank, e.what());
		return 1;
	}
}
