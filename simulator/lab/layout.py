# SPDX-License-Identifier: Apache-2.0
"""What of a topology becomes what: addresses, links, routes and shaping, as text for ip and tc.

Nothing here needs root, Mininet or a network.

Every node is a namespace with one data address on lo.  A link is a veth pair without addresses, each
end shaped by htb to the link's rate that way.  A route of one address leads to each neighbour
over the link to it, and to all others by the shortest path over switches.  So what daemons
send hop by hop along a plan uses those links, and nothing else.

    W1 --(htb, e0)---- veth ----(e1, htb)-- S1 --(e0)---- ... ---- PS
    lo 10.9.0.5                              lo 10.9.0.1

Beside it is a management network that is not shaped, a bridge in the controller's namespace.

What a server takes in is the rate of the link towards it, if that is less than the link's, and
what a worker sends that of the link from it.  What a switch can sum is a token bucket through
which those parts pass, and only those, that the plan has summed there: filters at the switch's
interfaces know them by type, route, sender and rank (doc/protocol), and redirect them to an ifb.
"""

import json

CONTROLLER = "10.8.0.1"
CONTROLLER_PORT = 7700
PORT = 7000
BLOCK = 250  # nodes in one /24

PAYLOAD = 1408
HEAD = 36
FRAME = 42  # UDP, IP and Ethernet, as tc counts
WIRE = (PAYLOAD + HEAD + FRAME) / PAYLOAD  # bytes on a link for each byte of gradient

BURST_S = 0.004  # htb: what may be late by a scheduler's whim and still leave
FRAMES_BURST = 3
FRAME_BYTES = 1514
QUEUE_FRAMES = 4000  # of a link: windows fit, so that nothing is dropped
QUEUE = "parent 1:1 handle 2: pfifo limit %d" % QUEUE_FRAMES

SIM_ELEMENTS, SIM_WINDOW, SIM_DELAY_US = 1600000, 64, 2

# Of a packet, from its IP header on (doc/protocol/base.md, section 3).
AT_TYPE, AT_ROUTE, AT_SENDER = 29, 34, 40
DATA = 1


class LabError(Exception):
    """What people did wrong, or what failed; the text says which and what to do."""


