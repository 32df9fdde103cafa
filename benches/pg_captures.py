#!/usr/bin/env python3
"""Captures of a PostgreSQL below its shared buffers, under three loads other than TPC-C.

    benches/pg_captures.py BIN FOLDER [--loads zipf,scans,index] [--seed 1] [--user nobody] [--scale 1.0]

BIN is the folder of the server's programs (`cargo xtask postgres build --version 18` prints it; a stock server does as well). FOLDER
takes the captures: `pg-LOAD.bin` with its side table `pg-LOAD.bin.pages`, in the format `postgresql` of docs/TRACES.md, and the names
of the relations. Read them with `--stream below`. strace, which must be installed, sees each read and write of a relation file.
Temporary files and the log are left out. Needs root.

  zipf   pgbench's tables at scale 40 (600 MB): accounts are looked up by random_zipfian, popular ones are anywhere; a fifth are
         updates with a row of history.
  scans  an analytic mix on 24 monthly partitions of sales (some 370 MB): reports on the last months, on the same quarter of two
         years, on popular months, on a group of products by index, and seldom on everything. Each round adds rows.
  index  a table of 1.2 million events with five indexes (some 390 MB): look-ups by a random key, the latest events of a user, counts of
         an item, inserts and deletes. Rows of a user are spread over the table.

All have 16 MB of shared buffers. One client runs a fixed number of transactions that are drawn from the seed. Checkpoints and vacuums
are between rounds, and no process of the server works by the clock. So the same seed asks for the same pages, except for some dozens
of the catalogs, as ANALYZE draws its samples itself. Times differ. `--scale` multiplies the transactions.
"""
import argparse, contextlib, os, pathlib, re, shutil, signal, struct, subprocess, sys, tempfile, threading, time

SETTINGS = """
shared_buffers = {buffers}
io_method = sync
bgwriter_lru_maxpages = 0
autovacuum = off
checkpoint_timeout = 1d
max_wal_size = 16GB
fsync = off
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
jit = off
listen_addresses = ''
unix_socket_directories = '{folder}'
"""

ZIPF = [
    (4, "\\set aid permute(random_zipfian(1, 4000000, 1.05), 4000000, 7)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"),
    (1, "\\set aid permute(random_zipfian(1, 4000000, 1.05), 4000000, 7)\n\\set delta random(-5000, 5000)\nBEGIN;\n"
        "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :aid, :delta, 'epoch');\nEND;\n"),
]

SCANS_TABLES = """
CREATE TABLE product (id int PRIMARY KEY, grp int, name text);
CREATE TABLE shop (id int PRIMARY KEY, region int, name text);
CREATE TABLE sale (month int, day int, product int, shop int, amount int, note text) PARTITION BY LIST (month);
INSERT INTO product SELECT i, i % 200, repeat('p', 60) FROM generate_series(1, 40000) i;
INSERT INTO shop SELECT i, i % 12, repeat('s', 80) FROM generate_series(1, 2000) i;
"""
# A month has some 2,100 pages.
SCANS_MONTH = """
CREATE TABLE sale_{m} PARTITION OF sale FOR VALUES IN ({m});
INSERT INTO sale SELECT {m}, i % 28, 1 + (hashint4(i) & 2147483647) % 40000, 1 + (hashint4(-i) & 2147483647) % 2000, i % 997,
    repeat('n', 20 + i % 60) FROM generate_series({m} * 150000 + 1, {m} * 150000 + 150000) i;
CREATE INDEX ON sale_{m} (product);
"""
SCANS = [
    # The last one to six months, by region.
    (8, "\\set last random_exponential(0, 5, 2.0)\nSELECT region, sum(amount) FROM sale JOIN shop ON shop.id = sale.shop\n"
        "    WHERE month BETWEEN 23 - :last AND 23 GROUP BY region;\n"),
    # The same quarter in two years.
    (2, "\\set quarter random(0, 3)\nSELECT month, count(*), avg(amount) FROM sale\n"
        "    WHERE month IN (3 * :quarter, 3 * :quarter + 1, 3 * :quarter + 2, 12 + 3 * :quarter, 13 + 3 * :quarter, 14 + 3 * :quarter)\n"
        "    GROUP BY month;\n"),
    # One month, popular ones more often.
    (6, "\\set month permute(random_zipfian(1, 24, 1.1), 24, 3)\nSELECT day, sum(amount) FROM sale WHERE month = :month - 1 GROUP BY day;\n"),
    # A group of products in a year, by the indexes.
    (6, "\\set group random_zipfian(1, 200, 1.2)\nSELECT product.id, sum(amount) FROM product JOIN sale ON sale.product = product.id\n"
        "    WHERE grp = :group - 1 AND product.id % 7 = 0 AND month >= 12 GROUP BY product.id;\n"),
    # Everything.
    (1, "SELECT month, sum(amount) FROM sale GROUP BY month;\n"),
]

