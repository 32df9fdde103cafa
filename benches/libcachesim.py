#!/usr/bin/env python3
"""Entresol's single-level simulation beside libCacheSim's C core: the same requests, the same misses, requests a CPU-second.

    benches/libcachesim.py [--entresol target/release/entresol] [--traces ../shared/traces] [--json F] [--rounds 3]

Needs a release build, and Python with `venv`; installs libcachesim, numpy and zstandard into an environment of its own in a
temporary folder, unless they are there. Both read the same uncompressed oracleGeneral file, one thread each, in turn:

  pg     the R stream of the PostgreSQL capture (page references above the buffer pool) at 8,000 pages
  zipf   20 million references, zipf(0.9) over 2 million pages, at 200,000 pages (10 %)

Like is compared with like, reading included on both sides: the whole `entresol simulate`, from the start of the process to
its end (start, reading, renumbering pages, replay, results), and libCacheSim from opening the reader to the end of
`process_trace`, which reads the mapped file as it goes (Python's own start and its imports are not counted). The replay alone
(the trace in memory, renumbered: what each further run over the same trace costs) stands beside that; libCacheSim has no such
figure, since it reads the file again each time.

User and system time of processors, in turn, so that both meet the same disturbance; the ratio is the median of the rounds'
ratios. Exit status 1 if misses differ.
"""
import argparse, importlib.metadata, json, os, pathlib, resource, statistics, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
CAPTURE = "pg15_tpcc_w8.bin.zst"
VERSION = "0.3.5"


def ensure_packages(folder):
    # By their records: this file has the package's name, and would be imported in its place.
    try:
        if importlib.metadata.version("libcachesim") == VERSION and all(map(importlib.metadata.version, ("numpy", "zstandard"))):
            return
    except importlib.metadata.PackageNotFoundError:
        pass
    if os.environ.get("ENTRESOL_BENCH_VENV"):
        sys.exit(f"libcachesim {VERSION}, numpy and zstandard could not be installed")
    home = pathlib.Path(folder) / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    subprocess.run([home / "bin/pip", "install", "-q", f"libcachesim=={VERSION}", "numpy", "zstandard"], check=True)
    done = subprocess.run([home / "bin/python", *sys.argv], env={**os.environ, "ENTRESOL_BENCH_VENV": str(home)})
    sys.exit(done.returncode)


def write_oracle_general(path, ids, seconds=None):
    """A file of requests of objects of size 1. Times are `seconds`, else a million requests are in a second."""
    import numpy
    record = numpy.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    records = numpy.zeros(len(ids), dtype=record)
    records["time"] = numpy.arange(len(ids)) // 1_000_000 if seconds is None else seconds
    records["id"] = ids
    records["size"] = 1
    # The number of the next request of the same object, from 1; -1: none. Only an optimal policy reads it.
    records["next"] = -1
    by_id = numpy.argsort(records["id"], kind="stable")
    again = records["id"][by_id][1:] == records["id"][by_id][:-1]
    records["next"][by_id[:-1][again]] = by_id[1:][again] + 1
    records.tofile(path)


def capture(path, out):
    """The pages of the capture's R records (op 0)."""
    import numpy, zstandard
    with open(path, "rb") as file:
        raw = zstandard.ZstdDecompressor().stream_reader(file).read()
    records = numpy.frombuffer(raw, dtype=numpy.dtype([("us", "<u4"), ("op", "u1"), ("page", "<u4")]))
    # From 1: an id of 0 is special to some readers.
    write_oracle_general(out, records["page"][records["op"] == 0].astype("u8") + 1)


def zipf(out, requests=20_000_000, pages=2_000_000, skew=0.9, seed=1):
    import numpy
    rng = numpy.random.default_rng(seed)
    shares = numpy.cumsum(1.0 / numpy.arange(1, pages + 1) ** skew)
    ranks = numpy.searchsorted(shares, rng.random(requests) * shares[-1])
    # Popularity has nothing to do with the page's number.
    write_oracle_general(out, rng.permutation(pages)[ranks].astype("u8") + 1)


