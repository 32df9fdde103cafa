"""Which policy a volume should have: each policy over ten loads of block devices, in simulated time.

    python3 block_policies.py ENTRESOL FOLDER [--traces FOLDER] [--only LOAD] [--json FILE]

Six loads are made here, from a seed; four are captures, which are skipped if FOLDER of `--traces` has none of
them. Each is replayed with `entresol simulate` over a flash of 5, 10 and 25 % of its pages, before a disk.
Printed for each mode: requests a second, compared with the best policy of the same load and size: the geometric
mean, the least, and in how many cells a policy is within a tenth of the best. Flash writes are compared with
face-gsc's, as a geometric mean.
"""

import argparse
import bisect
import itertools
import json
import math
import os
import random
import subprocess
import sys

SIZES = ["5", "10", "25"]
POLICIES = {
    "write-through": ["face-gsc", "reuse", "reuse-slots", "s3-fifo", "lc", "sieve", "clock", "lru", "sce"],
    "write-back": ["face", "face-gr", "face-gsc", "reuse", "reuse-slots", "s3-fifo", "lc"],
}
# Begins as face-gsc, and changes by itself.
SWITCHING = "face-gsc, switch_policy"
PAGE, REQUESTS, SEED = 4096, 300_000, 46


class Zipf:
    """Ranks from 0, each as often as its number to the power of -theta, in any order of places."""

    def __init__(self, count, theta, rng):
        self.sums = list(itertools.accumulate((rank + 1) ** -theta for rank in range(count)))
        self.places, self.rng = rng.sample(range(count), count), rng

    def draw(self):
        return self.places[bisect.bisect(self.sums, self.rng.random() * self.sums[-1])]


def zipf_reads(rng):
    """8 KiB, reads alone, a zipf distribution."""
    zipf = Zipf(40_000, 0.9, rng)
    return (("r", zipf.draw() * 2, 2) for _ in range(REQUESTS))


def zipf_mixed(rng):
    """4 KiB, three of ten are writes, a zipf distribution."""
    zipf = Zipf(80_000, 0.9, rng)
    return (("w" if rng.random() < 0.3 else "r", zipf.draw(), 1) for _ in range(REQUESTS))


def clustered(rng):
    """Nine of ten requests in a tenth of the disk, which moves a little at a time; a quarter are writes."""
    pages, first = 80_000, 0
    for number in range(REQUESTS):
        first += number % 20 == 0
        page = first + rng.randrange(pages // 10) if rng.random() < 0.9 else rng.randrange(pages)
        yield "w" if rng.random() < 0.25 else "r", page % pages, 1


def runs(rng):
    """Sequential runs of up to 64 pages that begin anywhere; one of five is written. Some begin where one did."""
    starts = [rng.randrange(80_000) for _ in range(500)]
    left = REQUESTS
    while left > 0:
        start = rng.choice(starts) if rng.random() < 0.5 else rng.randrange(80_000)
        kind, length = "w" if rng.random() < 0.2 else "r", rng.randrange(1, 65)
        for page in range(start, start + length):
            yield kind, page, 1
        left -= length


def files(rng):
    """A file server: whole files of 4 to 256 KiB, by a zipf distribution; one of five is written."""
    sizes, at = [], 0
    for _ in range(4000):
        pages = 2 ** rng.randrange(7)
        sizes.append((at, pages))
        at += pages
    zipf, left = Zipf(len(sizes), 0.8, rng), REQUESTS
    while left > 0:
        first, pages = sizes[zipf.draw()]
        yield "w" if rng.random() < 0.2 else "r", first, pages
        left -= pages


def uniform(rng):
    """Each page as often as any other, three of ten requests are writes: no cache helps much."""
    return (("w" if rng.random() < 0.3 else "r", rng.randrange(80_000), 1) for _ in range(REQUESTS))


MADE = {"zipf, 8 KiB, reads": zipf_reads, "zipf, 4 KiB, mixed": zipf_mixed, "clustered": clustered,
        "sequential runs": runs, "file server": files, "uniform": uniform}
CAPTURES = {
    "PostgreSQL": ("pg15_tpcc_w8.bin.zst", ["--stream", "below", "--until", "240"]),
    "virtual machine": ("cloudPhysicsIO.csv.zst", []),
    "web search": ("mqsim_wsrch-small.trace.zst", []),
    "workstation": ("arc_P3.lis.zst", ["--columns", "offset,size,-,time", "--separator", "space", "--offset-unit",
                                       "sectors", "--size-unit", "sectors", "--time-unit", "ms"]),
}


def load(name, folder, traces):
    """The options that replay a load, or None if it is not here."""
    if name in CAPTURES:
        file, options = CAPTURES[name]
        path = os.path.join(traces or "", file)
        return ["--trace", path, *options] if traces and os.path.exists(path) else None
    path = os.path.join(folder, f"{list(MADE).index(name)}.csv")
    with open(path, "w") as file:
        for number, (kind, page, pages) in enumerate(MADE[name](random.Random(SEED))):
            file.write(f"{number / 1000},{kind},{page * PAGE},{pages * PAGE}\n")
    return ["--trace", path, "--columns", "time,op,offset,size"]


def replay(entresol, options, mode, folder, policies, more=()):
    out = os.path.join(folder, "out.json")
    command = [entresol, "simulate", *options, "--dram-pages", "0", "--whole-writes", "--mode", mode, "--policy",
               ",".join(policies), "--flash-percent", ",".join(SIZES), "--json", out, *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    kept = ("policy", "flash_percent", "throughput", "flash_hit_rate", "flash_writes", "disk_reads", "disk_writes",
            "p99_response_us")
    return [{name: run[name] for name in kept} for run in json.load(open(out))]


def mean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values))