INDEX_TABLES = """
CREATE TABLE event (id bigint, key text, usr int, item int, kind int, at int, body text);
INSERT INTO event SELECT i, md5(i::text), 1 + (hashint8(i) & 2147483647) % 50000, 1 + (hashint8(-i) & 2147483647) % 20000, i % 13, i,
    repeat('b', 40 + i % 120) FROM generate_series(1, 1200000) i;
ALTER TABLE event ADD PRIMARY KEY (id);
CREATE UNIQUE INDEX ON event (key);
CREATE INDEX ON event (usr, at);
CREATE INDEX ON event (item, at);
CREATE INDEX ON event (kind, at);
CREATE SEQUENCE next_event START 1200001;
"""
INDEX = [
    (4, "\\set i random(1, 1200000)\nSELECT body FROM event WHERE key = md5(:i::text);\n"),
    (5, "\\set u permute(random_zipfian(1, 50000, 1.03), 50000, 5)\n"
        "SELECT id, kind, body FROM event WHERE usr = :u ORDER BY at DESC LIMIT 10;\n"),
    (3, "\\set m permute(random_zipfian(1, 20000, 1.1), 20000, 11)\nSELECT count(*), max(at) FROM event WHERE item = :m;\n"),
    (4, "\\set u permute(random_zipfian(1, 50000, 1.03), 50000, 5)\n\\set m permute(random_zipfian(1, 20000, 1.1), 20000, 11)\n"
        "WITH n AS (SELECT nextval('next_event') AS i)\n"
        "INSERT INTO event SELECT i, md5(i::text), :u, :m, i % 13, i, repeat('b', 40 + (i % 120)::int) FROM n;\n"),
    (1, "\\set k random(0, 12)\nDELETE FROM event WHERE id IN (SELECT id FROM event WHERE kind = :k ORDER BY at LIMIT 4);\n"),
]


class Load:
    def __init__(self, buffers, fill, scripts, rounds, transactions, between):
        self.buffers, self.fill, self.scripts = buffers, fill, scripts
        self.rounds, self.transactions, self.between = rounds, transactions, between


LOADS = {
    "zipf": Load("16MB", ["PGBENCH 40"], ZIPF, 6, 80_000, ["VACUUM pgbench_history", "CHECKPOINT"]),
    "scans": Load("16MB", [SCANS_TABLES, *(SCANS_MONTH.format(m=m) for m in range(24)), "VACUUM ANALYZE"], SCANS, 6, 40, [
        "INSERT INTO sale SELECT 23, i % 28, 1 + (hashint4(i) & 2147483647) % 40000, 1 + i % 2000, i % 997, 'late' FROM generate_series(1, 5000) i",
        "CHECKPOINT"]),
    "index": Load("16MB", [INDEX_TABLES, "VACUUM ANALYZE"], INDEX, 6, 40_000, ["VACUUM event", "CHECKPOINT"]),
}

CALL = re.compile(r"^(\d+) (\d+)\.(\d+) (p(?:read|write)\w*)\(\d+<([^>]*)>.*, (\d+)(?:\) += (\d+)| <unfinished)")
RESUMED = re.compile(r"^(\d+) (\d+)\.(\d+) <\.\.\. (p\w+) resumed>.*\) += (\d+)")
FILE = re.compile(r"/(?:base/\d+|global)/(\d+)(_fsm|_vm|_init)?(?:\.(\d+))?$")
FORKS = {None: 0, "_fsm": 1, "_vm": 2, "_init": 3}
PAGE, SEGMENT = 8192, 131072


