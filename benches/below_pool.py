#!/usr/bin/env python3
"""Policies below a buffer pool: ours, and on request all of libcachesim's, on four captures and the misses of a workstation.

    benches/below_pool.py FOLDER [--captures FOLDER] [--entresol target/release/entresol] [--traces ../shared/traces] [--sizes 2,4,8,16]
                          [--libcachesim] [--rounds 3] [--slow 8] [--only LRU,LRB] [--markdown F]

Needs a release build. FOLDER takes what is measured (`results.json`: what is there is not measured again). Traces that are not there are
left out, and said:

  zipf, scans, index  `benches/pg_captures.py` makes them in the folder --captures (as FOLDER, if not given): PostgreSQL 18 below 16 MB
  TPC-C               PostgreSQL 15 below 64 MB, the first 240 s of the capture `pg15_tpcc_w8`
  workstation         `arc_P3` of ARC's authors below an LRU of half a per cent of its pages; only reads

Prints for each trace what each of our policies for pages hits (per cent of the reads), and the pages that it writes to flash; then how far
`reuse` and `reuse-slots` are from the best of ours.

With --libcachesim (Python with `venv`; the packages are installed as by benches/libcachesim.py), its policies follow on the same streams
at the same sizes. Both sides get the same requests of pages, reads and writes in one order. Two hit rates are counted:

  hits of reads     of the reads alone. A write is a request that cannot miss on a cache that takes whole pages, but it makes its page
                    recent, and may bring it in. Ours know reads from writes; libcachesim's policies take a write as a request of its page.
  hits of requests  of all requests: to ours all are reads here, as they are to libcachesim.

Pages written: libcachesim's caches bring each page in that misses, and each write changes a page that is there, so they write as many pages
as there are requests less the reads that hit. Time: nanoseconds of processor time a request at 8 %, the whole command `entresol simulate`
(devices modelled, too) and libcachesim from opening the file to its end; the median of --rounds (LRB: one), one thread; 0 leaves times out. To
libcachesim each request takes a second, as GL-Cache learns each 86,400 s.

--slow S: the sizes for LRB, which takes some 50 µs a request.
"""
import argparse, json, os, pathlib, resource, statistics, subprocess, sys, tempfile
from libcachesim import ensure_packages, theirs, write_oracle_general

HERE = pathlib.Path(__file__).resolve().parent.parent
BELOW = ["--stream", "below"]
TEXT = ["--columns", "offset,size,-,time", "--separator", "space", "--offset-unit", "sectors", "--size-unit", "sectors", "--time-unit", "ms"]
POLICIES = "lc,face,face-gr,face-gsc,tac,exadata,loc,glb,flashcache,lru,fifo,clock,s3-fifo,sieve,reuse,reuse-slots".split(",")
LEARNING = ("reuse", "reuse-slots")
TIMED = 8
READ, WRITE = 12, 13
# Name on the page: class and options. Left out: those that choose by size alone, as all sizes are one.
THEIRS = {
    "LRU": ("LRU", ""), "FIFO": ("FIFO", ""), "CLOCK": ("Clock", ""), "Random": ("Random", ""), "LFU": ("LFU", ""), "LRU-2": ("LRUK", ""),
    "ARC": ("ARC", ""), "LIRS": ("LIRS", ""), "2Q": ("TwoQ", ""), "SLRU": ("SLRU", ""), "MQ": ("MQ", ""), "LFUDA": ("LFUDA", ""),
    "GDSF": ("GDSF", ""), "Hyperbolic": ("Hyperbolic", ""), "LHD": ("LHD", ""), "LeCaR": ("LeCaR", ""), "Cacheus": ("Cacheus", ""),
    "CLOCK-Pro": ("ClockPro", ""), "Clock2Q+": ("Clock2QPlus", ""), "S3-FIFO": ("S3FIFO", ""), "SIEVE": ("Sieve", ""),
    "W-TinyLFU": ("WTinyLFU", ""), "LRU-Prob": ("LRUProb", ""), "FlashProb": ("FlashProb", ""), "3L-Cache": ("ThreeLCache", ""),
    "GL-Cache": ("GLCache", ""), "GL-Cache untrained": ("GLCache", ", retrain_intvl=1 << 30"), "LRB": ("LRB", ""), "Belady": ("Belady", ""),
}
SLOW = ("LRB",)
CHILD = """
import json, sys
import libcachesim as lcs, numpy
path, reads, name, pages, options = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
reads = numpy.fromfile(reads, dtype=bool)
cache = eval(f"lcs.{name}(cache_size={pages}{options})")
reader = lcs.TraceReader(path, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE)
hits = numpy.zeros(len(reads), dtype=bool)
for at, request in zip(range(len(reads)), reader):
    hits[at] = cache.get(request)
assert at + 1 == len(reads)
print(json.dumps([int(hits.sum()), int(hits[reads].sum())]))
"""


