"""Random changes of a volume that is served, under a verified load, with kills of the server and of the commands.

    python3 block_changes.py ENTRESOL FOLDER [--changes N] [--seed N] [--json FILE]

Clients write pages whose bytes say their number and version, and read them: each read must give the last version
that was acknowledged, or one whose write was under way when the server was killed. Each change is a resize of the
flash, its exchange for another file, another mode or policy, growth of the disk, or a drain that is cancelled. Told
for each kind: how long it took, the longest request meanwhile, and which part of the hits is left right after it.
Exit status 1: a byte was wrong, or a server or a command refused to go on.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import nbd

import block_faults
from block_faults import CLIENTS, PAGE

USED_PAGES = 4000
DISK_BYTES, DISK_BYTES_MAX = 24 << 20, 64 << 20
FLASH_BYTES_MIN, FLASH_BYTES_MAX = 10 << 20, 32 << 20
POLICIES = {
    "write-back": ["face", "face-gr", "face-gsc", "reuse"],
    "write-through": ["face-gsc", "reuse", "lru", "lc", "sce"],
}
# One change of so many is cut off by a kill of the command, or of the server.
KILL_ONE_OF = 6
WINDOW_SECONDS = 0.25


class Client(block_faults.Client):
    """Reads and writes hot pages most of the time. A server that is gone is waited for."""

    def __init__(self, uri, number, seed):
        super().__init__(uri, number, seed)
        self.pages = range(number, USED_PAGES, CLIENTS)
        self.may_be = {page: {0} for page in self.pages}
        self.longest, self.handle = 0.0, None

    def connect(self):
        while not self.ends.is_set():
            try:
                super().connect()
                return
            except nbd.Error:
                time.sleep(0.02)

    def run(self):
        self.connect()
        while not self.ends.is_set():
            kind = self.rng.choices("rwf", (60, 37, 3))[0]
            page = self.pages[int(len(self.pages) * self.rng.random() ** 3)]
            begun = time.monotonic()
            try:
                self.carry_out(kind, page)
                self.longest = max(self.longest, time.monotonic() - begun)
                self.done += 1
            except nbd.Error as error:
                if self.handle.aio_is_ready():
                    self.failed.append((kind, page, str(error)))
                else:
                    self.connect()


class Volume:
    def __init__(self, entresol, folder, seed):
        self.entresol, self.folder, self.rng = entresol, folder, random.Random(seed)
        os.makedirs(folder)
        self.mode, self.policy, self.disk_bytes, self.flashes = "write-back", "face-gsc", DISK_BYTES, 1
        self.config = self.path("v.toml")
        self.make("disk", DISK_BYTES)
        self.make("flash1", 16 << 20)
        self.uri = f"nbd+unix:///v?socket={self.path('v.sock')}"
        self.run("volume", "create", self.config, "--disk", self.path("disk"), "--flash", self.path("flash1"),
                 "--mode", self.mode, "--policy", self.policy)
        self.serve()

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, size):
        with open(self.path(name), "wb") as image:
            image.truncate(size)

    def run(self, *arguments):
        done = subprocess.run([self.entresol, *arguments], capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return done.stdout

    def serve(self):
        self.log = open(self.path("log"), "ab")
        self.server = subprocess.Popen([self.entresol, "serve", self.config], stdout=self.log, stderr=self.log)
        end = time.monotonic() + 60
        while True:
            try:
                handle = nbd.NBD()
                handle.connect_uri(self.uri)
                return
            except nbd.Error:
                if self.server.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"no server: {open(self.path('log')).read()[-700:]}") from None
                time.sleep(0.02)

    def kill_server(self):
        self.server.kill()
        self.server.wait()
        self.serve()

    def status(self):
        return json.loads(self.run("volume", "status", self.config, "--json"))

    def change(self):
        """A kind of change, and its command."""
        kind = self.rng.choice(["larger", "smaller", "exchange", "mode", "policy", "drain", "growth"])
        size = os.path.getsize(self.flash())
        if kind in ("larger", "smaller"):
            least, most = (size, FLASH_BYTES_MAX) if kind == "larger" else (FLASH_BYTES_MIN, size)
            return kind, ["resize", self.config, "--flash-size", str(self.rng.randint(least, most) // PAGE * PAGE)]
        if kind == "exchange":
            self.flashes += 1
            name = f"flash{self.flashes}"
            self.make(name, self.rng.randint(FLASH_BYTES_MIN, FLASH_BYTES_MAX) // PAGE * PAGE)
            return kind, ["replace-flash", self.config, self.path(name)]
        text = open(self.config).read()
        mode = next(mode for mode in POLICIES if f'mode = "{mode}"' in text)
        other = "write-through" if mode == "write-back" else "write-back"
        has_other = any(f'policy = "{policy}"' in text for policy in POLICIES[other] + ["face-gsc", "sce"])
        if kind == "mode" and has_other:
            return kind, ["set", self.config, "mode", other]
        if kind in ("mode", "policy"):
            kind = "policy"
            return kind, ["set", self.config, "policy", self.rng.choice(POLICIES[mode])]
        if kind == "growth":
            self.disk_bytes = min(self.disk_bytes + self.rng.randint(1, 99) * 512, DISK_BYTES_MAX)
            os.truncate(self.path("disk"), self.disk_bytes)
            return kind, ["resize", self.config]
        return kind, ["drain", self.config]

    def flash(self):
        lines = open(self.config).read().splitlines()
        named = {name: json.loads(value) for name, value in
                 (line.split(" = ", 1) for line in lines if line.startswith(("flash = ", "flash_next = ")))}
        both = [named["flash"], named.get("flash_next", named["flash"])]
        return next(path for path in both if os.path.exists(path))

    def settle(self):
        """Ends an exchange that was cut off, and removes the files that are not in use."""
        text = open(self.config).read()
        if "flash_next" in text:
            line = next(line for line in text.splitlines() if line.startswith("flash_next"))
            self.run("volume", "replace-flash", self.config, json.loads(line.split(" = ", 1)[1]))
        in_use = self.flash()
        for name in os.listdir(self.folder):
            if name.startswith("flash") and self.path(name) != in_use:
                os.unlink(self.path(name))


def hits(volume, seconds):
    """The share of reads that the cache has served in that time."""
    def counts():
        status = volume.status()
        return status["flash_hits"] + status["staging_hits"], status["disk_reads"]
    (cached, disk), _ = counts(), time.sleep(seconds)
    cached_then, disk_then = counts()
    # A cache that began anew counts from 0.
    cached, disk = (cached_then - cached, disk_then - disk) if cached_then >= cached else (cached_then, disk_then)
    return cached / max(cached + disk, 1)


def one_change(volume, clients, found):
    kind, command = volume.change()
    before = hits(volume, WINDOW_SECONDS)
    for client in clients:
        client.longest = 0.0
    begun = time.monotonic()
    process = subprocess.Popen([volume.entresol, "volume", *command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    cut = volume.rng.random() < 1 / KILL_ONE_OF
    if cut or kind == "drain":
        time.sleep(volume.rng.random() * 0.1)
    what = kind
    if cut and volume.rng.random() < 0.5:
        what = "kill of the server"
        volume.kill_server()
    elif cut:
        what = "kill of the command"
        process.kill()
    elif kind == "drain":
        process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=300)[1]
    if not cut and kind != "drain" and process.returncode not in (0, None):
        found["refused"].append(f"{command}: {told.strip()}")
    seconds = time.monotonic() - begun
    longest = max(client.longest for client in clients)
    if cut:
        volume.settle()
    else:
        after = hits(volume, WINDOW_SECONDS)
        found["kept"].setdefault(what, []).append(after / before if before else 1.0)
        volume.settle()
    found["seconds"].setdefault(what, []).append(seconds)
    found["longest"].setdefault(what, []).append(longest)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("entresol")
    arguments.add_argument("folder")
    arguments.add_argument("--changes", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--json", help="the results, to this file")
    arguments = arguments.parse_args()
    volume = Volume(arguments.entresol, arguments.folder, arguments.seed)
    clients = [Client(volume.uri, number, arguments.seed) for number in range(CLIENTS)]
    found = {"kept": {}, "seconds": {}, "longest": {}, "refused": []}
    error = None
    try:
        for client in clients:
            client.start()
        time.sleep(1)
        for number in range(arguments.changes):
            one_change(volume, clients, found)
            if any(client.wrong or client.failed for client in clients):
                break
            if number % 50 == 49:
                print(f"{number + 1} changes, {sum(client.done for client in clients)} requests", flush=True)
    except Exception as what:
        error = str(what)
    for client in clients:
        client.ends.set()
    for client in clients:
        client.join(60)
    wrong = [one for client in clients for one in client.wrong]
    failed = [one for client in clients for one in client.failed]
    if error is None:
        for client in clients:
            client.ends.clear()
            client.connect()
            if unreadable := client.check_all():
                error = f"{unreadable} pages cannot be read in the end"
        wrong = [one for client in clients for one in client.wrong]
    if volume.server.poll() is None:
        volume.server.terminate()
        volume.server.wait(60)
    print(f"{'change':22}{'times':>6}{'median':>10}{'longest request':>18}{'hits kept':>11}")
    for kind, seconds in sorted(found["seconds"].items()):
        kept = found["kept"].get(kind)
        print(f"{kind:22}{len(seconds):6}{statistics.median(seconds):8.2f} s{max(found['longest'][kind]):16.2f} s"
              f"{'' if kept is None else f'{statistics.median(kept):11.2f}'}")
    print(f"{sum(client.done for client in clients)} requests, {len(wrong)} wrong, {len(failed)} failed, "
          f"{len(found['refused'])} changes refused")
    for one in wrong[:5] + failed[:5] + found["refused"][:5] + ([error] if error else []):
        print(f"  {one}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"seed": arguments.seed, "wrong": len(wrong), "failed": len(failed), **found}, file, indent=1)
    sys.exit(bool(wrong or failed or error or found["refused"]))


if __name__ == "__main__":
    main()
