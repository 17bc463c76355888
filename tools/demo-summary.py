#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./demo --bench says at its end, from the JSON of "fanin bench".

    demo-summary.py FILE.json

Exits 1 when an element was wrong, or when the file does not say.
"""

import json
import sys


def main(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)["results"][-1]
    p50_ms = result["time_us_p50"] / 1e3
    p99_ms = result["time_us_p99"] / 1e3
    resent = result["retransmits"]
    way = "multicast" if result.get("multicast") else "unicast"
    batches = result.get("segment_offload") and result.get("receive_offload")
    wrong = result["wrong"]
    print()
    print(f"{result['ranks']} workers summed {result['count']:,} values each "
          f"({result['bytes'] / 1e6:.1f} MB) through one switch.")
    print(f"  one all-reduce   {p50_ms:.0f} ms (median), {p99_ms:.0f} ms (99th percentile)")
    print(f"  each worker      {result['linkbw_GBps']:.2f} GB/s out and as much in, once each way")
    print(f"  sent again       {resent:,} fragments")
    print(f"  on the wire      results by {way}, "
          f"{'batches of datagrams (UDP_SEGMENT, UDP_GRO)' if batches else 'one datagram a call'}")
    if wrong is None:
        print("  NOT CHECKED: the bench did not compare the elements.")
        return 1
    print(f"  wrong elements   {wrong:,}: every one was checked")
    print()
    if wrong:
        print("WRONG RESULT: please report this with the output above.")
        return 1
    print("On several machines: start \"build/fanin switch --listen 0.0.0.0:5000\" on one and")
    print("\"build/fanin bench --switch ADDR:5000 ...\" on the others; doc/deploy.md shows how.")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