class Trace:
    """A trace: its file and options for `entresol`, DRAM above the cache, and where its records end, in seconds."""

    def __init__(self, path, read, dram=None, until=None):
        self.path, self.read, self.dram, self.until = path, read, dram, until

    def simulate(self):
        whole = ["--dram-percent", str(self.dram)] if self.dram else ["--dram-pages", "0", "--whole-writes"]
        return ["--trace", str(self.path), *self.read, *whole, *(["--until", str(self.until)] if self.until else [])]


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))[:300]}: {done.stderr.strip()[-2000:]}")
    return done.stdout


class Results:
    """What is measured, by trace, then by what."""

    def __init__(self, path):
        self.path = path
        self.all = json.loads(path.read_text()) if path.exists() else {}

    def of(self, trace, key, measure):
        there = self.all.setdefault(trace, {})
        if key not in there:
            there[key] = measure()
            self.path.write_text(json.dumps(self.all, indent=1))
        return there[key]


def traces(arguments):
    captures = pathlib.Path(arguments.captures or arguments.folder)
    shared = pathlib.Path(arguments.traces)
    for name in ("zipf", "scans", "index"):
        yield name, Trace(captures / f"pg-{name}.bin", BELOW)
    yield "TPC-C", Trace(shared / "pg15_tpcc_w8.bin.zst", BELOW, until=240)
    yield "workstation", Trace(shared / "arc_P3.lis.zst", TEXT, dram=0.5)


