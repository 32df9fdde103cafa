"""Runs in the guest of `cargo xtask block bench peers`: sets up one cache after the other over /dev/vda (the disk) and
/dev/vdb (the flash), and measures each with fio under the same loads. A line that begins with `@` is for the host:
`@throttle on|warm|off` limits the devices, `@result JSON` is a measurement, `@synced N` says how many writes are
durable.

`peers.py rounds` measures; `peers.py before NAME` writes until the host cuts the power; `peers.py after NAME` opens
the cache again, looks at every block that was written, and measures reads."""

import json
import mmap
import os
import random
import re
import subprocess
import sys
import time

DISK, FLASH = "/dev/vda", "/dev/vdb"
BLOCK = 8192
STATE = "/mnt/state"


def tell(kind, value):
    print(f"@{kind} {value}", flush=True)


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def put(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def get(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def sectors(device):
    return int(get(f"/sys/block/{os.path.basename(device)}/size"))


def until(what, is_so, seconds=60):
    for _ in range(seconds * 10):
        if is_so():
            return
        time.sleep(0.1)
    raise RuntimeError(f"{what}: not within {seconds} s")


def wipe():
    """Heads of both devices, and the bytes of a cache's metadata, are zeros."""
    for device in (DISK, FLASH):
        run("dd", "if=/dev/zero", f"of={device}", "bs=1M", "count=8", "oflag=direct", "status=none")


class Raw:
    """The disk alone."""

    device = DISK

    def begin(self, is_new):
        pass

    def dirty(self):
        return 0

    def end(self):
        pass


class DeviceMapper:
    """dm-cache with smq, and dm-writecache. The flash has dm-cache's metadata on its first 4 MiB."""

    device = "/dev/mapper/peer"

    def __init__(self, mode):
        self.mode = mode

    def begin(self, is_new):
        size = sectors(DISK)
        if self.mode == "writecache":
            self.create("peer", f"0 {size} writecache s {DISK} {FLASH} 4096 0")
            return
        self.create("meta", f"0 8192 linear {FLASH} 0")
        self.create("fast", f"0 {sectors(FLASH) - 8192} linear {FLASH} 8192")
        table = f"0 {size} cache /dev/mapper/meta /dev/mapper/fast {DISK} 64 1 {self.mode} smq 0"
        self.create("peer", table)

    @staticmethod
    def create(name, table):
        run("dmsetup", "create", name, "--table", table)

    def dirty(self):
        words = run("dmsetup", "status", "peer").split()
        return int(words[-1]) if self.mode == "writecache" else int(words[13]) * 64 * 512

    def end(self):
        # A cache that is removed keeps its dirty blocks; the next one begins with empty heads.
        for name in ["peer"] + ([] if self.mode == "writecache" else ["fast", "meta"]):
            run("dmsetup", "remove", name)


class Bcache:
    """bcache. Without its bypass: sequential streams and a congested flash are cached, too."""

    device = "/dev/bcache0"

    def __init__(self, mode, has_bypass):
        self.mode, self.has_bypass = mode, has_bypass

    def begin(self, is_new):
        if is_new:
            run("make-bcache", "--bucket", "128k", "--block", "4k", "-C", FLASH, "-B", DISK)
        for device in (FLASH, DISK):
            put("/sys/fs/bcache/register", device)
        until("bcache0", lambda: os.path.exists(self.device))
        self.set = next(name for name in os.listdir("/sys/fs/bcache") if len(name) == 36)
        put("/sys/block/bcache0/bcache/cache_mode", self.mode)
        if not self.has_bypass:
            put("/sys/block/bcache0/bcache/sequential_cutoff", "0")
            for limit in ("congested_read_threshold_us", "congested_write_threshold_us"):
                put(f"/sys/fs/bcache/{self.set}/{limit}", "0")

    def dirty(self):
        text = get("/sys/block/bcache0/bcache/dirty_data").strip()
        number, unit = re.fullmatch(r"([0-9.]+)([kMG]?)", text).groups()
        return int(float(number) * {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}[unit])

    def end(self):
        put("/sys/block/bcache0/bcache/stop", "1")
        until("bcache0 is gone", lambda: not os.path.exists(self.device))
        put(f"/sys/fs/bcache/{self.set}/stop", "1")
        until("its cache is gone", lambda: not os.path.exists(f"/sys/fs/bcache/{self.set}"))


class Entresol:
    """Ours, by ublk or by the kernel's NBD client. No policy: the one that `volume create` takes."""

    def __init__(self, mode, policy=None, door="ublk"):
        self.mode, self.policy, self.door = mode, policy, door

    def begin(self, is_new):
        program = os.environ["program"]
        config = f"{STATE}/data.toml"
        if is_new:
            words = [program, "volume", "create", config, "--disk", DISK, "--flash", FLASH, "--mode", self.mode]
            run(*words, "--overwrite", *(["--policy", self.policy] if self.policy else []))
        words = [program, "serve", config] + (["--ublk"] if self.door == "ublk" else [])
        log = open(f"{STATE}/server.log", "a", encoding="utf-8")
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, cwd=STATE)
        ready = self.server.stdout.readline()
        if not ready.startswith("ready"):
            raise RuntimeError(f"no server: {ready}{get(f'{STATE}/server.log')}")
        if self.door == "ublk":
            self.device = ready.rsplit(" and ", 1)[1].strip()
        else:
            self.device = "/dev/nbd0"
            run("nbd-client", "-unix", f"{STATE}/data.sock", self.device, "-C", "2")

    def dirty(self):
        status = json.loads(run(os.environ["program"], "volume", "status", f"{STATE}/data.toml", "--json"))
        return status["dirty_pages"] * status["page_bytes"]

    def end(self):
        if self.door == "nbd":
            run("nbd-client", "-d", self.device)
        self.server.terminate()
        self.server.wait()
        for name in os.listdir(STATE):
            if name.startswith("data"):
                os.remove(f"{STATE}/{name}")


PEERS = {
    "raw": Raw(),
    "dm-cache wt": DeviceMapper("writethrough"),
    "bcache wt": Bcache("writethrough", True),
    "bcache wt, no bypass": Bcache("writethrough", False),
    "ours wt": Entresol("write-through"),
    "ours wt, nbd": Entresol("write-through", door="nbd"),
    "ours wt, sce": Entresol("write-through", "sce"),
    "ours wt, face-gsc": Entresol("write-through", "face-gsc"),
    "ours wt, reuse": Entresol("write-through", "reuse"),
    "dm-cache wb": DeviceMapper("writeback"),
    "dm-writecache wb": DeviceMapper("writecache"),
    "bcache wb": Bcache("writeback", True),
    "bcache wb, no bypass": Bcache("writeback", False),
    "ours wb": Entresol("write-back"),
    "ours wb, nbd": Entresol("write-back", door="nbd"),
    "ours wb, reuse": Entresol("write-back", "reuse"),
}

# The centre fixes which blocks are hot.
ZIPF = "--random_distribution=zipf:0.9:0.5"
# Nine tenths of the reads are of a fifth of the disk.
CLUSTERED = "--rw=randread --random_distribution=zoned:90/20:10/80"
# Requests of 8 KiB, in this order.
LOADS = {
    "zipf reads, depth 4": f"--rw=randread {ZIPF} --iodepth=4",
    "mix 70/30, a sync each 16": f"--rw=randrw --rwmixread=70 {ZIPF} --iodepth=4 --fsync=16",
    "sync writes, 1 job": f"--rw=randwrite {ZIPF} --sync=dsync",
    "sync writes, 8 jobs": f"--rw=randwrite {ZIPF} --sync=dsync --numjobs=8",
    "uniform reads, depth 4": "--rw=randread --iodepth=4",
    "clustered reads, depth 4": f"{CLUSTERED} --iodepth=4",
    "scan, 64 KiB": "--rw=read --bs=64k --iodepth=4",
}
# Before these the cache fills while the disk is quick.
WARMED = {
    "zipf reads, depth 4": f"--rw=randread {ZIPF} --iodepth=16",
    "clustered reads, depth 4": f"{CLUSTERED} --iodepth=16",
}


def fio(device, options, seconds, seed):
    # With `randrepeat` fio would draw the same blocks in each run, whatever the seed. Of all devices as much is used:
    # bcache's is a little smaller than the disk, and fio spreads hot blocks by the size.
    area = sectors(DISK) // 2048 - 8
    words = ["fio", "--name=load", f"--filename={device}", "--direct=1", "--ioengine=libaio", "--group_reporting"]
    words += ["--output-format=json", "--time_based", f"--runtime={seconds}", f"--size={area}m", "--bs=8k"]
    words += ["--norandommap", "--randrepeat=0", f"--randseed={seed}", "--percentile_list=50:99", *options.split()]
    said = run(*words)
    return json.loads(said[said.index("{") :])["jobs"][0]


def p99(job):
    """In milliseconds, of reads and writes together the greater one."""
    both = [job[way]["clat_ns"].get("percentile", {}).get("99.000000", 0) for way in ("read", "write") if job[way]["total_ios"]]
    return max(both, default=0) / 1e6


def counted():
    """Reads, bytes read, writes, bytes written, flushes of both devices."""
    counts = []
    for device in (DISK, FLASH):
        words = [int(word) for word in get(f"/sys/block/{os.path.basename(device)}/stat").split()]
        counts.append((words[0], words[2] * 512, words[4], words[6] * 512, words[15]))
    return counts


def available_kib():
    return int(re.search(r"MemAvailable:\s+(\d+)", get("/proc/meminfo")).group(1))


def throttle(how):
    tell("throttle", how)
    # The host has no way to say that it is done.
    time.sleep(0.7)


def measure(name, number, seconds, only):
    peer = PEERS[name]
    wipe()
    before = available_kib()
    peer.begin(is_new=True)
    try:
        throttle("on")
        for at, (load, options) in enumerate(LOADS.items()):
            seed = 1000 * (number + 1) + 10 * at
            if only and load not in only:
                continue
            if load in WARMED:
                throttle("warm")
                fio(peer.device, WARMED[load], 2 * seconds, seed)
                throttle("on")
                # A cache that measures its devices learns their limits.
                fio(peer.device, options, 3, seed + 1)
            was = counted()
            job = fio(peer.device, options, seconds, seed + 2)
            now = counted()
            done = job["read"]["total_ios"] + job["write"]["total_ios"]
            each = [[(b - a) / max(done, 1) for a, b in zip(old, new)] for old, new in zip(was, now)]
            result = {"peer": name, "round": number, "load": load, "rate": job["read"]["iops"] + job["write"]["iops"]}
            result |= {"p99_ms": p99(job), "disk": each[0], "flash": each[1]}
            tell("result", json.dumps(result))
        dirty = peer.dirty()
        tell("result", json.dumps({"peer": name, "round": number, "dram_kib": before - available_kib(), "dirty": dirty}))
    finally:
        throttle("off")
        peer.end()


def rounds():
    names = os.environ["peers"].split("|")
    loads = [load for load in os.environ["loads"].split("|") if load]
    count, seconds = int(os.environ["rounds"]), int(os.environ["seconds"])
    first = int(os.environ["first"])
    for number in range(first, first + count):
        shift = number * 5 % len(names)
        for name in names[shift:] + names[:shift]:
            begun = time.monotonic()
            measure(name, number, seconds, loads)
            print(f"round {number}: {name}: {time.monotonic() - begun:.0f} s", flush=True)


def stamped(block, version):
    """A block's content: its number and version, over and over."""
    return (block.to_bytes(8, "little") + version.to_bytes(8, "little")) * (BLOCK // 16)


def written_blocks(blocks, seed):
    """Block numbers, in the order in which they are written: most of them in a fifth of the disk."""
    drawn = random.Random(seed)
    while True:
        yield drawn.randrange(blocks // 5) if drawn.random() < 0.9 else drawn.randrange(blocks)


# A sync follows each batch.
BATCH = 16


def before_the_cut(name):
    peer = PEERS[name]
    wipe()
    peer.begin(is_new=True)
    throttle("warm")
    fio(peer.device, WARMED["clustered reads, depth 4"], 12, 7)
    throttle("on")
    file = os.open(peer.device, os.O_RDWR | os.O_DIRECT)
    buffer = mmap.mmap(-1, BLOCK)
    blocks = os.lseek(file, 0, os.SEEK_END) // BLOCK
    for number, block in enumerate(written_blocks(blocks, 1)):
        buffer[:] = stamped(block, number + 1)
        os.pwrite(file, buffer, block * BLOCK)
        if number % BATCH == BATCH - 1:
            os.fdatasync(file)
            # The host cuts the power when it has seen enough.
            tell("synced", number + 1)


def after_the_cut(name):
    synced = int(os.environ["synced"])
    peer = PEERS[name]
    begun = time.monotonic()
    peer.begin(is_new=False)
    opened = time.monotonic() - begun
    throttle("on")
    job = fio(peer.device, LOADS["clustered reads, depth 4"], int(os.environ["seconds"]), 8)
    throttle("off")
    file = os.open(peer.device, os.O_RDWR | os.O_DIRECT)
    blocks = os.lseek(file, 0, os.SEEK_END) // BLOCK
    last, later = {}, {}
    for number, block in zip(range(synced + 2 * BATCH), written_blocks(blocks, 1)):
        if number < synced:
            last[block] = number + 1
        else:
            later.setdefault(block, set()).add(number + 1)
    buffer = mmap.mmap(-1, BLOCK)
    wrong = 0
    for block, version in last.items():
        os.preadv(file, [buffer], block * BLOCK)
        allowed = {version} | later.get(block, set())
        wrong += not any(buffer[:] == stamped(block, one) for one in allowed)
    result = {"peer": name, "opened_s": opened, "rate": job["read"]["iops"], "p99_ms": p99(job)}
    tell("result", json.dumps(result | {"blocks": len(last), "blocks_wrong": wrong}))
    os.close(file)
    peer.end()


def main():
    os.environ["DM_DISABLE_UDEV"] = "1"
    os.makedirs(STATE, exist_ok=True)
    if sys.argv[1] != "after":
        run("mkfs.ext4", "-q", "-F", "/dev/vdc")
    run("mount", "/dev/vdc", STATE)
    if sys.argv[1] == "rounds":
        rounds()
    elif sys.argv[1] == "before":
        before_the_cut(os.environ["peer"])
    else:
        after_the_cut(os.environ["peer"])
    print("ALL DONE", flush=True)


try:
    main()
except Exception:
    print(run("dmesg")[-3000:])
    raise
