#!/usr/bin/env python3
"""Every policy on every trace at hand: flash hits, pages written to flash, and the busiest device's time.

    benches/policies.py [--entresol target/release/entresol] [--traces ../shared/traces] [--sizes 2,4,8,16,32] [--json F] [--quick]

Needs a release build. Traces that are not there are left out and named. Three are generated: zipf, scans mixed with zipf, and a
working set that moves. DRAM is 1 % of the pages (`--dram-percent 1`), nothing is sampled, the first quarter is not left out.

Prints Markdown: for each trace and size the flash hits of each policy in per cent of DRAM's misses and thousands of pages written
to flash; by how many points `reuse` and `reuse-slots` miss the best; and, for each machine, the time of the busiest device (that with
the most service time, T_f or T_d) as a multiple of `face-gsc`'s.
"""
import argparse, json, pathlib, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
POLICIES = "face,face-gr,face-gsc,lc,tac,exadata,loc,glb,flashcache,lru,fifo,clock,s3-fifo,reuse,reuse-slots".split(",")
OURS = ("reuse", "reuse-slots")
MACHINES = [("mlc", "raid0-8"), ("slc", "raid0-8"), ("nvme", "sata-disk"), ("nvme", "cloud")]
CAPTURES = [
    ("PostgreSQL", "pg15_tpcc_w8.bin.zst", ["--until", "240"]),
    ("CloudPhysics", "cloudPhysicsIO.csv.zst", ["--whole-writes"]),
    ("web search", "mqsim_wsrch-small.trace.zst", []),
    ("LIRS ps", "lirs_ps.trace.gz", []),
]
GENERATED = [
    ("zipf", ["zipf", "--pages", "100000", "--references", "2000000"]),
    ("zipf, scans", ["zipf", "--pages", "100000", "--references", "2000000", "--scan-percent", "30", "--scan-pages", "20000",
                     "--seed", "2"]),
    ("moving", ["pareto", "--pages", "100000", "--references", "2000000", "--phases", "8", "--adjacent", "--seed", "3"]),
]


def simulate(entresol, trace, more, sizes, machine, policies, folder):
    out = pathlib.Path(folder) / "out.json"
    # What a trace is too small for is refused: then each policy and size on its own.
    def run(names, percents):
        command = [entresol, "simulate", "--trace", trace, *more, "--policy", ",".join(names), "--dram-percent", "1",
                   "--flash-percent", ",".join(percents), "--flash-device", machine[0], "--disk-device", machine[1],
                   "--json", out]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        return json.loads(out.read_text()) if done.returncode == 0 else None
    found = run(policies, sizes)
    if found is not None:
        return found
    each = [run([name], [percent]) for name in policies for percent in sizes]
    return [result for some in each if some for result in some]


def by_size(results, sizes):
    """(size, policy) -> result; sizes are those asked for, nearest to what came of them."""
    table = {}
    for result in results:
        size = min(sizes, key=lambda percent: abs(float(percent) - result["flash_percent"]))
        table[size, result["policy"]] = result
    return table


def hits(table, sizes, policies, name, lines):
    gaps = []
    for size in sizes:
        row = {policy: table.get((size, policy)) for policy in policies}
        known = {policy: result for policy, result in row.items() if result}
        if not known:
            continue
        cell = lambda r: f"{r['flash_hit_rate'] * 100:.1f}; {r['flash_writes'] / 1e3:,.0f}" if r else "–"
        lines.append(f"| {name}, {size} % | " + " | ".join(cell(row[policy]) for policy in policies) + " |")
        best = max(known, key=lambda policy: known[policy]["flash_hit_rate"])
        gap = {ours: (known[best]["flash_hit_rate"] - known[ours]["flash_hit_rate"]) * 100 for ours in OURS if ours in known}
        gaps.append((name, size, best, gap))
    return gaps


def busiest(table, sizes):
    """The busiest device's time of ours as a multiple of face-gsc's, at each size."""
    time = lambda result: max(result["tf_ms"], result["td_ms"])
    ratios = {}
    for size in sizes:
        gsc = table.get((size, "face-gsc"))
        for ours in OURS:
            result = table.get((size, ours))
            if gsc and result and time(gsc) > 0:
                ratios[ours, size] = time(result) / time(gsc)
    return ratios


def traces(arguments, folder):
    for name, file, more in CAPTURES:
        path = arguments.traces / file
        if path.exists():
            yield name, path, more
        else:
            print(f"{path} is not there: left out", file=sys.stderr)
    for name, made in GENERATED:
        path = pathlib.Path(folder) / f"{name.replace(', ', '-')}.etr"
        subprocess.run([arguments.entresol, "trace", "generate", *made, "--out", str(path)], check=True, capture_output=True)
        yield name, path, []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entresol", default=str(HERE / "target/release/entresol"))
    parser.add_argument("--traces", type=pathlib.Path, default=HERE.parent / "shared/traces")
    parser.add_argument("--sizes", default="2,4,8,16,32")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="two sizes, one machine")
    arguments = parser.parse_args()
    sizes = ["8", "32"] if arguments.quick else arguments.sizes.split(",")
    machines = MACHINES[:1] if arguments.quick else MACHINES
    lines, gaps, ratios, everything = [], [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, path, more in traces(arguments, folder):
            for at, machine in enumerate(machines):
                policies = POLICIES if at == 0 else ["face-gsc", *OURS]
                results = simulate(arguments.entresol, path, more, sizes, machine, policies, folder)
                everything += [dict(result, warm_up=[], relations=[], name=name) for result in results]
                table = by_size(results, sizes)
                if at == 0:
                    gaps += hits(table, sizes, POLICIES, name, lines)
                ratios[name, machine] = busiest(table, sizes)
    print("| trace, flash | " + " | ".join(f"`{policy}`" for policy in POLICIES) + " |")
    print("|" + "---|" * (len(POLICIES) + 1))
    print("\n".join(lines))
    print("\n| trace, flash | best | points that `reuse` has less | `reuse-slots` |\n|---|---|---|---|")
    for name, size, best, gap in gaps:
        shown = [f"{gap[ours]:.1f}" if ours in gap else "–" for ours in OURS]
        print(f"| {name}, {size} % | `{best}` | {shown[0]} | {shown[1]} |")
    print("\n| busiest device, × `face-gsc` | " + " | ".join(f"{size} %" for size in sizes) + " |\n|---|" + "---|" * len(sizes))
    for (name, machine), of_size in ratios.items():
        for ours in OURS:
            cells = [f"{of_size[ours, size]:.2f}" if (ours, size) in of_size else "–" for size in sizes]
            print(f"| {name}, {machine[0]} + {machine[1]}, `{ours}` | " + " | ".join(cells) + " |")
    if arguments.json:
        arguments.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
