#!/usr/bin/env python3
"""Every policy of the lab on every trace at hand and on three generated ones, by machine and size of flash.

    benches/policies.py FOLDER [--entresol target/release/entresol] [--traces ../shared/traces] [--sizes 2,4,8,16,32]
                        [--machines mlc,slc,sata,cloud] [--json F]

Needs a release build. FOLDER takes the generated traces (150 MB). Traces that are not there are left out, and said. DRAM is 1 % of a
trace's pages, the mode is each policy's first one, the clients are eight. Machines: the modelled MLC and SLC drives with eight disks,
today's NVMe drive with a SATA disk, and with a cloud volume.

Prints, for each trace, the flash hits and the pages written to flash on NVMe with the cloud volume, and for each machine the time of the
busiest device for each reference, as a multiple of face-gsc's. Then what the claims are judged by: how far `reuse` and
`reuse-slots` are from the best hit rate, where they take more than 1.02 of face-gsc's time, and which policies reach both goals.
"""
import argparse, json, pathlib, subprocess, sys

MACHINES = {"mlc": ("mlc", "raid0-8"), "slc": ("slc", "raid0-8"), "sata": ("nvme", "sata-disk"), "cloud": ("nvme", "cloud")}
OURS = ("reuse", "reuse-slots")
CAPTURES = {
    "PostgreSQL": ("pg15_tpcc_w8.bin.zst", ["--until", "240"]),
    "CloudPhysics": ("cloudPhysicsIO.csv.zst", []),
    "web search": ("mqsim_wsrch-small.trace.zst", []),
    "joins": ("lirs_ps.trace.gz", []),
}
GENERATED = {
    "zipf": ["zipf", "--pages", "50000", "--references", "2000000", "--skew", "0.9", "--seed", "1"],
    "zipf, scans": ["zipf", "--pages", "50000", "--references", "2000000", "--skew", "0.9", "--scan-percent", "30", "--scan-pages", "20000",
                    "--seed", "2"],
    "zipf, moving": ["zipf", "--pages", "50000", "--references", "2000000", "--skew", "0.9", "--phases", "8", "--seed", "3"],
    "pure scan": ["sequential", "--pages", "50000", "--references", "1000000", "--seed", "4"],
}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")


def traces(arguments):
    for name, (file, options) in CAPTURES.items():
        path = pathlib.Path(arguments.traces) / file
        if path.exists():
            yield name, [str(path), *options]
        else:
            print(f"left out: {name}, as {path} does not exist")
    for name, options in GENERATED.items():
        path = pathlib.Path(arguments.folder) / (name.replace(", ", "-").replace(" ", "-") + ".etr")
        if not path.exists():
            run([arguments.entresol, "trace", "generate", *options, "--out", str(path)])
        yield name, [str(path)]


def replay(arguments, trace, machine):
    flash, disk = MACHINES[machine]
    out = pathlib.Path(arguments.folder) / "policies.json"
    run([arguments.entresol, "simulate", "--trace", *trace, "--policy", "all", "--dram-percent", "1", "--flash-percent", arguments.sizes,
         "--flash-device", flash, "--disk-device", disk, "--json", str(out)])
    results = json.loads(out.read_text())
    return results["results"] if isinstance(results, dict) else results


def busiest(result):
    """Seconds of the busiest device for a reference."""
    return max(result["flash_utilisation"], result["disk_utilisation"]) * result["elapsed_s"] / result["references"]


def by_cell(results):
    cells = {}
    for result in results:
        size = min(SIZES, key=lambda size: abs(size - result["flash_percent"]))
        cells.setdefault(size, {})[result["policy"]] = result
    return cells


def counts(reached, policies):
    """Policies with the number of cells in which they reach both goals, the most first."""
    numbers = [(policy, sum(policy in those for those in reached.values())) for policy in policies]
    return sorted(numbers, key=lambda number: -number[1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder")
    arguments.add_argument("--entresol", default="target/release/entresol")
    arguments.add_argument("--traces", default="../shared/traces")
    arguments.add_argument("--sizes", default="2,4,8,16,32")
    arguments.add_argument("--machines", default=",".join(MACHINES))
    arguments.add_argument("--json")
    arguments = arguments.parse_args()
    global SIZES
    SIZES = [float(size) for size in arguments.sizes.split(",")]
    machines = arguments.machines.split(",")
    unknown = [machine for machine in machines if machine not in MACHINES]
    if unknown:
        arguments = f"unknown machine {unknown[0]}; there are {', '.join(MACHINES)}"
        sys.exit(arguments)
    everything, behind, slower, reached = {}, [], [], {}
    for name, trace in traces(arguments):
        for machine in machines:
            cells = by_cell(replay(arguments, trace, machine))
            everything[f"{name}/{machine}"] = cells
            print(f"\n{name}, {machine}: flash hits, %; thousands of pages written to flash; time of the busiest device, x face-gsc's")
            policies = list(next(iter(cells.values())))
            print("flash, %  " + "".join(f"{policy:>20}" for policy in policies))
            for size, cell in cells.items():
                gsc, best = busiest(cell["face-gsc"]), max(100 * result["flash_hit_rate"] for result in cell.values())
                texts = []
                for policy in policies:
                    result = cell[policy]
                    texts.append(f"{100 * result['flash_hit_rate']:.1f}; {result['flash_writes'] / 1000:.0f}; {busiest(result) / gsc:.2f}")
                print(f"{size:8g}  " + "".join(f"{text:>20}" for text in texts), flush=True)
                hits = [policy for policy in policies if best - 100 * cell[policy]["flash_hit_rate"] <= 1]
                reached[f"{name}, {machine}, {size:g} %"] = [policy for policy in hits if busiest(cell[policy]) / gsc <= 1.02]
                for policy in OURS:
                    missing, ratio = best - 100 * cell[policy]["flash_hit_rate"], busiest(cell[policy]) / gsc
                    if missing > 1:
                        behind.append((missing, policy, name, machine, size))
                    if ratio > 1.02:
                        slower.append((ratio, policy, name, machine, size))
    cells = sum(len(sizes) for sizes in everything.values())
    for policy in OURS:
        mine = sorted((row for row in behind if row[1] == policy), reverse=True)
        print(f"\n{policy}: more than a point below the best hit rate in {len(mine)} of {cells} cells")
        for missing, _, name, machine, size in mine:
            print(f"  {missing:4.1f} points: {name}, {machine}, {size:g} %")
        mine = sorted((row for row in slower if row[1] == policy), reverse=True)
        print(f"{policy}: over 1.02 of face-gsc's time in {len(mine)} of {cells} cells")
        for ratio, _, name, machine, size in mine:
            print(f"  {ratio:5.2f} x: {name}, {machine}, {size:g} %")
    print(f"\nboth goals, of {cells} cells: " + ", ".join(f"{policy} {count}" for policy, count in counts(reached, policies)))
    print(f"one of ours in {sum(any(policy in OURS for policy in those) for those in reached.values())}; no policy in:")
    for cell in (cell for cell, those in reached.items() if not those):
        print(f"  {cell}")
    print("others only in:")
    for cell, those in reached.items():
        if those and not any(policy in OURS for policy in those):
            print(f"  {cell}: {', '.join(those)}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(everything, indent=1))


main()
