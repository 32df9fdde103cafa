"""Power failures of PostgreSQL with a flash cache: files, log and flash on three disks with volatile caches.

    python3 pg_power.py BIN FOLDER [--lives N] [--seed N] [--user UID:GID] [--policy NAME] [--set NAME=VALUE] ...

BIN is the folder of the server's programs. Needed are /dev/fuse, libfuse3-dev, a C++ compiler, and a Python that has
psycopg. power/disks.cpp is the file system with the disks, and says what a power failure leaves.

A life begins with a start of the server, in which power may fail, too, and with a check; then there is load until
power fails, or all processes are killed. The load: writers of rows with versions under btree, hash, GIN and GiST
indexes; pgbench; and all that moves files: VACUUM FULL, CLUSTER, REINDEX, TRUNCATE, tablespaces, databases made and
dropped, relations kept out and evicted, budgets of writes, drains. Nothing is acknowledged after a power failure.

With --lose-flash the flash is destroyed before some starts, where the cluster's log replaces it (--set
entresol.flash_loss=survive --set entresol.wal_keep_size=64MB).

The check: each acknowledged transaction is there, and each one in flight is there as a whole or not at all, by a
sequential scan and by an index; what the versions say of the other columns; the other indexes against a scan;
pgbench's sums and history; pg_amcheck with heapallindexed, gin_index_check where there is one, pg_visibility.

SIGTERM ends it after the present life. Exit status 1: a check failed, or the server did not start. FOLDER then has
its log, and `broken`, a copy of the disks.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import psycopg

WRITERS = 3
KEYS = 300
HERE = os.path.dirname(os.path.abspath(__file__))

SETTINGS = """
shared_preload_libraries = '{modules}'
entresol.flash = '{flash}'
entresol.size = {size}
entresol.objects = 512
entresol.policy = '{policy}'
shared_buffers = 2MB
max_wal_size = 24MB
min_wal_size = 4MB
checkpoint_timeout = 30s
autovacuum_naptime = 1s
restart_after_crash = off
max_prepared_transactions = 5
listen_addresses = ''
unix_socket_directories = '{folder}'
log_checkpoints = on
bgwriter_delay = 20ms
"""

SCHEMA = """
CREATE EXTENSION entresol;
CREATE EXTENSION amcheck;
CREATE EXTENSION pg_visibility;
CREATE TABLE rows (writer int, key int, version bigint, hashed text, body text, words int[], place point,
                   PRIMARY KEY (writer, key));
CREATE INDEX rows_hash ON rows USING hash (hashed);
CREATE INDEX rows_gin ON rows USING gin (words);
CREATE INDEX rows_gist ON rows USING gist (place);
CREATE FUNCTION hashed(w int, k int, v bigint) RETURNS text IMMUTABLE LANGUAGE sql AS
    $$ SELECT md5(w || ':' || k || ':' || v) $$;
CREATE TABLE truncated (generation bigint, i int);
CREATE INDEX ON truncated (i);
CREATE TABLE moved AS SELECT i, repeat(md5(i::text), 10) AS filler FROM generate_series(1, 2000) i;
CREATE INDEX moved_i ON moved (i);
"""

MOVED = "(2000,2001000)"

UPSERT = """
INSERT INTO rows VALUES (%(w)s, %(k)s, %(v)s, hashed(%(w)s, %(k)s, %(v)s),
    repeat(hashed(%(w)s, %(k)s, %(v)s), 1 + ((%(v)s::int + %(k)s) %% 40)::int), ARRAY[(%(v)s %% 97)::int, 1000 + %(k)s],
    point(%(v)s %% 1000, %(k)s))
ON CONFLICT (writer, key) DO UPDATE SET version = excluded.version, hashed = excluded.hashed, body = excluded.body,
    words = excluded.words, place = excluded.place
