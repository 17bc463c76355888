/* SPDX-License-Identifier: Apache-2.0
 *
 * A peer: oneCCL's all-reduce between processors, with the transport and the algorithm that it
 * picks or is told (CCL_*, FI_*).  One process a rank, met through a folder, with gloo_allreduce's
 * flags:
 *
 *     ccl_allreduce --rank R --size N --store DIR --bytes 16777216 --iters 20 --warmup 5
 *
 * Every element of every result is checked, outside the timed part, as there.
 */
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <oneapi/ccl.hpp>

#include "peer.h"

namespace
{

/* Rank 0's address, in a file that has its name once it is whole. */
ccl::shared_ptr_class<ccl::kvs> meet(const peer_args &args)
{
	std::string path = std::string(args.store) + "/address", draft = path + ".new";
	ccl::kvs::address_type address;
	if (args.rank == 0) {
		auto kvs = ccl::create_main_kvs();
		address = kvs->get_address();
		std::ofstream(draft, std::ios::binary).write(address.data(), address.size());
		if (rename(draft.c_str(), path.c_str()))
			throw std::runtime_error(path);
		return kvs;
	}
	std::ifstream file;
	while (!file.is_open()) {
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
		file.open(path, std::ios::binary);
	}
	file.read(address.data(), address.size());
	return ccl::create_kvs(address);
}

/* `out`: standard output, where oneCCL does not log. */
long run(const peer_args &args, int out)
{
	auto comm = ccl::create_communicator(args.size, args.rank, meet(args));
	size_t count = args.bytes / sizeof(float);
	std::vector<float> data(count), sum(count);
	std::vector<double> time_us(static_cast<size_t>(args.iters));
	std::vector<int64_t> wrong(1, 0);

	peer_expect(sum.data(), count, args.size);
	for (int i = -args.warmup; i < args.iters; i++) {
		peer_fill(data.data(), count, args.rank);
		ccl::barrier(comm).wait();
		double start_us = peer_now_us();
		ccl::allreduce(data.data(), data.data(), count, ccl::reduction::sum, comm).wait();
		if (i >= 0)
			time_us[static_cast<size_t>(i)] = peer_now_us() - start_us;
		ccl::barrier(comm).wait();
		wrong[0] += peer_wrong(data.data(), sum.data(), count);
	}
	ccl::allreduce(time_us.data(), time_us.data(), time_us.size(), ccl::reduction::max, comm)
		.wait();
	ccl::allreduce(wrong.data(), wrong.data(), 1, ccl::reduction::sum, comm).wait();
	dup2(out, STDOUT_FILENO);
	if (args.rank == 0)
		peer_print(&args, "oneccl", time_us.data(), static_cast<long>(wrong[0]));
	return static_cast<long>(wrong[0]);
}

} // namespace

int main(int argc, char **argv)
{
	peer_args args = {};
	args.iters = 20;
	args.warmup = 5;
	args.bytes = 16 << 20;
	peer_parse(&args, argc, argv);
	int out = dup(STDOUT_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	try {
		ccl::init();
		return run(args, out) ? 1 : 0;
	} catch (const std::exception &error) {
		fprintf(stderr, "ccl_allreduce: rank %d: %s\n", args.rank, error.what());
		return 1;
	}
}
