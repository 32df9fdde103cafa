#!/usr/bin/env python3
"""The Python module on a long trace in a Parquet file, and beside libcachesim (PyPI): hits, references a second, memory.

    benches/python.py [--references 100000000] [--beside 20000000] [--folder F]

Needs the module `entresol`, numpy, pyarrow and libcachesim. Each measurement is a process of its own: its processor time,
and the most memory that it had. The pages are drawn from zipf(0.9) over a tenth as many pages as libcachesim's trace has
references, as in benches/libcachesim.py; both count the misses of the same references, at the same size, one level.
"""
import argparse, json, pathlib, subprocess, sys, tempfile

PAGES = 2_000_000


def draw(numpy, count, seed):
    shares = numpy.cumsum(1.0 / numpy.arange(1, PAGES + 1) ** 0.9)
    places = numpy.random.default_rng(1).permutation(PAGES).astype("u8")
    random = numpy.random.default_rng(seed)
    for begin in range(0, count, 4_000_000):
        some = random.random(min(4_000_000, count - begin)) * shares[-1]
        yield places[numpy.searchsorted(shares, some)] + 1


def generate(folder, references, beside):
    """Two files: Parquet for us, and for both a prefix as libcachesim reads it."""
    import numpy, pyarrow, pyarrow.parquet

    record = numpy.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    schema = pyarrow.schema([("page", pyarrow.uint64())])
    done = 0
    with pyarrow.parquet.ParquetWriter(folder / "t.parquet", schema, compression="zstd") as out, open(folder / "t.og", "wb") as og:
        for pages in draw(numpy, references, 2):
            out.write_table(pyarrow.table({"page": pages}))
            part = pages[: max(0, beside - done)]
            records = numpy.zeros(len(part), dtype=record)
            records["id"], records["size"], records["next"] = part, 1, -1
            records.tofile(og)
            done += len(pages)


MEASURES = {
    "read": "trace = entresol.read_trace({parquet!r}); count = len(trace); out = trace.unique_pages",
    "simulate": "trace = entresol.read_trace({parquet!r}); count = len(trace)\n"
    "out = entresol.simulate(trace, 'face-gsc', dram_percent=2, flash_percent=8)[0]['flash_hit_rate']",
    "ours": "trace = entresol.read_trace({og!r}, format='oraclegeneral'); count = len(trace)\n"
    "out = entresol.simulate(trace, {policy!r}, dram_pages={size}, clients=1)[0]['disk_reads']",
    "theirs": "reader = lcs.TraceReader({og!r}, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE); count = {beside}\n"
    "cache = lcs.{policy}(cache_size={size}); out = round(cache.process_trace(reader)[0] * count)",
}


def measure(what, **names):
    """(answer, references, processor seconds, bytes of memory at most)."""
    module = "import libcachesim as lcs" if what == "theirs" else "import entresol"
    script = (
        f"import json, resource, time\n{module}\nbegan = time.process_time()\n{MEASURES[what].format(**names)}\n"
        "took = time.process_time() - began\n"
        "print(json.dumps([out, count, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", type=int, default=100_000_000)
    parser.add_argument("--beside", type=int, default=20_000_000)
    parser.add_argument("--folder", type=pathlib.Path)
    arguments = parser.parse_args()
    beside = min(arguments.beside, arguments.references)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        folder = pathlib.Path(folder)
        generate(folder, arguments.references, beside)
        names = {"parquet": str(folder / "t.parquet"), "og": str(folder / "t.og"), "beside": beside, "size": PAGES // 10}
        print(f"Parquet: {(folder / 't.parquet').stat().st_size / 1e6:.0f} MB")
        for what in ("read", "simulate"):
            answer, count, took, memory = measure(what, **names)
            print(f"{what:9} {count:,} references: {took:.1f} s, {count / took / 1e6:.1f} million/s, {memory / 1e6:.0f} MB: {answer}")
        same = True
        for policy, name in (("LRU", "lru"), ("FIFO", "fifo"), ("Clock", "clock")):
            row = {}
            for what, asked in (("theirs", policy), ("ours", name)):
                row[what] = measure(what, policy=asked, **names)
            same &= row["theirs"][0] == row["ours"][0]
            shown = [f"{one[1] / one[2] / 1e6:.1f} million/s, {one[3] / 1e6:.0f} MB, {one[0]:,} misses" for one in row.values()]
            print(f"{name:6} libcachesim {shown[0]}; entresol {shown[1]}", flush=True)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