class Node:
    """A node of the topology, with what it is called in the lab."""

    def __init__(self, number, entry):
        self.name, self.kind = entry["name"], entry["kind"]
        self.gbps = entry.get("gbps", 0)
        self.number = number
        self.address = "10.9.%d.%d" % (number // BLOCK, number % BLOCK + 1)
        self.management = "10.8.%d.%d" % (number // BLOCK, number % BLOCK + 2)
        self.ends = []  # of links, in their order

    @property
    def listen(self):
        return "%s:%d" % (self.address, PORT)


class End:
    """One end of a link, where `node` sends to `peer`."""

    def __init__(self, node, peer, gbps):
        self.node, self.peer, self.gbps = node, peer, gbps
        self.interface = "e%d" % len(node.ends)
        self.mac = "02:%02x:%02x:%02x:%02x:%02x" % (
            node.number >> 8,
            node.number & 255,
            len(node.ends) >> 8,
            len(node.ends) & 255,
            1,
        )


class Layout:
    """A scaled topology, laid out.  `topology` is as `fanin plan --topology` writes it."""

    def __init__(self, topology):
        self.topology = topology
        self.nodes = [Node(i, n) for i, n in enumerate(topology["nodes"])]
        self.by_name = {n.name: n for n in self.nodes}
        if len(topology.get("jobs", [{}])) != 1:
            raise LabError("the lab runs one job, and the topology has several")
        self.links = [self._link(entry) for entry in topology["links"]]
        jobs = topology.get("jobs", [])
        self.job = jobs[0]["name"] if jobs else "job"
        names = jobs[0]["workers"] if jobs else [n.name for n in self.of("worker")]
        self.ranks = [self.by_name[name] for name in names]
        if len(self.ranks) < 2:
            raise LabError("the lab needs a job of two workers or more")
        self.hops = {n.name: self._first_hops(n) for n in self.nodes}

    def of(self, kind):
        return [n for n in self.nodes if n.kind == kind]

    def _link(self, entry):
        a, b = (self.by_name[entry[k]] for k in ("a", "b"))
        ends = []
        for node, peer in ((a, b), (b, a)):
            rate = entry["gbps"]
            if node.kind == "worker" and node.gbps:
                rate = min(rate, node.gbps)
            if peer.kind == "server" and peer.gbps:
                rate = min(rate, peer.gbps)
            ends.append(End(node, peer, rate))
        a.ends.append(ends[0])
        b.ends.append(ends[1])
        return tuple(ends)

    def _first_hops(self, start):
        """By name of every other node: the end by which the shortest path leaves `start`."""
        found = {}
        front = [(end.peer, end) for end in start.ends]
        while front:
            further = []
            for node, end in front:
                if node is start or node.name in found:
                    continue
                found[node.name] = end
                if node.kind == "switch":
                    further += [(e.peer, end) for e in node.ends]
            front = further
        return found

    # ---- for ip ---------------------------------------------------------------------

    def addresses(self, node):
        """A batch for ip(8) in the node's namespace, after its links were made."""
        lines = ["link set lo up", "addr add %s/32 dev lo" % node.address]
        for end in node.ends:
            # one frame at a time: tc(8) is to see them as the wire would
            lines.append("link set %s gso_max_segs 1 up" % end.interface)
        for end in node.ends:
            back = next(e for e in end.peer.ends if e.peer is node)
            lines.append(
                "neigh replace %s lladdr %s dev %s nud permanent"
                % (end.peer.address, back.mac, end.interface)
            )
        near = {}
        for end in node.ends:
            near.setdefault(end.peer.name, end)
        for other in self.nodes:
            if other is node:
                continue
            end = near.get(other.name) or self.hops[node.name].get(other.name)
            if end is None:
                continue
            way = "dev %s src %s" % (end.interface, node.address)
            if other.name not in near:
                way = "via %s onlink %s" % (end.peer.address, way)
            lines.append("route add %s/32 %s" % (other.address, way))
        return "\n".join(lines) + "\n"

    # ---- for tc ---------------------------------------------------------------------

    def shaping(self, node):
        """A batch for tc(8): each interface has its link's rate, and a switch's sums theirs."""
        lines = []
        for end in node.ends:
            lines += bucket(end.interface, end.gbps)
        if node.kind == "switch" and node.gbps:
            lines += bucket("ifb0", node.gbps)
            lines += ["qdisc add dev %s handle ffff: ingress" % end.interface for end in node.ends]
        return "\n".join(lines) + "\n"

    @staticmethod
    def wall(end):
        """A batch for tc(8): nothing leaves by this interface any more, and nobody is told."""
        return "qdisc replace dev %s parent 1:1 handle 3: pfifo limit 0\n" % end.interface

    @staticmethod
    def no_wall(end):
        return "qdisc replace dev %s %s\n" % (end.interface, QUEUE)

    def sum_filters(self, node, install):
        """A batch for tc(8): which parts the installation has summed at this switch."""
        if node.kind != "switch" or not node.gbps:
            return ""
        lines = ["filter del dev %s parent ffff:" % end.interface for end in node.ends]
        for route, entry in routes_of(install, node.name):
            if not entry["sums"]:
                continue
            for rank in ranks_of(entry["ranks"]):
                who = self.by_name[entry["from"]] if entry["from"] else self.ranks[rank]
                end = self.hops[node.name][who.name]
                lines.append(
                    "filter add dev %s parent ffff: protocol ip prio 1 u32 "
                    "match ip protocol 17 0xff match ip src %s/32 match ip dst %s/32 "
                    "match u8 %#x 0xff at %d match u16 %#x 0xffff at %d "
                    "match u16 %#x 0xffff at %d action mirred egress redirect dev ifb0"
                    % (
                        end.interface,
                        who.address,
                        node.address,
                        DATA,
                        AT_TYPE,
                        swapped(route),
                        AT_ROUTE,
                        swapped(rank),
                        AT_SENDER,
                    )
                )
        return "\n".join(lines) + "\n"

    # ---- for fanin sim ----------------------------------------------------------------

    def scenario(self, plan, seed, window=SIM_WINDOW):
        """The same for `fanin sim`."""
        bare = (PAYLOAD + HEAD) / (PAYLOAD + HEAD + FRAME)  # a node counts no frames
        nodes = []
        for node in self.nodes:
            entry = {"name": node.name, "kind": node.kind}
            if node.kind == "switch" and node.gbps:
                entry["sums_gbps"] = node.gbps * bare
            if node.kind == "server" and node.gbps:
                entry["gbps"] = node.gbps * bare
            nodes.append(entry)
        links = [
            {
                "a": a.node.name,
                "b": b.node.name,
                "gbps": max(a.gbps, b.gbps),
                "delay_us": SIM_DELAY_US,
                "overhead_bytes": FRAME,
                "queue_bytes": QUEUE_FRAMES * FRAME_BYTES,
            }
            for a, b in self.links
        ]
        return {
            "name": self.job,
            "seed": seed,
            "topology": {"nodes": nodes, "links": links},
            "plan": plan,
            "jobs": [
                {
                    "name": self.job,
                    "model": {"numel": SIM_ELEMENTS, "layers": 1},
                    "window": window,
                    "verify": True,
                }
            ],
        }


def bucket(interface, gbps):
    """htb of that rate, and room behind it."""
    bits = round(gbps * 1e9)
    burst = max(round(bits / 8 * BURST_S), FRAMES_BURST * FRAME_BYTES)
    return [
        "qdisc add dev %s root handle 1: htb default 1" % interface,
        "class add dev %s parent 1: classid 1:1 htb rate %dbit burst %d cburst %d quantum %d"
        % (interface, bits, burst, burst, FRAME_BYTES),
        "qdisc add dev %s %s" % (interface, QUEUE),
    ]


def swapped(number):
    """A number of 16 bits as u32 of tc reads one that is little-endian."""
    return (number & 255) << 8 | number >> 8


def ranks_of(text):
    """The numbers of "0-3,7"."""
    ranks = []
    for span in text.split(","):
        first, _, last = span.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def routes_of(install, name):
    """(route, entry) of a switch, as `fanin plan --install` has them."""
    for switch in install["switches"]:
        if switch["name"] == name:
            for route in switch["routes"]:
                for entry in route["entries"]:
                    yield route["route"], entry


def scaled(topology, factor):
    """A copy with every rate times `factor`."""
    copy = json.loads(json.dumps(topology))
    for entry in copy["nodes"] + copy["links"]:
        for key in ("gbps", "background_gbps"):
            if key in entry:
                entry[key] *= factor
    for job in copy.get("jobs", []):
        job.pop("demand_gbps", None)
    return copy


def frames_per_s(plan):
    """Of all links together, gradients up and results down, at the plan's rate with results."""
    rate = plan["with_results_gbps"]
    load = 0.0
    for number, tree in enumerate(plan["trees"]):
        ways = [a["route"] for a in plan["assignments"] if a["tree"] == number]
        ways += [s["route"] for s in tree["sums"]]
        steps = [step for way in ways for step in zip(way, way[1:])]
        load += (len(steps) + len(set(steps))) * tree["share"]
    return load * rate * 1e9 / 8 / (PAYLOAD + HEAD + FRAME)