def hits_of_ours(arguments, trace):
    """By policy and size: hits of reads in per cent, pages written, pages of flash; and the requests below DRAM."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run([arguments.entresol, "simulate", *trace.simulate(), "--flash-percent", arguments.sizes, "--policy", ",".join(POLICIES),
             "--json", out.name])
        results = json.load(open(out.name))
    cells = {}
    for result in results:
        size = min(SIZES, key=lambda size: abs(size - result["flash_percent"]))
        below = round(result["references"] * (1 - result["dram_hit_rate"]))
        cells[f"{result['policy']} {size:g}"] = [100 * result["flash_hit_rate"], result["flash_writes"], result["flash_pages"], below]
    return cells


def print_ours(name, cells):
    rows = [["", *(f"{size:g} %" for size in SIZES)]]
    for policy in POLICIES:
        found = [cells[f"{policy} {size:g}"] for size in SIZES]
        rows.append([f"`{policy}`", *(f"{hits:.1f}; {written / 1000:,.0f}" for hits, written, *_ in found)])
    best = [max((cells[f"{policy} {size:g}"][0], policy) for policy in POLICIES) for size in SIZES]
    rows.append(["*best of ours*", *(f"{hits:.1f}, `{policy}`" for hits, policy in best)])
    for policy in LEARNING:
        behind = [hits - cells[f"{policy} {size:g}"][0] for size, (hits, _) in zip(SIZES, best)]
        rows.append([f"*points that `{policy}` has less*", *(f"{points:.1f}" for points in behind)])
    return f"**{name}**: hits of reads, %; pages written to flash, thousands.\n\n{table(rows)}"


def table(rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def prepare(arguments, trace, folder):
    """Files of the requests below DRAM for libcachesim: (requests, whether each reads, their number)."""
    import numpy
    record = numpy.dtype([("s", "<u4"), ("id", "<u8"), ("size", "<u4"), ("op", "u1"), ("space", "<u2"), ("next", "<i8")])
    converted = folder / "converted"
    run([arguments.entresol, "trace", "convert", trace.path, converted, *trace.read, "--to", "oraclegeneralopns"])
    records = numpy.fromfile(converted, dtype=record)
    converted.unlink()
    if trace.until:
        records = records[records["s"] < trace.until]
    pages, ids = numpy.unique(records["id"], return_inverse=True)
    reads = records["op"] == READ
    if (~reads).any() and (records["op"][~reads] != WRITE).any():
        sys.exit(f"{trace.path} has other operations than reads and writes")
    if trace.dram:
        missed = numpy.fromiter(misses_of_lru(ids.tolist(), round(len(pages) * trace.dram / 100)), dtype=bool)
        ids, reads = ids[missed], reads[missed]
    write_oracle_general(folder / "requests", ids.astype("u8") + 1, numpy.arange(len(ids)))
    reads.tofile(folder / "reads")
    return folder / "requests", folder / "reads", len(ids), int(reads.sum())


def misses_of_lru(ids, size):
    frames = {}
    for page in ids:
        hit = frames.pop(page, False)
        if not hit and len(frames) == size:
            del frames[next(iter(frames))]
        frames[page] = True
        yield not hit


def requests_of_ours(arguments, requests, policy, pages):
    """All requests as reads: hits in per cent, and seconds of processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        run([arguments.entresol, "simulate", "--trace", requests, "--format", "oraclegeneral", "--dram-pages", "0", "--flash-pages", pages,
             "--policy", policy, "--json", out.name])
        result = json.load(open(out.name))[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 100 * result["flash_hit_rate"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def hits_of_theirs(files, name, pages):
    """Hits of all requests, and of reads; nothing if the package cannot do it."""
    policy, options = THEIRS[name]
    done = subprocess.run([sys.executable, "-c", CHILD, files[0], files[1], policy, str(pages), options], capture_output=True, text=True,
                          cwd=files[0].parent)
    return json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else None


def rows_of_both(arguments, results, name, trace, cells, folder):
    """For each policy: (name, hits of reads by size, pages written, hits of requests, nanoseconds). None: not measured."""
    files = prepare(arguments, trace, folder)
    requests, reads = files[2:]
    pages = {size: cells[f"reuse {size:g}"][2] for size in SIZES}
    if cells["reuse 8"][3] != requests:
        sys.exit(f"{name}: {cells['reuse 8'][3]} requests to ours, {requests} to libcachesim")
    def nanoseconds(policy, measure):
        """A request's, by the median of the rounds of what measures seconds."""
        if arguments.rounds == 0:
            return None
        rounds = lambda: [measure() for _ in range(1 if policy in SLOW else arguments.rounds)]
        return statistics.median(results.of(name, f"seconds of {policy}", rounds)) / requests * 1e9

    for policy in POLICIES:
        hits = [cells[f"{policy} {size:g}"][0] for size in SIZES]
        measure = lambda: requests_of_ours(arguments, files[0], policy, pages[TIMED])
        in_requests = results.of(name, f"requests {policy}", lambda: measure()[0])
        yield f"`{policy}`", hits, cells[f"{policy} {TIMED}"][1], in_requests, nanoseconds(f"`{policy}`", lambda: measure()[1])
    for policy in THEIRS:
        if arguments.only and policy not in arguments.only.split(","):
            continue
        measured = [float(size) for size in arguments.slow.split(",")] if policy in SLOW else SIZES
        found = [results.of(name, f"theirs {policy} {size:g}", lambda: hits_of_theirs(files, policy, pages[size])) if size in measured else None
                 for size in SIZES]
        print(f"{name}: {policy} {found}", file=sys.stderr, flush=True)
        at = found[SIZES.index(TIMED)]
        if at is None:
            continue
        measure = lambda: theirs(files[0], THEIRS[policy][0], pages[TIMED], THEIRS[policy][1])
        yield (policy, [hits and 100 * hits[1] / reads for hits in found], requests - at[1], 100 * at[0] / requests,
               nanoseconds(policy, lambda: measure()[1]))


def print_both(name, rows):
    rows = sorted(rows, key=lambda row: -row[1][SIZES.index(TIMED)])
    head = ["policy", *(f"{size:g} %" for size in SIZES), f"pages written at {TIMED} %, thousands", f"hits of requests at {TIMED} %",
            "ns a request"]
    text = lambda value, form: "" if value is None else format(value, form)
    body = [[policy, *(text(hit, ".1f") for hit in hits), f"{written / 1000:,.0f}", f"{requests:.1f}", text(nanoseconds, ",.0f")]
            for policy, hits, written, requests, nanoseconds in rows]
    return f"**{name}**: hits of reads, %, by size.\n\n{table([head, *body])}"


def print_summary(both):
    """The best of each side, by trace and size."""
    rows = [["trace, flash", "best of ours", "`reuse`", "best of libcachesim", "second", "Belady"]]
    for name, found in both.items():
        for at, size in enumerate(SIZES):
            hits = {policy: found_hits[at] for policy, found_hits, *_ in found if found_hits[at] is not None}
            best = lambda whose: sorted(((hit, policy) for policy, hit in hits.items() if whose(policy)), reverse=True)
            ours, others = best(lambda policy: "`" in policy), best(lambda policy: "`" not in policy and policy != "Belady")
            cell = lambda pairs, at: f"{pairs[at][0]:.1f}, {pairs[at][1]}" if at < len(pairs) else ""
            rows.append([f"{name}, {size:g} %", cell(ours, 0), f"{hits['`reuse`']:.1f}", cell(others, 0), cell(others, 1),
                         f"{hits['Belady']:.1f}" if "Belady" in hits else ""])
    return f"Hits of reads, %.\n\n{table(rows)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--captures")
    parser.add_argument("--entresol", type=pathlib.Path, default=HERE / "target/release/entresol")
    parser.add_argument("--traces", default=HERE.parent / "shared/traces")
    parser.add_argument("--sizes", default="2,4,8,16")
    parser.add_argument("--libcachesim", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow", default="8")
    parser.add_argument("--only")
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    global SIZES
    SIZES = [float(size) for size in arguments.sizes.split(",")]
    if arguments.libcachesim and TIMED not in SIZES:
        sys.exit(f"--libcachesim needs the size {TIMED}")
    if not arguments.entresol.is_file():
        sys.exit(f"{arguments.entresol} is not there; build it with `cargo build --release`")
    folder = pathlib.Path(arguments.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.libcachesim:
        os.environ["OMP_NUM_THREADS"] = "1"
        ensure_packages(folder)
    results, parts, behind, both = Results(folder / "results.json"), [], [], {}

    def part(text):
        parts.append(text)
        print(text, flush=True)

    for name, trace in traces(arguments):
        if not trace.path.exists():
            print(f"left out: {name}, as {trace.path} does not exist\n", flush=True)
            continue
        cells = results.of(name, f"ours {arguments.sizes}", lambda: hits_of_ours(arguments, trace))
        part(print_ours(name, cells))
        for size in SIZES:
            best = max(cells[f"{policy} {size:g}"][0] for policy in POLICIES)
            behind += [(best - cells[f"{policy} {size:g}"][0], policy, f"{name}, {size:g} %") for policy in LEARNING]
        if arguments.libcachesim:
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                both[name] = list(rows_of_both(arguments, results, name, trace, cells, pathlib.Path(scratch)))
            part(print_both(name, both[name]))
    for policy in LEARNING:
        mine = sorted((row for row in behind if row[1] == policy), reverse=True)
        if mine:
            part(f"`{policy}` is within two points of the best of ours in {sum(row[0] <= 2 for row in mine)} of {len(mine)} cells; "
                 + f"the most are {mine[0][0]:.1f} ({mine[0][2]}).\n")
    if both:
        part(print_summary(both))
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(parts))


main()
