"""The cleaner of a volume: how fast it drains, how well its ceiling holds, and what clients notice of it.

    python3 block_cleaner.py ENTRESOL FOLDER drain|ceiling|clients [--rounds N] [--policy P] [--json FILE]

`drain`: 80,000 pages that only the flash has are copied to the disk, in turn with fio's random writes of as many
bytes to the same file by itself, 32 at once, and of fio's pairs of a read and a write, which is what a page costs a
device that is both flash and disk. A client reads other pages meanwhile, and `volume status` is asked.
`ceiling`: `dirty_percent_max` of 10 and of 50 under writes as fast as they are taken; then a minute without any.
`clients`: a mixed load at a fixed rate: with a cleaner that has work, without one, and without one while fio
writes as many pages to another file of the same disk, in turn.
Files are on the file system of FOLDER, past the page cache; the flash may be in another folder. Needs fio with its
NBD engine, and libnbd for Python.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import threading
import time

import nbd

import block_changes

PAGE = 4096
DISK_BYTES, FLASH_BYTES = 2 << 30, 512 << 20
DIRTY_PAGES = 80_000


class Volume(block_changes.Volume):
    """A volume whose disk is a file with all of its blocks written."""

    def __init__(self, entresol, folder, flash_folder, policy, mode="write-back", flash_bytes=FLASH_BYTES):
        self.entresol, self.folder = entresol, folder
        os.makedirs(folder)
        self.config, self.flash_path = self.path("v.toml"), os.path.join(flash_folder or folder, "flash")
        self.make("disk", DISK_BYTES)
        with open(self.flash_path, "wb") as image:
            image.truncate(flash_bytes)
        fio(self.path("disk"), "--rw=write", "--bs=1m", f"--size={DISK_BYTES}")
        self.uri = f"nbd+unix:///v?socket={self.path('v.sock')}"
        self.run("volume", "create", self.config, "--disk", self.path("disk"), "--flash", self.flash_path,
                 "--mode", mode, "--policy", policy)
        self.serve()

    def set(self, name, value):
        self.run("volume", "set", self.config, name, str(value))

    def status(self):
        return json.loads(self.run("volume", "status", self.config, "--json"))

    def stop(self):
        self.server.terminate()
        self.server.wait(120)
        os.unlink(self.flash_path)


def fio(target, *arguments, engine="libaio"):
    """One job; its part of fio's JSON, or None if it is not asked for."""
    where = f"--filename={target}" if engine == "libaio" else f"--uri={target}"
    command = ["fio", "--name=load", f"--ioengine={engine}", where, "--direct=1", "--output-format=json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr}")
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]


def percentile_ms(job, kind, percent="99.000000"):
    return job[kind]["clat_ns"]["percentile"][percent] / 1e6


