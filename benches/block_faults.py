"""Faults of the devices below a volume, and what its clients notice: each fault, each cache, under load and idle.

    python3 block_faults.py ENTRESOL FOLDER [--only WORD] [--json FILE]

The faulty device is a file behind `block_fault_device.py`, nbdkit and nbdfuse. Clients write pages whose bytes say
their number and version, and read them: each read must give the last version, or one whose write has failed since. A
cell passes if no byte is wrong, no request fails that has nothing to do with the fault, and two seconds after the
fault none fails any more. Exit status 1: some cell has not passed.
"""

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time

import nbd

PAGE = 4096
DISK_BYTES, FLASH_BYTES = 64 << 20, 24 << 20
USED_PAGES = 6000
CLIENTS = 2
CACHES = [
    ("write-back", "face-gsc"),
    ("write-back", "reuse"),
    ("write-through", "face-gsc"),
    ("write-through", "reuse"),
    ("write-through", "sce"),
    ("write-through", "lc"),
]
# The device, what fails there, whether it ends, and which requests (read, write, flush) may fail for it, by mode.
FAULTS = {
    "disk refuses writes, 2 s": ("disk", "pwrite EIO", True, {"write-back": "", "write-through": "w"}),
    "disk is full, 2 s": ("disk", "pwrite ENOSPC", True, {"write-back": "", "write-through": "w"}),
    "disk has a bad range": ("disk", f"pwrite EIO {8 << 20} 65536", False, {"write-back": "", "write-through": "w"}),
    "syncs of the disk fail, 2 s": ("disk", "flush EIO", True, {"write-back": "wf", "write-through": "wf"}),
    "flash gives nothing back, 2 s": ("flash", "pread EIO", True, {"write-back": "rw", "write-through": ""}),
    "flash refuses writes": ("flash", "pwrite EIO", False, {"write-back": "", "write-through": ""}),
    "syncs of the flash fail": ("flash", "flush EIO", False, {"write-back": "", "write-through": ""}),
    "a dirty page is damaged": ("flash", "damage", False, {"write-back": "rw", "write-through": ""}),
}
FAULT_SECONDS, BEFORE_SECONDS, AFTER_SECONDS, NORMAL_SECONDS = 2.0, 2.0, 4.0, 2.0