"""

WRONG = """
SELECT count(*) FROM rows r WHERE hashed <> hashed(writer, key, version)
    OR body <> repeat(hashed(writer, key, version), 1 + ((version + key) % 40)::int)
    OR words <> ARRAY[(version % 97)::int, 1000 + key] OR NOT place ~= point(version % 1000, key)
"""

PLANS = (
    "SET enable_seqscan = {}; SET enable_indexscan = {}; SET enable_bitmapscan = {}; SET enable_indexonlyscan = {}"
)
SCAN, INDEX = PLANS.format("on", "off", "off", "off"), PLANS.format("off", "on", "on", "on")

# What is counted by a scan, and by an index.
COUNTED = ["words @> ARRAY[{n}]", "words @> ARRAY[{m}]", "place <@ box '(0,0),({n}0,300)'"]


class Disks:
    """The file system."""

    def __init__(self, folder, at):
        program = os.path.join(folder, "disks")
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "fuse3"], check=True, capture_output=True, text=True
        )
        subprocess.run(
            ["g++", "-std=c++20", "-O2", "-o", program, os.path.join(HERE, "power/disks.cpp"), *flags.stdout.split()],
            check=True,
        )
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            [program, at], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.say("count")

    def say(self, command):
        with self.lock:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip()

    def failed(self):
        return self.say("count").split()[1] == "1"


class Broken(Exception):
    """A check failed."""


class Writer(threading.Thread):
    """Commits changes of its rows."""

    def __init__(self, power, number):
        super().__init__(daemon=True)
        self.power, self.number, self.random = power, number, random.Random(power.random.random())

    def run(self):
        power, number = self.power, self.number
        try:
            with psycopg.connect(power.address(), autocommit=True) as connection:
                while not power.ends.is_set():
                    try:
                        self.transaction(connection)
                    except psycopg.Error as error:
                        # Before its end, as in a deadlock.
                        if connection.broken or power.pending[number] or power.prepared[number]:
                            raise
                        power.note(error)
                        connection.execute("ROLLBACK")
        except psycopg.Error as error:
            power.note(error)

    def transaction(self, connection):
        power, number, choose = self.power, self.number, self.random
        changes = {}
        connection.execute("BEGIN")
        for _ in range(choose.randint(1, 6)):
            if choose.random() < 0.1:
                connection.execute("SAVEPOINT s")
                self.change(connection, {}, choose.randrange(KEYS))
                connection.execute("ROLLBACK TO s")
            self.change(connection, changes, choose.randrange(KEYS))
        if choose.random() < 0.1:
            connection.execute("ROLLBACK")
            return
        prepared = choose.random() < 0.05
        if prepared:
            power.prepared[number] = changes
            connection.execute(f"PREPARE TRANSACTION 'w{number}'")
            connection.execute(f"COMMIT PREPARED 'w{number}'")
            power.prepared[number] = None
        else:
            power.pending[number] = changes
            connection.execute("COMMIT")
        power.acknowledge(number, changes)

    def change(self, connection, changes, key):
        power, number = self.power, self.number
        if self.random.random() < 0.15:
            connection.execute("DELETE FROM rows WHERE writer = %s AND key = %s", (number, key))
            changes[key] = None
        else:
            power.versions[number] += 1
            version = power.versions[number]
            connection.execute(UPSERT, {"w": number, "k": key, "v": version})
            changes[key] = version


class Mover(threading.Thread):
    """Does what moves files."""

    def __init__(self, power):
        super().__init__(daemon=True)
        self.power, self.random = power, random.Random(power.random.random())

    def run(self):
        power = self.power
        try:
            with psycopg.connect(power.address(), autocommit=True) as connection:
                while not power.ends.is_set():
                    try:
                        self.move(connection)
                    except psycopg.Error as error:
                        power.note(error)
                        if connection.broken:
                            return
                    time.sleep(self.random.random() * 0.3)
        except psycopg.Error as error:
            power.note(error)

    def move(self, connection):
        power, choose = self.power, self.random
        what = choose.choice(["statement"] * 6 + ["truncate"] * 2 + ["database"] * 2 + ["budget", "space"])
        power.moves[what] += 1
        if what == "statement":
            connection.execute(
                choose.choice(
                    [
                        "VACUUM FULL rows",
                        "VACUUM FULL pgbench_branches",
                        "CLUSTER moved USING moved_i",
                        "VACUUM rows",
                        "REINDEX INDEX rows_gin",
                        "REINDEX INDEX rows_hash",
                        "REINDEX TABLE CONCURRENTLY moved",
                        "CHECKPOINT",
                        "SELECT entresol_evict('rows')",
                        "SELECT entresol_keep_out('rows', true)",
                        "VACUUM FREEZE moved",
                        "SELECT entresol_keep_out('rows', false)",
                        "SELECT entresol_keep_out('pgbench_accounts', true)",
                        "SELECT entresol_keep_out('pgbench_accounts', false)",
                        "SELECT entresol_drain()",
                        "VACUUM FULL moved",
                        "SELECT entresol_prewarm()",
                        "SELECT count(*) FROM pgbench_accounts",
                        "SELECT count(*) FROM rows",
                    ]
                )
            )
        elif what == "truncate":
            power.generation[1] = max(power.generation) + 1
            with connection.transaction():
                connection.execute("TRUNCATE truncated")
                connection.execute("INSERT INTO truncated SELECT %s, generate_series(1, 700)", (power.generation[1],))
            power.generation[0] = power.generation[1]
        elif what == "database":
            if power.database == "there":
                power.database = "maybe"
                if choose.random() < 0.5:
                    space = choose.choice(["elsewhere", "pg_default"])
                    connection.execute(f"ALTER DATABASE made SET TABLESPACE {space}")
                    power.database = "there"
                else:
                    connection.execute("DROP DATABASE made")
                    power.database = "gone"
            elif power.database == "gone":
                power.database = "maybe"
                how = choose.choice(["file_copy", "wal_log"])
                connection.execute(f"CREATE DATABASE made TEMPLATE pattern STRATEGY {how}")
                power.database = "there"
        elif what == "budget":
            budget = choose.choice(["unlimited", "1G", "100G"])
            connection.execute(f"ALTER SYSTEM SET entresol.writes_per_day = '{budget}'")
            connection.execute("SELECT pg_reload_conf()")
        else:
            space = choose.choice(["elsewhere", "pg_default"])
            connection.execute(f"ALTER {choose.choice(['TABLE moved', 'INDEX rows_gist'])} SET TABLESPACE {space}")


class Power:
    """A cluster on the three disks, and what it has acknowledged."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.bin, self.folder = os.path.abspath(arguments.bin), os.path.abspath(arguments.folder)
        self.user = tuple(int(number) for number in arguments.user.split(":")) if arguments.user else None
        self.random = random.Random(arguments.seed)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.mount = os.path.join(self.folder, "disks-of-the-machine")
        os.makedirs(self.mount)
        self.own(self.folder)
        self.disks = Disks(self.folder, self.mount)
        for disk in ("data", "log", "flash"):
            os.mkdir(os.path.join(self.mount, disk))
            self.own(os.path.join(self.mount, disk))
        self.data = os.path.join(self.mount, "data/pg")
        self.log = os.path.join(self.folder, "server.log")
        self.postmaster = None
        self.ends, self.is_over = threading.Event(), threading.Event()
        self.acked = [{} for _ in range(WRITERS)]
        self.pending = [None] * WRITERS
        self.prepared = [None] * WRITERS
        self.versions = [0] * WRITERS
        self.generation = [0, 0]
        self.database = "gone"
        self.history = 0
        self.counts = collections.Counter()
        self.moves = collections.Counter()
        self.errors = collections.Counter()
        self.lock = threading.Lock()

    def own(self, path):
        if self.user:
            os.chown(path, *self.user)

    def address(self, database="postgres"):
        return f"host={self.folder} user=postgres dbname={database}"

    def command(self, program, *words):
        as_user = (
            ["setpriv", f"--reuid={self.user[0]}", f"--regid={self.user[1]}", "--clear-groups"] if self.user else []
        )
        return as_user + [os.path.join(self.bin, program), *words]

    def note(self, error):
        with self.lock:
            self.errors[str(error).strip().splitlines()[0][:110] if str(error).strip() else type(error).__name__] += 1

    def acknowledge(self, number, changes):
        for key, version in changes.items():
            if version is None:
                self.acked[number].pop(key, None)
            else:
                self.acked[number][key] = version
        self.pending[number] = None
        self.counts["acknowledged"] += 1

    def set_up(self):
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        subprocess.run(
            self.command(
                "initdb",
                "-D",
                self.data,
                "-X",
                os.path.join(self.mount, "log/wal"),
                "-U",
                "postgres",
                "-A",
                "trust",
                "-k",
                "--wal-segsize=1",
                "--no-sync",
                "-E",
                "UTF8",
                "--no-locale",
            ),
            **quiet,
        )
        modules = "entresol, hooktrace" if self.arguments.oracles else "entresol"
        settings = SETTINGS.format(
            flash=os.path.join(self.mount, "flash/flash"),
            policy=self.arguments.policy,
            size=self.arguments.size,
            folder=self.folder,
            modules=modules,
        )
        settings += "".join(f"{name} = '{value}'\n" for name, value in (s.split("=", 1) for s in self.arguments.set))
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write(settings)
        space = os.path.join(self.mount, "data/space")
        os.mkdir(space)
        self.own(space)
        if not self.start():
            raise Broken("the first start")
        with psycopg.connect(self.address(), autocommit=True) as connection:
            for statement in SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"CREATE TABLESPACE elsewhere LOCATION '{space}'")
            connection.execute("CREATE DATABASE pattern")
        with psycopg.connect(self.address("pattern"), autocommit=True) as connection:
            connection.execute("CREATE TABLE copied AS SELECT generate_series(1, 5000) i")
            connection.execute("CREATE INDEX ON copied (i)")
        subprocess.run(
            self.command("pgbench", "-i", "-q", "-s", str(self.arguments.scale), self.address()),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.disks.say("settle")
        if self.arguments.lie:
            self.disks.say(f"lie {self.arguments.lie}")

    def said(self, since):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            log.seek(since)
            return log.read()

    def start(self, in_redo=None):
        """False: power has failed before the server was ready. It fails `in_redo` operations after redo began."""
        since = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, "ab") as log:
            self.postmaster = subprocess.Popen(
                self.command("postgres", "-D", self.data),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=self.folder,
            )
        until = time.monotonic() + 120
        while True:
            try:
                psycopg.connect(self.address(), connect_timeout=5).close()
                return True
            except psycopg.Error as error:
                said = error
            if in_redo and "redo starts at" in self.said(since):
                self.disks.say(f"arm {in_redo}")
                in_redo = None
            has_ended = self.postmaster.poll() is not None
            if self.disks.failed():
                redo = self.said(since)
                self.counts["power failures in redo"] += "redo starts at" in redo and "redo done at" not in redo
                return False
            if has_ended:
                raise Broken("the server did not start")
            if time.monotonic() > until:
                raise Broken(f"the server is not ready after 120 s: {said}")
            time.sleep(0.01)

    def kill(self):
        """All processes of the server, which has its folder as theirs."""
        while True:
            pids = [self.postmaster.pid] if self.postmaster.poll() is None else []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    if os.readlink(f"/proc/{pid}/cwd") == self.data:
                        pids.append(int(pid))
                except OSError:
                    pass
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)

    def lose(self):
        self.disks.say("fail")
        self.kill()
        said = self.disks.say(f"lose {self.random.getrandbits(60)}").split()
        for name, number in zip(said[::2], said[1::2]):
            self.counts[f"pieces {name}" if name in ("kept", "lost", "torn") else f"names {name}"] += int(number)
        self.disks.say("on")
        self.counts["power failures"] += 1

    def lose_flash(self):
        """The flash is destroyed, if the cluster says that its log replaces it; its owner says that it is lost."""
        horizon = os.path.join(self.data, "entresol/horizon")
        flash = os.path.join(self.mount, "flash/flash")
        try:
            with open(horizon, encoding="utf-8") as file:
                said = file.read()
        except FileNotFoundError:
            return
        if "\npromised " not in said or "\nchecksum " not in said:
            self.counts["no horizon"] += 1
            return
        with open(flash, "r+b") as file:
            if self.random.random() < 0.5:
                file.truncate(0)
            else:
                size = os.path.getsize(flash)
                for at in range(0, size, 1 << 20):
                    file.seek(at)
                    file.write(bytes(min(1 << 20, size - at)))
            os.fsync(file.fileno())
        signal_file = os.path.join(self.data, "flash_lost.signal")
        with open(signal_file, "w", encoding="utf-8") as file:
            os.fsync(file.fileno())
        self.own(signal_file)
        folder = os.open(self.data, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self.counts["flashes lost"] += 1

    def life(self):
        while True:
            if self.random.random() < self.arguments.lose_flash:
                self.lose_flash()
            how, in_redo = self.random.random(), None
            if how < 0.15:
                self.disks.say(f"arm {int(2 ** self.random.uniform(3, 13))}")
            elif how < 0.5:
                in_redo = int(2 ** self.random.uniform(0, 9))
            if self.start(in_redo):
                break
            self.lose()
            self.counts["power failures before the server was ready"] += 1
        # Power may fail in the check, too: then there is another one.
        try:
            self.check()
        except (psycopg.Error, Broken):
            if not self.disks.failed():
                raise
            self.lose()
            return
        self.disks.say("arm 0")
        if self.disks.failed():
            self.lose()
            return
        self.load()

    def load(self):
        self.ends.clear()
        threads = [Writer(self, number) for number in range(WRITERS)] + [Mover(self)]
        is_kill = self.random.random() < 0.15
        if not is_kill:
            self.disks.say(f"arm {int(2 ** self.random.uniform(9, 16))}")
        until = time.monotonic() + (self.random.random() * 4 if is_kill else 6)
        pgbench = subprocess.Popen(
            self.command("pgbench", "-n", "-c", "3", "-T", "3600", self.address()),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for thread in threads:
            thread.start()
        while time.monotonic() < until and not self.disks.failed():
            if self.postmaster.poll() is not None and not self.disks.failed():
                raise Broken("the server has ended")
            time.sleep(0.02)
        if is_kill:
            self.kill()
            self.counts["kills"] += 1
        else:
            self.lose()
        self.ends.set()
        for thread in threads:
            thread.join(60)
        said = pgbench.communicate(timeout=60)[0]
        for line in said.splitlines():
            if line.startswith("number of transactions actually processed: "):
                self.history += int(line.split(": ")[1].split("/")[0])

    def check(self):
        """Everything that was acknowledged is there."""
        with psycopg.connect(self.address(), autocommit=True) as connection:
            self.check_rows(connection)
            for statement in (SCAN, INDEX):
                connection.execute(statement)
                if wrong := connection.execute(WRONG).fetchone()[0]:
                    raise Broken(f"{wrong} rows have the columns of another version")
                said = connection.execute(
                    "SELECT min(generation), max(generation), count(*), sum(i) FROM truncated " "WHERE i >= 0"
                ).fetchone()
                low, high, count, total = said
                if self.generation[0] or count:
                    if low != high or low not in self.generation or (count, total) != (700, 245350):
                        raise Broken(f"the truncated table has {said}, and should have one of {self.generation}")
                if (
                    said := connection.execute("SELECT (count(*), sum(i))::text FROM moved WHERE i > 0").fetchone()[0]
                ) != MOVED:
                    raise Broken(f"the moved table has {said}")
            # A transaction in flight may have committed.
            seen = connection.execute("SELECT max(generation) FROM truncated").fetchone()[0] or 0
            self.generation = [seen, seen]
            for condition in COUNTED:
                n = self.random.randrange(1, 97)
                condition = condition.format(n=n, m=1000 + self.random.randrange(KEYS))
                self.same(connection, f"SELECT count(*), sum(version) FROM rows WHERE {condition}")
            hashed = connection.execute("SELECT hashed FROM rows ORDER BY version LIMIT 20").fetchall()
            for (value,) in hashed:
                self.same(connection, f"SELECT count(*), sum(version) FROM rows WHERE hashed = '{value}'")
            sums = connection.execute(
                "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM "
                "pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches), (SELECT "
                "coalesce(sum(delta), 0) FROM pgbench_history)"
            ).fetchone()
            if len(set(sums)) != 1:
                raise Broken(f"pgbench's sums differ: {sums}")
            history = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()[0]
            if history < self.history:
                raise Broken(f"pgbench has {history} transactions, and {self.history} were acknowledged")
            self.history = history
            self.check_database(connection)
            if self.random.random() < 0.5:
                self.check_structures(connection)
            stat = connection.execute("SELECT damaged_clean, slots_dirty FROM entresol_stat").fetchone()
            self.counts["damaged_clean"] += stat[0]
        self.counts["checks"] += 1

    def check_rows(self, connection):
        for (name,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            number = int(name[1:])
            changes = self.prepared[number]
            if changes is None:
                raise Broken(f"the prepared transaction {name} is there again")
            connection.execute(f"COMMIT PREPARED '{name}'")
            self.acknowledge(number, changes)
            self.prepared[number] = None
        seen = []
        for statement in (SCAN, INDEX):
            connection.execute(statement)
            rows = [{} for _ in range(WRITERS)]
            for writer, key, version in connection.execute(
                "SELECT writer, key, version FROM rows WHERE key >= 0 AND " "writer >= 0"
            ).fetchall():
                if key in rows[writer]:
                    raise Broken(f"writer {writer} has the key {key} twice")
                rows[writer][key] = version
            seen.append(rows)
        if seen[0] != seen[1]:
            raise Broken("a scan and an index have other rows")
        for number in range(WRITERS):
            possible = [self.acked[number]]
            # A prepared one that is not there any more has committed, or was never prepared.
            for changes in (self.pending[number], self.prepared[number]):
                if changes:
                    after = {**self.acked[number], **changes}
                    possible.append({key: version for key, version in after.items() if version is not None})
            if seen[0][number] not in possible:
                differ = [
                    (key, self.acked[number].get(key), seen[0][number].get(key))
                    for key in range(KEYS)
                    if self.acked[number].get(key) != seen[0][number].get(key)
                ]
                raise Broken(
                    f"writer {number}: (key, acknowledged, there): {differ}; in flight: {self.pending[number]}, "
                    f"{self.prepared[number]}"
                )
            self.acked[number] = seen[0][number]
            self.pending[number] = self.prepared[number] = None

    def same(self, connection, query):
        said = []
        for statement in (SCAN, INDEX):
            connection.execute(statement)
            said.append(connection.execute(query).fetchone())
        if said[0] != said[1]:
            raise Broken(f"a scan gives {said[0]} and an index {said[1]}: {query}")

    def check_database(self, connection):
        there = connection.execute("SELECT datconnlimit FROM pg_database WHERE datname = 'made'").fetchone()
        if self.database != "maybe" and bool(there) != (self.database == "there"):
            raise Broken(f"the database is {there}, and was {self.database}")
        # A drop that was cut off leaves a database that takes no sessions.
        if there and there[0] == -2:
            connection.execute("DROP DATABASE made")
            there = None
        self.database = "there" if there else "gone"
        for name in ("pattern", "made") if there else ("pattern",):
            with psycopg.connect(self.address(name), autocommit=True) as copy:
                for statement in (SCAN, INDEX):
                    copy.execute(statement)
                    if (said := copy.execute("SELECT count(*), sum(i) FROM copied WHERE i > 0").fetchone()) != (
                        5000,
                        12502500,
                    ):
                        raise Broken(f"the database {name} has {said}")

    def check_structures(self, connection):
        said = subprocess.run(
            self.command(
                "pg_amcheck", "--all", "--heapallindexed", "-h", self.folder, "-U", "postgres", "--install-missing"
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        if said.returncode:
            raise Broken(f"pg_amcheck: {said.stdout} {said.stderr}")
        gin = connection.execute("SELECT count(*) FROM pg_proc WHERE proname = 'gin_index_check'").fetchone()[0]
        if gin:
            connection.execute("SELECT gin_index_check('rows_gin')")
        bad = connection.execute(
            "SELECT count(*) FROM (VALUES ('rows'), ('moved'), ('truncated'), ('pgbench_accounts'), "
            "('pgbench_tellers'), ('pgbench_history')) t (name), LATERAL (SELECT pg_check_visible(name) "
            "UNION ALL SELECT pg_check_frozen(name)) c"
        ).fetchone()[0]
        if bad:
            raise Broken(f"the visibility map is wrong of {bad} rows")
        self.counts["structures checked"] += 1

    def report(self):
        return {
            "seed": self.arguments.seed,
            "policy": self.arguments.policy,
            "set": self.arguments.set,
            **self.counts,
            "pgbench": self.history,
            "moves": dict(self.moves),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--user", help="UID:GID of the server, if the caller is root")
    parser.add_argument("--policy", default="face-gsc")
    parser.add_argument("--size", default="24MB", help="of the flash")
    parser.add_argument("--scale", type=int, default=2, help="of pgbench")
    parser.add_argument(
        "--lose-flash",
        type=float,
        default=0,
        metavar="PART",
        help="in this part of the starts the flash is destroyed, and its log replaces it",
    )
    parser.add_argument("--set", action="append", default=[], help="more of postgresql.conf")
    parser.add_argument("--oracles", action="store_true", help="with the module hooktrace")
    parser.add_argument("--lie", metavar="DISK", help="syncs of this disk do nothing, which must be noticed")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    power = Power(arguments)
    signal.signal(signal.SIGTERM, lambda *_: power.is_over.set())
    began, number = time.monotonic(), 0
    try:
        power.set_up()
        power.lose()
        for number in range(1, arguments.lives + 1):
            power.life()
            counts = power.counts
            print(
                f"life {number}: {time.monotonic() - began:.0f} s, {counts['power failures']} power failures "
                f"({counts['power failures in redo']} in redo), {counts['acknowledged']} acknowledged, "
                f"{power.history} of pgbench",
                flush=True,
            )
            if power.is_over.is_set():
                break
        while not power.start():
            power.lose()
        power.check()
    except (Broken, psycopg.Error) as error:
        print(f"life {number}: {type(error).__name__}: {error}", flush=True)
        power.kill()
        power.disks.say("on")
        subprocess.run(["cp", "-a", power.mount, os.path.join(power.folder, "broken")], check=False)
        print(json.dumps(power.report()))
        power.disks.process.stdin.close()
        sys.exit(1)
    power.kill()
    power.disks.process.stdin.close()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(power.report(), file, indent=1)
    for error, times in power.errors.most_common(12):
        print(f"    {times} times: {error}")
    print(json.dumps(power.report()))
    print(f"{number} lives, none lost")


if __name__ == "__main__":
    main()
