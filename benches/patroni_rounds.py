"""Switch-overs and failovers of three PostgreSQL nodes, each with its own flash, by Patroni and etcd, under load.

    python3 patroni_rounds.py BIN FOLDER [--rounds N] [--seed N] [--user UID:GID] [--json FILE]

BIN is the folder of the server's programs. Needed are etcd, and a Python that has patroni and psycopg. All listen on
loopback. synchronous_mode and synchronous_mode_strict are on, so no loss is Patroni's own. Writers give each of their
rows a number, and repeat it until it is acknowledged; pgbench makes pages dirty besides. After each round there are one
leader and two replicas that stream, and the leader has each row that was acknowledged.

Rounds by turns: a switch-over; the postmaster of the leader is killed; the leader is frozen, until another one leads; the
leader is killed with its flash, which is lost; the leader of etcd is killed. A leader whose postmaster was killed is
recovered by a single-user server, which Patroni runs before pg_rewind. Told for each kind: how often, acknowledged rows,
the longest time without an acknowledgement. Exit status 1: a row was lost, or the nodes did not come together.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import psycopg

NODES = 3
WRITERS = 3
KINDS = ["switch-over", "postmaster killed", "node frozen", "node and flash lost", "etcd leader killed"]
PATIENCE_S = 240
FLASH = "32MB"

CONFIG = """
scope: entresol
name: {name}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{hosts: '{etcd}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    primary_start_timeout: 0
    maximum_lag_on_failover: 1048576
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters:
        shared_preload_libraries: entresol
        wal_level: replica
        wal_keep_size: 1GB
        max_wal_senders: 10
        entresol.size: {flash_size}
        entresol.objects: 2048
        shared_buffers: 2MB
        checkpoint_timeout: 30s
  initdb: [data-checksums, {{auth: trust}}, {{encoding: UTF8}}]
  post_bootstrap: {post}
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: {data}
  bin_dir: {bin}
  pgpass: {folder}/pgpass
  use_unix_socket: false
  create_replica_methods: [anew]
  anew: {{command: {anew}}}
  remove_data_directory_on_rewind_failure: true
  remove_data_directory_on_diverged_timelines: true
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
  authentication:
    superuser: {{username: postgres, password: s}}
    replication: {{username: replicator, password: r}}
    rewind: {{username: rewinder, password: w}}
  parameters:
    entresol.flash: {flash}
    unix_socket_directories: {folder}
    fsync: 'off'
"""

POST = """#!/bin/sh
exec {bin}/psql -X -q -v ON_ERROR_STOP=1 -d "$1" \\
  -c "CREATE ROLE rewinder LOGIN" \\
  -c "GRANT EXECUTE ON FUNCTION pg_backup_start(text, boolean) TO rewinder" \\
  -c "CREATE TABLE written (writer int, number bigint, filler text, PRIMARY KEY (writer, number))" \\
  -c "CREATE EXTENSION entresol" -c "CREATE EXTENSION amcheck"
"""


# A new copy of the primary needs a flash that no other cluster needs: what was on it is of files that are gone.
ANEW = """#!/bin/sh
for argument in "$@"; do
  case "$argument" in
    --connstring=*) source=${{argument#--connstring=}} ;;
  esac
done
rm -f {flash}
exec {bin}/pg_basebackup -D {data} -d "$source" -X stream -c fast
"""


def free_ports(count):
    """Ports that are free now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Process:
    """A program in a session of its own, run as the user of the servers."""

    def __init__(self, command, log, user):
        self.command, self.log, self.user = command, log, user
        self.process = None
        self.start()

    def start(self):
        as_user = [] if self.user is None else ["setpriv", f"--reuid={self.user[0]}", f"--regid={self.user[1]}",
                                                "--clear-groups"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(as_user + self.command, stdout=log, stderr=log, start_new_session=True,
                                            stdin=subprocess.DEVNULL, env={**os.environ, "HOME": "/nonexistent"})

    def signal(self, number):
        try:
            os.kill(self.process.pid, number)
        except ProcessLookupError:
            pass

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait()


class Node:
    """A node of Patroni."""

    def __init__(self, cluster, number, port, rest):
        self.cluster, self.name, self.port, self.rest = cluster, f"node{number}", port, rest
        self.folder = os.path.join(cluster.folder, self.name)
        os.makedirs(self.folder)
        self.data, self.flash = os.path.join(self.folder, "data"), os.path.join(self.folder, "flash")
        post = os.path.join(self.folder, "post.sh")
        config = os.path.join(self.folder, "patroni.yml")
        anew = os.path.join(self.folder, "anew.sh")
        scripts = {post: POST.format(bin=cluster.bin),
                   anew: ANEW.format(bin=cluster.bin, flash=self.flash, data=self.data)}
        for path, text in scripts.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(name=self.name, rest=rest, port=port, etcd=cluster.etcd_hosts, data=self.data,
                                     bin=cluster.bin, folder=self.folder, flash=self.flash, post=post, anew=anew,
                                     flash_size=FLASH))
        cluster.own(self.folder)
        self.patroni = Process([sys.executable, "-m", "patroni", config],
                               os.path.join(cluster.folder, f"{self.name}.log"), cluster.user)

    def postmaster(self):
        """The postmaster's process, or None."""
        try:
            with open(os.path.join(self.data, "postmaster.pid"), encoding="utf-8") as file:
                return int(file.readline())
        except (OSError, ValueError):
            return None

    def processes(self):
        """All processes of the server."""
        postmaster = self.postmaster()
        if postmaster is None:
            return []
        said = subprocess.run(["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True, text=True,
                              check=False)
        return [postmaster] + [int(pid) for pid in said.stdout.split()]

    def signal_all(self, number):
        """Signals Patroni and the server."""
        self.patroni.signal(number)
        for pid in self.processes():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def is_over(self):
        """Waits until no process of the server is left."""
        until = time.monotonic() + 60
        pids = self.processes()
        while any(os.path.exists(f"/proc/{pid}") for pid in pids):
            if time.monotonic() > until:
                sys.exit(f"{self.name}: its processes do not end")
            time.sleep(0.05)


class Writer(threading.Thread):
    """Writes rows with the numbers 1, 2, 3 … and repeats each until it is acknowledged."""

    def __init__(self, cluster, number):
        super().__init__(daemon=True)
        self.cluster, self.number = cluster, number
        self.acknowledged, self.ends = 0, threading.Event()
        self.last, self.longest = time.monotonic(), 0.0

    def run(self):
        while not self.ends.is_set():
            try:
                with psycopg.connect(self.cluster.address(), autocommit=True, connect_timeout=2,
                                     options="-c statement_timeout=10s") as connection:
                    while not self.ends.is_set():
                        connection.execute("INSERT INTO written VALUES (%s, %s, repeat('x', 500)) "
                                           "ON CONFLICT DO NOTHING", (self.number, self.acknowledged + 1))
                        now = time.monotonic()
                        self.acknowledged += 1
                        self.longest, self.last = max(self.longest, now - self.last), now
            except psycopg.Error:
                time.sleep(0.05)

    def begin(self):
        """The longest gap of a round begins anew."""
        self.longest = 0.0


class Cluster:
    """Three nodes, three of etcd, and the load."""

    def __init__(self, arguments):
        self.bin, self.folder = os.path.abspath(arguments.bin), os.path.abspath(arguments.folder)
        self.user = None
        if arguments.user is not None:
            self.user = tuple(int(number) for number in arguments.user.split(":"))
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.own(self.folder)
        ports = free_ports(2 * NODES + 2 * NODES)
        self.etcd_clients = ports[:NODES]
        self.etcd_hosts = ",".join(f"127.0.0.1:{port}" for port in self.etcd_clients)
        self.peers, self.of_nodes = ports[NODES:2 * NODES], ports[2 * NODES:]
        self.etcds, self.nodes, self.writers, self.load = [], [], [], None

    def start(self):
        self.etcds = [self.start_etcd(at, self.peers) for at in range(NODES)]
        for number in range(NODES):
            self.nodes.append(Node(self, number + 1, self.of_nodes[number], self.of_nodes[NODES + number]))
            if number == 0:
                self.wait_for("the first node leads", lambda: self.leader() is not None)

    def own(self, path):
        if self.user is not None:
            for folder, _, files in os.walk(path):
                for name in [folder] + [os.path.join(folder, file) for file in files]:
                    os.chown(name, *self.user)

    def start_etcd(self, at, peers):
        client = f"http://127.0.0.1:{self.etcd_clients[at]}"
        peer = f"http://127.0.0.1:{peers[at]}"
        members = ",".join(f"etcd{n}=http://127.0.0.1:{port}" for n, port in enumerate(peers))
        command = ["etcd", "--name", f"etcd{at}", "--data-dir", os.path.join(self.folder, f"etcd{at}"),
                   "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                   "--initial-advertise-peer-urls", peer, "--initial-cluster", members,
                   "--heartbeat-interval", "200", "--election-timeout", "2000"]
        return Process(command, os.path.join(self.folder, f"etcd{at}.log"), self.user)

    def address(self):
        """A connection to the node that can be written."""
        hosts = ",".join(["127.0.0.1"] * len(self.nodes))
        ports = ",".join(str(node.port) for node in self.nodes)
        return f"host={hosts} port={ports} user=postgres dbname=postgres target_session_attrs=read-write"

    def members(self):
        """What Patroni says of the nodes, by their names."""
        for node in self.nodes:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{node.rest}/cluster", timeout=2) as answer:
                    return {member["name"]: member for member in json.load(answer)["members"]}
            except (OSError, ValueError, KeyError):
                continue
        return {}

    def leader(self):
        for name, member in self.members().items():
            if member["role"] == "leader" and member["state"] == "running":
                return next(node for node in self.nodes if node.name == name)
        return None

    def is_whole(self):
        """One leader, two replicas that stream, one of them synchronous."""
        members = list(self.members().values())
        roles = [member["role"] for member in members]
        streams = [member for member in members if member["state"] == "streaming"]
        return roles.count("leader") == 1 and len(streams) == NODES - 1 and "sync_standby" in roles

    def wait_for(self, what, is_so):
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > until:
                sys.exit(f"{PATIENCE_S} s have passed before {what}: {self.members()}; see {self.folder}")
            time.sleep(0.2)

    def start_load(self):
        subprocess.run([os.path.join(self.bin, "pgbench"), "-i", "-q", "-s", "5", self.address()], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.writers = [Writer(self, number) for number in range(WRITERS)]
        for writer in self.writers:
            writer.start()
        self.load = threading.Thread(target=self.keep_pgbench, daemon=True)
        self.load.start()

    def keep_pgbench(self):
        """pgbench ends with its server, and is started again."""
        while not self.writers[0].ends.is_set():
            subprocess.run([os.path.join(self.bin, "pgbench"), "-n", "-c", "2", "-T", "10", self.address()],
                           check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.2)

    def check(self):
        """Every row that was acknowledged is there. A leader that cannot reach etcd in time steps down, and is asked
        again when there is one."""
        acknowledged = [writer.acknowledged for writer in self.writers]
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.compare(acknowledged)
                return sum(acknowledged)
            except psycopg.Error as error:
                if time.monotonic() > until:
                    sys.exit(f"no leader has answered for {PATIENCE_S} s: {error}")
                time.sleep(0.5)

    def compare(self, acknowledged):
        with psycopg.connect(self.address(), autocommit=True, connect_timeout=5) as connection:
            for writer, number in enumerate(acknowledged):
                row = connection.execute("SELECT count(*) FROM written WHERE writer = %s AND number <= %s",
                                         (writer, number)).fetchone()
                if row[0] != number:
                    sys.exit(f"writer {writer}: {number} rows were acknowledged, {row[0]} are there")
            row = connection.execute("SELECT state, slots_dirty FROM entresol_stat").fetchone()
            if row[0] != "serving":
                sys.exit(f"the cache of the leader is {row[0]}")

    def disturb(self, kind, rng):
        """Returns when the nodes can be waited for."""
        leader = self.leader()
        if kind == "switch-over":
            self.switch_over(leader)
        elif kind == "postmaster killed":
            os.kill(leader.postmaster(), signal.SIGKILL)
            self.wait_for("another node leads", lambda: self.leader() not in (None, leader))
        elif kind == "node frozen":
            leader.signal_all(signal.SIGSTOP)
            self.wait_for("another node leads", lambda: self.leader_of_others(leader))
            leader.signal_all(signal.SIGCONT)
        elif kind == "node and flash lost":
            # The server first: else Patroni's end would leave a leader that runs on.
            pids = leader.processes()
            leader.patroni.kill()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            leader.is_over()
            os.remove(leader.flash)
            self.wait_for("another node leads", lambda: self.leader_of_others(leader))
            leader.patroni.start()
            self.wait_for("the node is made anew", lambda: self.is_made_anew(leader))
        else:
            victim = self.etcd_leader()
            victim.kill()
            time.sleep(rng.uniform(1, 8))
            victim.start()

    def switch_over(self, leader):
        """Patroni may have no healthy candidate for a moment."""
        body = json.dumps({"leader": leader.name}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{leader.rest}/switchover", data=body, method="POST")

        def is_done():
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return answer.status == 200
            except urllib.error.HTTPError:
                return self.leader() not in (None, leader)
        self.wait_for("the switch-over is done", is_done)

    def is_made_anew(self, node):
        """Asks for it, as `patronictl reinit` does: a node refuses to start without its flash."""
        body = json.dumps({"force": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{node.rest}/reinitialize", data=body, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def leader_of_others(self, frozen):
        """Whether a node other than this one leads, as the others say."""
        for node in self.nodes:
            if node is frozen:
                continue
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{node.rest}/leader", timeout=1) as answer:
                    if answer.status == 200:
                        return True
            except OSError:
                continue
        return False

    def etcd_leader(self):
        for at, etcd in enumerate(self.etcds):
            said = subprocess.run(["etcdctl", "--endpoints", f"127.0.0.1:{self.etcd_clients[at]}", "endpoint", "status",
                                   "-w", "json"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "ETCDCTL_API": "3"})
            try:
                status = json.loads(said.stdout)[0]["Status"]
            except (ValueError, IndexError, KeyError):
                continue
            if status["leader"] == status["header"]["member_id"]:
                return etcd
        sys.exit("etcd has no leader")

    def end(self):
        for writer in self.writers:
            writer.ends.set()
        for node in self.nodes:
            node.signal_all(signal.SIGCONT)
            node.patroni.signal(signal.SIGTERM)
        for node in self.nodes:
            try:
                node.patroni.process.wait(60)
            except subprocess.TimeoutExpired:
                node.patroni.kill()
            for pid in node.processes():
                try:
                    os.kill(pid, signal.SIGQUIT)
                except ProcessLookupError:
                    pass
        for etcd in self.etcds:
            etcd.kill()


def count_in_logs(cluster, text):
    """How often the nodes' logs have it."""
    found = 0
    for node in cluster.nodes:
        with open(node.patroni.log, encoding="utf-8", errors="replace") as log:
            found += sum(text in line for line in log)
    return found


def run(cluster, arguments):
    rng = random.Random(arguments.seed)
    cluster.wait_for("all nodes stream", cluster.is_whole)
    cluster.start_load()
    rows = []
    for number in range(arguments.rounds):
        kind = KINDS[number % len(KINDS)]
        time.sleep(rng.uniform(2, 4))
        before = cluster.check()
        for writer in cluster.writers:
            writer.begin()
        cluster.disturb(kind, rng)
        cluster.wait_for("all nodes stream", cluster.is_whole)
        time.sleep(1)
        acknowledged = cluster.check() - before
        gap = max(writer.longest for writer in cluster.writers)
        rows.append({"kind": kind, "acknowledged": acknowledged, "seconds_without_a_primary": gap})
        print(f"round {number + 1}: {kind}: {acknowledged} acknowledged, {gap:.1f} s without, none lost", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--user")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    cluster = Cluster(arguments)
    try:
        cluster.start()
        rows = run(cluster, arguments)
        total = cluster.check()
        single = count_in_logs(cluster, "the flash cache is drained when this server ends")
    finally:
        cluster.end()
    print("| round | times | acknowledged | seconds without a primary: median | longest |\n|---|---|---|---|---|")
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        if of_kind:
            gaps = [row["seconds_without_a_primary"] for row in of_kind]
            print(f"| {kind} | {len(of_kind)} | {sum(row['acknowledged'] for row in of_kind)} | "
                  f"{statistics.median(gaps):.1f} | {max(gaps):.1f} |")
    print(f"{len(rows)} rounds, {total} acknowledged rows, lost: 0; {single} recoveries by a single-user server")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"rounds": rows, "acknowledged": total, "single": single}, file, indent=1)


if __name__ == "__main__":
    main()
