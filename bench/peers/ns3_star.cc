// SPDX-License-Identifier: Apache-2.0
// ns3_star - the work of bench-sim's star, in ns-3: to compare the simulators' speed.
//
// N workers on a hub, by point-to-point links with IPv4 and UDP, as ns-3 has them.  Each
// keeps a window of fragments in flight; the hub counts the contributions to a fragment
// and, when all are in, sends one datagram of the same size to each worker.  The packets
// carry a fragment number; their payloads are ns-3's virtual zeros, which cost nothing, and
// nothing is summed.  Nothing is lost, so nothing is resent.
//
//     ns3_star RANKS WINDOW GBPS FRAGMENTS [PAYLOAD]
//
// prints fragment-hops and processor seconds.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

using namespace ns3;

namespace
{

constexpr uint16_t kPort = 4000;
constexpr uint32_t kHead = 32; // fanin's header

struct Star {
	uint32_t ranks, window, payload;
	uint32_t fragments;
	uint64_t hops = 0, results = 0;
	std::vector<uint32_t> count; // by slot
	std::vector<Ipv4Address> address;
	Ptr<Socket> hub;
	std::vector<Ptr<Socket>> worker;
};

Star star;

Ptr<Packet> make_packet(uint32_t number)
{
	uint8_t head[kHead] = {};
	head[0] = static_cast<uint8_t>(number);
	head[1] = static_cast<uint8_t>(number >> 8);
	head[2] = static_cast<uint8_t>(number >> 16);
	head[3] = static_cast<uint8_t>(number >> 24);
	Ptr<Packet> p = Create<Packet>(head, kHead);
	p->AddPaddingAtEnd(star.payload);
	return p;
}

uint32_t number_of(const Ptr<Packet> &p)
{
	uint8_t head[kHead];
	p->CopyData(head, kHead);
	return head[0] | static_cast<uint32_t>(head[1]) << 8 |
	       static_cast<uint32_t>(head[2]) << 16 | static_cast<uint32_t>(head[3]) << 24;
}

void hub_hears(Ptr<Socket> socket)
{
	while (Ptr<Packet> p = socket->Recv()) {
		star.hops++;
		uint32_t number = number_of(p);
		uint32_t &count = star.count[number % star.window];
		if (++count < star.ranks)
			continue;
		count = 0;
		Ptr<Packet> sum = make_packet(number);
		for (const Ipv4Address &to : star.address)
			star.hub->SendTo(sum->Copy(), 0, InetSocketAddress(to, kPort));
	}
}

void worker_hears(Ptr<Socket> socket)
{
	while (Ptr<Packet> p = socket->Recv()) {
		star.hops++;
		star.results++;
		uint32_t next = number_of(p) + star.window;
		if (next < star.fragments)
			socket->Send(make_packet(next));
	}
}

void build(uint32_t gbps)
{
	NodeContainer hub(1), workers(star.ranks);
	InternetStackHelper stack;
	stack.Install(hub);
	stack.Install(workers);
	PointToPointHelper link;
	link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(gbps * 1000000000ull)));
	link.SetChannelAttribute("Delay", TimeValue(MicroSeconds(1)));
	link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("100000p"));
	Ipv4AddressHelper net("10.0.0.0", "255.255.255.252");
	TypeId udp = TypeId::LookupByName("ns3::UdpSocketFactory");
	star.hub = Socket::CreateSocket(hub.Get(0), udp);
	star.hub->SetAttribute("RcvBufSize", UintegerValue(1 << 30));
	star.hub->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
	star.hub->SetRecvCallback(MakeCallback(&hub_hears));
	for (uint32_t r = 0; r < star.ranks; r++, net.NewNetwork()) {
		NetDeviceContainer ends = link.Install(workers.Get(r), hub.Get(0));
		Ipv4InterfaceContainer at = net.Assign(ends);
		star.address.push_back(at.GetAddress(0));
		Ptr<Socket> s = Socket::CreateSocket(workers.Get(r), udp);
		s->SetAttribute("RcvBufSize", UintegerValue(1 << 30));
		s->Bind(InetSocketAddress(Ipv4Address::GetAny(), kPort));
		s->Connect(InetSocketAddress(at.GetAddress(1), kPort));
		s->SetRecvCallback(MakeCallback(&worker_hears));
		star.worker.push_back(s);
	}
}

void begin()
{
	for (const Ptr<Socket> &s : star.worker)
		for (uint32_t n = 0; n < star.window && n < star.fragments; n++)
			s->Send(make_packet(n));
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	star.ranks = static_cast<uint32_t>(std::atoi(argv[1]));
	star.window = static_cast<uint32_t>(std::atoi(argv[2]));
	star.fragments = static_cast<uint32_t>(std::atoi(argv[4]));
	star.payload = argc > 5 ? static_cast<uint32_t>(std::atoi(argv[5])) : 1408;
	star.count.resize(star.window);
	build(static_cast<uint32_t>(std::atoi(argv[3])));
	Simulator::Schedule(MilliSeconds(1), &begin);
	std::clock_t start = std::clock();
	Simulator::Run();
	double cpu_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
	bool whole = star.results == static_cast<uint64_t>(star.fragments) * star.ranks;
	std::printf("{\"frag_hops\": %llu, \"cpu_s\": %.6f, \"virtual_s\": %.9f, \"whole\": %s}\n",
		    static_cast<unsigned long long>(star.hops), cpu_s,
		    Simulator::Now().GetSeconds(), whole ? "true" : "false");
	Simulator::Destroy();
	return whole ? 0 : 1;
}