class Recorder:
    """Writes what strace says of relation files."""

    def __init__(self, out):
        self.out, self.numbers, self.began, self.counts, self.open = open(out, "wb"), {}, None, [0, 0], {}

    def line(self, line):
        call = CALL.match(line)
        if call:
            pid, seconds, fraction, name, path, offset, length = call.groups()
            if length is None:
                self.open[pid] = (name, path, offset)
                return
        else:
            resumed = RESUMED.match(line)
            if not resumed or resumed[1] not in self.open:
                return
            pid, seconds, fraction, _, length = resumed.groups()
            name, path, offset = self.open.pop(pid)
        file = FILE.search(path)
        if file:
            self.record(int(seconds) * 1_000_000 + int(fraction), "write" in name, file, int(offset), int(length))

    def record(self, now, is_write, file, offset, length):
        self.began = self.began or now
        relation, fork, first = int(file[1]), FORKS[file[2]], int(file[3] or 0) * SEGMENT + offset // PAGE
        for block in range(first, first + length // PAGE):
            page = self.numbers.setdefault((relation, fork, block), len(self.numbers))
            self.out.write(struct.pack("<IBI", max(0, now - self.began) & 0xffffffff, 3 if is_write else 2, page))
            self.counts[is_write] += 1

    def close(self, side):
        self.out.close()
        with open(side, "wb") as file:
            for relation, fork, block in self.numbers:
                file.write(struct.pack("<IBI", relation, fork, block))


def as_user(user, command):
    return ["setpriv", "--reuid", user, "--clear-groups", "env", f"HOME={tempfile.gettempdir()}", *map(str, command)]


def capture(name, load, arguments):
    out = pathlib.Path(arguments.folder).resolve() / f"pg-{name}.bin"
    programs = pathlib.Path(arguments.bin).resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="entresol-capture-"))
    shutil.chown(work, arguments.user)
    data, said = work / "data", (work / "log").open("wb")

    def run(*command, **options):
        done = subprocess.run(as_user(arguments.user, command), cwd=work, capture_output=True, text=True, **options)
        if done.returncode:
            sys.exit(f"{' '.join(map(str, command))[:200]}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def psql(statements):
        return run(programs / "psql", "-h", work, "-U", "postgres", "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", "-", input=statements)

    run(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--no-data-checksums", "--locale=C")
    with (data / "postgresql.conf").open("a") as file:
        file.write(SETTINGS.format(buffers=load.buffers, folder=work))
    recorder = Recorder(out)

    @contextlib.contextmanager
    def server(before):
        """A server, with this command in front, for as long as the block lasts."""
        running = subprocess.Popen(before + as_user(arguments.user, [programs / "postgres", "-D", data]), stdout=said, stderr=said, cwd=work)
        try:
            while subprocess.run([programs / "pg_isready", "-q", "-h", work], check=False).returncode:
                if running.poll() is not None:
                    sys.exit(f"the server did not start: {(work / 'log').read_text()[-2000:]}")
                time.sleep(0.1)
            yield
        finally:
            if running.poll() is None:
                os.kill(int((data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGINT)
            running.wait()

    with server([]):
        for part in load.fill:
            if part.startswith("PGBENCH"):
                run(programs / "pgbench", "-h", work, "-U", "postgres", "-d", "postgres", "-i", "-q", "-s", part.split()[1])
            else:
                psql(part + ";")
        names = psql("SELECT relfilenode, relname FROM pg_class WHERE relfilenode > 0 ORDER BY 1;")
        version = psql("SHOW server_version;").strip()
    scripts = []
    for number, (weight, text) in enumerate(load.scripts):
        script = work / f"{number}.sql"
        script.write_text(text)
        scripts += ["-f", f"{script}@{weight}"]
    pipe = work / "calls"
    os.mkfifo(pipe)

    def listen():
        with pipe.open(errors="replace") as calls:
            for line in calls:
                recorder.line(line)

    listener = threading.Thread(target=listen)
    listener.start()
    strace = ["strace", "-f", "--seccomp-bpf", "-y", "-s", "0", "-ttt", "-e", "trace=pread64,preadv,pwrite64,pwritev", "-e", "signal=none"]
    transactions = str(max(1, int(load.transactions * arguments.scale)))
    with server([*strace, "-o", str(pipe)]):
        for number in range(load.rounds):
            run(programs / "pgbench", "-h", work, "-U", "postgres", "-d", "postgres", "-n", "-M", "prepared", "-c", "1", "-t", transactions,
                f"--random-seed={arguments.seed * 1000 + number}", *scripts)
            for statement in load.between:
                psql(statement + ";")
    listener.join()
    recorder.close(f"{out}.pages")
    rows = (line.split("|") for line in names.splitlines())
    pathlib.Path(f"{out}.relations.toml").write_text("[relations]\n" + "".join(f'{number} = "{relation}"\n' for number, relation in rows))
    shutil.rmtree(work)
    reads, writes = recorder.counts
    print(f"{out.name}: PostgreSQL {version}, {reads:,} pages read, {writes:,} written, {len(recorder.numbers):,} unique", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--user", default="nobody")
    parser.add_argument("--scale", type=float, default=1)
    arguments = parser.parse_args()
    unknown = [name for name in arguments.loads.split(",") if name not in LOADS]
    if unknown:
        sys.exit(f"unknown load {unknown[0]}; there are {', '.join(LOADS)}")
    if not shutil.which("strace"):
        sys.exit("strace missing")
    pathlib.Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    for name in arguments.loads.split(","):
        capture(name, LOADS[name], arguments)


main()