def theirs(path, policy, pages, options=""):
    """In a process of its own: (miss ratio, seconds from opening the reader to the end)."""
    script = (
        "import libcachesim as lcs, time, json, sys\n"
        "began = time.process_time()\n"
        f"reader = lcs.TraceReader({str(path)!r}, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE)\n"
        f"cache = lcs.{policy}(cache_size={pages}{options})\n"
        "ratio, _ = cache.process_trace(reader)\n"
        "print(json.dumps([ratio, time.process_time() - began]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(entresol, path, policy, pages, out):
    """(misses, requests, seconds of the replay alone, seconds of the whole command)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = ["simulate", "--trace", path, "--format", "oraclegeneral", "--policy", policy, "--clients", "1"]
    subprocess.run(
        [entresol, *map(str, arguments), "--dram-pages", str(pages), "--json", str(out)],
        check=True, stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    result = json.loads(out.read_text())[0]
    misses = result["disk_reads"]
    return misses, result["references"], result["references"] / result["records_per_second"], whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entresol", type=pathlib.Path, default=HERE / "target/release/entresol")
    parser.add_argument("--traces", type=pathlib.Path, default=HERE.parent / "shared/traces")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not arguments.entresol.is_file():
        sys.exit(f"{arguments.entresol} is not there; build it with `cargo build --release`")
    with tempfile.TemporaryDirectory(prefix="entresol-bench-") as folder:
        ensure_packages(folder)
        folder = pathlib.Path(folder)
        problems = []
        if (arguments.traces / CAPTURE).is_file():
            capture(arguments.traces / CAPTURE, folder / "pg")
            problems.append(("pg", folder / "pg", 8_000))
        else:
            print(f"{arguments.traces / CAPTURE} is not there: skipped", file=sys.stderr)
        zipf(folder / "zipf")
        problems.append(("zipf", folder / "zipf", 200_000))
        rows, same = [], True
        print("million requests a second of processor time, reading included but for the replay alone")
        print(f"{'':14}{'misses':>12}{'libCacheSim':>14}{'simulate':>12}{'×':>7}{'(rounds)':>14}{'replay alone':>15}")
        for name, path, pages in problems:
            for policy, ours_name in (("LRU", "lru"), ("FIFO", "fifo"), ("Clock", "clock")):
                their_seconds, our_seconds, replay_seconds = [], [], []
                for _ in range(arguments.rounds):
                    ratio, seconds = theirs(path, policy, pages)
                    their_seconds.append(seconds)
                    misses, requests, replay, whole = ours(arguments.entresol, path, ours_name, pages, folder / "out.json")
                    our_seconds.append(whole)
                    replay_seconds.append(replay)
                agrees = round(ratio * requests) == misses
                same &= agrees
                ratios = sorted(theirs / ours for theirs, ours in zip(their_seconds, our_seconds))
                per = lambda seconds: requests / statistics.median(seconds) / 1e6
                row = {
                    "problem": name, "policy": ours_name, "pages": pages, "requests": requests, "misses": misses,
                    "misses_libcachesim": round(ratio * requests), "libcachesim_m_per_s": per(their_seconds),
                    "simulate_m_per_s": per(our_seconds), "replay_alone_m_per_s": per(replay_seconds), "ratios": ratios,
                }
                rows.append(row)
                print(f"{name:6}{ours_name:8}{misses:12,}{per(their_seconds):14.1f}{per(our_seconds):12.1f}"
                      f"{statistics.median(ratios):7.1f}{f'{ratios[0]:.1f} to {ratios[-1]:.1f}':>14}{per(replay_seconds):15.1f}"
                      f"{'' if agrees else '   MISSES DIFFER: ' + str(round(ratio * requests))}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
