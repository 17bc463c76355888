#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ./demo says at its end, from the JSON of examples/train_fashion_mnist.py.

    demo-train.py FILE.json

Exits 1, with the reason, when no switch aggregated, the loss did not go down, the network
learned nothing, or ranks hold different parameters.
"""

import json
import statistics
import sys

ACCURACY_LEAST = 0.5  # guessing reaches 0.1
ENDS_STEPS = 20  # the loss at the beginning and the end is the mean of so many steps

WAYS = {"fanin": "through the switch", "gloo": "ring, what PyTorch does on CPUs",
        "none": "no communication: what computing takes"}


def table(compare):
    """Lines with the step time of each way, and what communication is of it."""
    none_s = compare["none"]["p50_s"]
    yield "  step time        median    of it communication"
    for name, text in WAYS.items():
        if name not in compare:
            continue
        p50_s = compare[name]["p50_s"]
        more_s = p50_s - none_s
        share = f"{more_s * 1e3:6.1f} ms {more_s / p50_s * 100:4.0f} %" if name != "none" else " " * 16
        yield f"    {name:<10} {p50_s * 1e3:9.1f} ms {share}    {text}"


def ends(losses):
    """The loss at the beginning and at the end."""
    count = min(ENDS_STEPS, max(1, len(losses) // 2))
    return statistics.fmean(losses[:count]), statistics.fmean(losses[-count:])


def problems(result):
    """What a demo must not end with."""
    first, last = ends(result["losses"])
    if not result["aggregation"]["active"]:
        yield f"aggregation is not active: {result['aggregation']['reason']}"
    if not last < first:
        yield f"the loss did not go down: {first:.3f} at first, {last:.3f} at the end"
    if not result["final"]["accuracy"] >= ACCURACY_LEAST:
        yield f"the network did not learn: accuracy {result['final']['accuracy'] * 100:.1f} %"
    if not result["identical"]:
        yield "the workers hold different parameters: please report this with the output above"


def main(path):
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    first, last = ends(result["losses"])
    compare = result["compare"]
    print()
    print(f"{result['workers']} workers trained {result['parameters']:,} parameters for "
          f"{result['steps']:,} steps with PyTorch {result['torch']}.")
    print(f"  aggregation      {'active' if result['aggregation']['active'] else 'NOT ACTIVE'}")
    print(f"  loss             {first:.3f} at first, {last:.3f} at the end")
    print(f"  test accuracy    {result['final']['accuracy'] * 100:.2f} % of 10,000 images")
    same = "the same on all workers, bit by bit" if result["identical"] else "DIFFERENT"
    print(f"  parameters       {same}")
    print()
    for line in table(compare):
        print(line)
    print(f"  {compare['none']['steps']} steps each on every worker, in turns; "
          f"{result['workers']} workers share {result['cores']} cores with the switch")
    print()
    wrong = list(problems(result))
    for text in wrong:
        print(f"demo: {text}")
    if wrong:
        return 1
    print("On several machines: torchrun on each, and no switch to name: every machine sums a part.")
    print("One in the middle with a wide link: FANIN_SWITCH=ADDR:5000; examples/README.md shows how.")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