def content(page, version):
    return struct.pack("<QQ", page, version) * (PAGE // 16)


class Client(threading.Thread):
    """Reads and writes pages of its own, until it is told to stop."""

    def __init__(self, uri, number, seed):
        super().__init__(daemon=True)
        self.uri, self.rng = uri, random.Random(seed * 10 + number)
        self.pages = range(number, USED_PAGES, CLIENTS)
        self.may_be = {page: {0} for page in self.pages}
        self.version, self.failed, self.wrong, self.done = 0, [], [], 0
        self.rests, self.ends = threading.Event(), threading.Event()

    def connect(self):
        self.handle = nbd.NBD()
        self.handle.connect_uri(self.uri)

    def carry_out(self, kind, page):
        if kind == "f":
            self.handle.flush()
        elif kind == "w":
            self.version += 1
            self.may_be[page].add(self.version)
            self.handle.pwrite(content(page, self.version), page * PAGE)
            self.may_be[page] = {self.version}
        else:
            found = bytes(self.handle.pread(PAGE, page * PAGE))
            number, version = struct.unpack("<QQ", found[:16])
            is_blank = found == bytes(PAGE) and 0 in self.may_be[page]
            if not is_blank and (found != content(page, version) or version not in self.may_be[page]):
                self.wrong.append((page, version, sorted(self.may_be[page])[:5]))
            elif version in self.may_be[page]:
                self.may_be[page] = {version}

    def run(self):
        self.connect()
        while not self.ends.is_set():
            if self.rests.is_set():
                time.sleep(0.02)
                continue
            kind = self.rng.choices("rwf", (45, 50, 5))[0]
            page = self.rng.choice(self.pages)
            try:
                self.carry_out(kind, page)
                self.done += 1
            except nbd.Error as error:
                self.failed.append((time.monotonic(), kind, page, error.errno))
                if not self.handle.aio_is_ready():
                    self.connect()
                time.sleep(0.002)

    def check_all(self):
        """Each page; one that cannot be read is no wrong one."""
        unreadable = 0
        for page in self.pages:
            try:
                self.carry_out("r", page)
            except nbd.Error:
                unreadable += 1
        return unreadable


class Cell:
    """A volume on devices one of which is faulty."""

    def __init__(self, entresol, folder, cache, fault):
        self.entresol, self.folder, (self.mode, self.policy) = entresol, folder, cache
        self.device, self.words, self.ends, may_fail = FAULTS[fault]
        self.may_fail = may_fail[self.mode]
        self.processes = []
        os.makedirs(folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command):
        log = open(self.path("log"), "ab")
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def wait_for(self, what, seconds=20):
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                raise RuntimeError(f"{self.folder}: {open(self.path('log')).read()[-500:]}")
            time.sleep(0.05)

    def run(self, *arguments, may_fail=False):
        done = subprocess.run([self.entresol, *arguments], capture_output=True, text=True, timeout=120)
        if done.returncode and not may_fail:
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return done

    def set_up(self):
        for name, size in ("disk", DISK_BYTES), ("flash", FLASH_BYTES):
            with open(self.path(name), "wb") as image:
                image.truncate(size)
        plugin = os.path.join(os.path.dirname(os.path.abspath(__file__)), "block_fault_device.py")
        socket, mount = self.path("fault.sock"), self.path("faulty")
        self.start("nbdkit", "-f", "-U", socket, "python", plugin, f"file={self.path(self.device)}",
                   f"fault={self.path('fault')}")
        self.wait_for(lambda: os.path.exists(socket))
        open(mount, "w").close()
        self.start("nbdfuse", mount, f"nbd+unix:///?socket={socket}")
        self.wait_for(lambda: os.path.getsize(mount) > 0)
        at = {"disk": self.path("disk"), "flash": self.path("flash"), self.device: mount}
        self.config = self.path("v.toml")
        self.run("volume", "create", self.config, "--disk", at["disk"], "--flash", at["flash"], "--mode", self.mode,
                 "--policy", self.policy)
        self.run("volume", "set", self.config, "dirty-age-seconds", "0")
        self.serve()

    def serve(self):
        socket = self.path("v.sock")
        self.uri = f"nbd+unix:///v?socket={socket}"
        self.server = self.start(self.entresol, "serve", self.config)

        def answers():
            if self.server.poll() is not None:
                raise RuntimeError(f"the server has ended: {open(self.path('log')).read()[-500:]}")
            try:
                handle = nbd.NBD()
                handle.connect_uri(self.uri)
                return True
            except nbd.Error:
                return False

        self.wait_for(answers)

    def fail(self):
        if self.words != "damage":
            with open(self.path("fault.new"), "w") as fault:
                fault.write(self.words)
            os.rename(self.path("fault.new"), self.path("fault"))
            return
        with open(self.path("flash"), "r+b") as flash:
            image = flash.read()
            for at in range(len(image) // PAGE - 1, 0, -1):
                page, version = struct.unpack("<QQ", image[at * PAGE:][:16])
                if version and image[at * PAGE:][:PAGE] == content(page, version):
                    flash.seek(at * PAGE + 100)
                    flash.write(b"damage")
                    return

    def heal(self):
        if self.ends:
            os.unlink(self.path("fault"))

    def end(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        subprocess.run(["umount", "-l", self.path("faulty")], capture_output=True)


def measure(cell, is_idle, seed):
    cell.set_up()
    clients = [Client(cell.uri, number, seed) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    time.sleep(BEFORE_SECONDS)
    early = sum(len(client.failed) for client in clients)
    if is_idle:
        for client in clients:
            client.rests.set()
        time.sleep(0.3)
    begun = time.monotonic()
    cell.fail()
    time.sleep(FAULT_SECONDS)
    cell.heal()
    ended = time.monotonic() if cell.ends else begun
    for client in clients:
        client.rests.clear()
    time.sleep(AFTER_SECONDS)
    for client in clients:
        client.ends.set()
    for client in clients:
        client.join(60)
    failed = [one for client in clients for one in client.failed]
    others = [one for one in failed if one[1] not in cell.may_fail]
    # A fault that does not end fails what meets it for ever.
    late = [one for one in failed if cell.ends and one[0] > ended + NORMAL_SECONDS]
    last = max((one[0] - ended for one in failed if cell.ends), default=0)
    status = json.loads(cell.run("volume", "status", cell.config, "--json").stdout)
    unreadable = sum(client.check_all() for client in clients)
    wrong = [one for client in clients for one in client.wrong]
    return {
        "requests": sum(client.done for client in clients),
        "failed": len(failed) - early,
        "without_cause": len(others),
        "failed_late": len(late),
        "seconds_to_normal": round(max(last, 0), 2),
        "unreadable": unreadable,
        "wrong": len(wrong),
        "states": [f"{one['device']} {one['state']}" for one in status["devices"] if one["state"] != "ok"],
        "examples": [str(one[1:]) for one in (others + late)[:2]] + [str(one) for one in wrong[:2]],
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("entresol")
    arguments.add_argument("folder")
    arguments.add_argument("--only", default="", help="cells whose description has this word")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--json", help="the results, to this file")
    arguments = arguments.parse_args()
    results, number = [], 0
    print(f"{'fault':31}{'cache':25}{'clients':8}{'failed':>7}{'without cause':>15}{'normal after':>14}{'wrong':>7}")
    for fault in FAULTS:
        for cache in CACHES:
            for is_idle in False, True:
                clients = "idle" if is_idle else "load"
                name = f"{fault} | {cache[0]} {cache[1]} | {clients}"
                number += 1
                if arguments.only not in name:
                    continue
                cell = Cell(arguments.entresol, os.path.join(arguments.folder, str(number)), cache, fault)
                try:
                    found = measure(cell, is_idle, arguments.seed + number)
                except Exception as error:
                    found = {"error": str(error)}
                finally:
                    cell.end()
                passed = not found.get("error") and not any(
                    found[what] for what in ("without_cause", "failed_late", "wrong"))
                results.append({"cell": name, "passed": passed, **found})
                if "error" in found:
                    print(f"{name}: {found['error']}", flush=True)
                    continue
                print(f"{fault:31}{cache[0] + ' ' + cache[1]:25}{clients:8}{found['failed']:7}"
                      f"{found['without_cause']:15}{found['seconds_to_normal']:12} s{found['wrong']:7}"
                      f"  {'' if passed else 'NOT PASSED '}{', '.join(found['states'])} {found['examples'] or ''}",
                      flush=True)
                subprocess.run(["rm", "-rf", cell.folder])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"seed": arguments.seed, "cells": results}, file, indent=1)
    passed = sum(one["passed"] for one in results)
    print(f"{passed} of {len(results)} cells passed")
    sys.exit(passed != len(results))


if __name__ == "__main__":
    main()