def fill_dirty(volume, count, rng):
    """Writes `count` pages at random places, each once, by several requests at once."""
    handle = nbd.NBD()
    handle.connect_uri(volume.uri)
    buffer = nbd.Buffer.from_bytearray(bytearray(os.urandom(PAGE)))
    for page in rng.sample(range(DISK_BYTES // PAGE), count):
        while handle.aio_in_flight() >= 32:
            handle.poll(-1)
        handle.aio_pwrite(buffer, page * PAGE, lambda error: 1)
    while handle.aio_in_flight():
        handle.poll(-1)
    handle.flush()


class Reader(threading.Thread):
    """Reads pages at random, one after the other, and notes how long each took."""

    def __init__(self, uri, seed):
        super().__init__(daemon=True)
        self.uri, self.rng, self.ends, self.seconds = uri, random.Random(seed), threading.Event(), []

    def run(self):
        handle = nbd.NBD()
        handle.connect_uri(self.uri)
        while not self.ends.is_set():
            begun = time.monotonic()
            handle.pread(PAGE, self.rng.randrange(DISK_BYTES // PAGE) * PAGE)
            self.seconds.append(time.monotonic() - begun)


def timed(function, *arguments):
    begun = time.monotonic()
    function(*arguments)
    return time.monotonic() - begun


def drain(volume, rounds):
    rng, rows = random.Random(7), []
    volume.set("dirty-age-seconds", 0)
    for number in range(rounds):
        alone = fio(volume.path("disk"), "--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={DISK_BYTES}",
                    f"--io_size={DIRTY_PAGES * PAGE}", f"--randseed={number}")
        pairs = fio(volume.path("disk"), "--rw=randrw", "--bs=4k", "--iodepth=64", f"--size={DISK_BYTES}",
                    f"--io_size={DIRTY_PAGES * PAGE * 2}", f"--randseed={number}")
        fill_dirty(volume, DIRTY_PAGES, rng)
        before = volume.status()["dirty_pages"]
        reader = Reader(volume.uri, number)
        answers = []
        reader.start()
        draining = threading.Thread(target=lambda: answers.append(
            timed(volume.run, "volume", "drain", volume.config)))
        draining.start()
        statuses = []
        while draining.is_alive():
            statuses.append(timed(volume.status))
            time.sleep(0.05)
        draining.join()
        reader.ends.set()
        reader.join()
        rows.append({
            "fio_alone_per_second": alone["write"]["iops"],
            "fio_pairs_per_second": pairs["write"]["iops"],
            "fio_p99_ms": percentile_ms(alone, "write"),
            "pages": before,
            "left": volume.status()["dirty_pages"],
            "drained_per_second": before / answers[0],
            "of_fio": before / answers[0] / alone["write"]["iops"],
            "of_pairs": before / answers[0] / pairs["write"]["iops"],
            "longest_read_ms": max(reader.seconds) * 1000,
            "reads": len(reader.seconds),
            "slowest_status_ms": max(statuses) * 1000,
        })
        print(json.dumps(rows[-1]), flush=True)
    for name in ("of_fio", "of_pairs"):
        print(f"{name}: {statistics.median(row[name] for row in rows):.2f} (median)")
    return rows


def ceiling(volume, rounds):
    rows = []
    for percent in [10, 50] * rounds:
        volume.set("dirty-percent-max", percent)
        seen, ends = [], threading.Event()

        def watch():
            while not ends.is_set():
                status = volume.status()
                seen.append(100 * status["dirty_pages"] / status["slots"])
                time.sleep(0.02)

        watching = threading.Thread(target=watch)
        watching.start()
        load = fio(volume.uri, "--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={DISK_BYTES}", "--runtime=20",
                   "--time_based", "--norandommap", engine="nbd")
        ends.set()
        watching.join()
        # A page that was copied in the load is copied again a minute later at the earliest.
        time.sleep(62)
        rows.append({"dirty_percent_max": percent, "most_percent": max(seen), "looks": len(seen),
                     "writes_per_second": load["write"]["iops"], "write_p99_ms": percentile_ms(load, "write"),
                     "dirty_after_62_s": volume.status()["dirty_pages"]})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def clients(volume, rounds, rate, seconds, age):
    other = volume.path("other")
    fio(other, "--rw=write", "--bs=1m", f"--size={DISK_BYTES // 4}")
    rows, cleaned_per_second = [], 0
    for number in range(rounds):
        for kind in ("cleaner", "none", "as many writes"):
            volume.set("dirty-age-seconds", age if kind == "cleaner" else 0)
            beside = None
            if kind == "as many writes" and cleaned_per_second >= 1:
                beside = subprocess.Popen(
                    ["fio", "--name=beside", f"--filename={other}", "--rw=randwrite", "--bs=4k", "--ioengine=libaio",
                     "--direct=1", "--iodepth=2", f"--rate_iops={round(cleaned_per_second)}", "--time_based",
                     f"--runtime={seconds + age + 10}"], stdout=subprocess.DEVNULL)
            before, begun = volume.status(), time.monotonic()
            load = fio(volume.uri, "--rw=randrw", "--rwmixread=70", "--bs=4k", "--iodepth=8", f"--size={DISK_BYTES}",
                       f"--runtime={seconds + age + 5}", f"--ramp_time={age + 5}", "--time_based",
                       "--random_distribution=zipf:0.9", "--norandommap",
                       f"--rate_iops={rate * 7 // 10},{rate * 3 // 10}", f"--randseed={number}", engine="nbd")
            after, took = volume.status(), time.monotonic() - begun
            if beside:
                beside.terminate()
                beside.wait()
            if kind == "cleaner":
                cleaned_per_second = (after["disk_writes"] - before["disk_writes"]) / (took - age)
            rows.append({"disk": kind, "requests_per_second": load["read"]["iops"] + load["write"]["iops"],
                         "read_p99_ms": percentile_ms(load, "read"), "write_p99_ms": percentile_ms(load, "write"),
                         "dirty_pages": after["dirty_pages"], "cleaned_per_second": cleaned_per_second})
            print(json.dumps(rows[-1]), flush=True)
    for name in ("read_p99_ms", "write_p99_ms"):
        of = {kind: statistics.median(row[name] for row in rows if row["disk"] == kind)
              for kind in ("cleaner", "none", "as many writes")}
        print(f"{name}: {of['cleaner']:.3f} with the cleaner, {of['none']:.3f} without, {of['as many writes']:.3f} "
              f"without, as many writes by fio: {of['cleaner'] / of['none']:.2f} x, "
              f"{of['cleaner'] / of['as many writes']:.2f} x")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entresol")
    parser.add_argument("folder")
    parser.add_argument("what", choices=["drain", "ceiling", "clients"])
    parser.add_argument("--flash", metavar="FOLDER", help="where the flash is, for instance in memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", default="face-gsc")
    parser.add_argument("--rate", type=int, default=3000, help="requests a second of `clients`")
    parser.add_argument("--seconds", type=int, default=20, help="of one measurement of `clients`")
    parser.add_argument("--age", type=int, default=60, help="of the dirty pages that `clients` has cleaned, seconds")
    parser.add_argument("--json")
    told = parser.parse_args()
    volume = Volume(os.path.abspath(told.entresol), os.path.abspath(told.folder), told.flash, told.policy)
    try:
        if told.what == "clients":
            rows = clients(volume, told.rounds, told.rate, told.seconds, told.age)
        else:
            rows = {"drain": drain, "ceiling": ceiling}[told.what](volume, told.rounds)
    finally:
        volume.stop()
    if told.json:
        with open(told.json, "w") as file:
            json.dump({"arguments": vars(told), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