def table(cells, mode):
    """`cells`: by load and size, the runs by policy."""
    rows = []
    for policy in [*POLICIES[mode], *([SWITCHING] if mode == "write-back" else [])]:
        parts = [runs[policy]["throughput"] / max(run["throughput"] for run in runs.values())
                 for runs in cells.values()]
        writes = [max(runs[policy]["flash_writes"], 1) / max(runs["face-gsc"]["flash_writes"], 1)
                  for runs in cells.values()]
        within = sum(part >= 0.9 for part in parts)
        rows.append((mean(parts), min(parts), within, policy, mean(writes)))
    print(f"\n| {mode} | mean | least | within a tenth of the best | flash writes |\n|---|---|---|---|---|")
    for part, least, within, policy, writes in sorted(rows, reverse=True):
        print(f"| `{policy}` | {part:.3f} | {least:.2f} | {within} of {len(cells)} | {writes:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entresol")
    parser.add_argument("folder")
    parser.add_argument("--traces", metavar="FOLDER")
    parser.add_argument("--only", metavar="LOAD")
    parser.add_argument("--json", metavar="FILE")
    told = parser.parse_args()
    os.makedirs(told.folder, exist_ok=True)
    found = {mode: {} for mode in POLICIES}
    for name in [name for name in [*MADE, *CAPTURES] if told.only in (None, name)]:
        options = load(name, told.folder, told.traces)
        if options is None:
            print(f"{name}: skipped, there is no capture of it", file=sys.stderr)
            continue
        for mode in POLICIES:
            replayed = replay(told.entresol, options, mode, told.folder, ["none", *POLICIES[mode]])
            if mode == "write-back":
                changes = replay(told.entresol, options, mode, told.folder, ["face-gsc"], ["--switch"])
                replayed += [{**run, "policy": SWITCHING} for run in changes]
            without = [run for run in replayed if run["policy"] == "none"]
            for size in SIZES:
                of_size = [run for run in replayed if f"{run['flash_percent']:.0f}" == size]
                found[mode][f"{name}, {size} %"] = {run["policy"]: run for run in of_size + without}
        print(f"{name}: replayed", file=sys.stderr)
    for mode, cells in found.items():
        table(cells, mode)
    if told.json:
        with open(told.json, "w") as file:
            json.dump(found, file, indent=1)


main()
