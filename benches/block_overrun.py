"""Writes that exceed the flash, for longer than it has room: a volume beside its disk alone and other servers.

    python3 block_overrun.py ENTRESOL FOLDER [--rounds N] [--seconds S] [--depth N] [--policies A,B] [--json FILE]

Random writes of 4 KiB, 32 at once, to a disk of 2 GiB behind a flash of 128 MiB on the same device, in turn:

    disk       fio on the disk's file, past the page cache
    nbdkit     its file plug-in over the same file, with its cache (it has no direct I/O)
    qemu-nbd   the same file, past the page cache
    nbd        nbdkit's memory plug-in: what the protocol costs
    POLICY/wb, POLICY/wt   a volume in write-back and in write-through

Each runs for S seconds after as many that are not counted; the order is another one in each round. Told are writes a
second, the ratio to the disk of the same round, and pages that the flash got for each write. Needs fio with its NBD
engine, libnbd for Python, nbdkit and qemu-nbd.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

import block_cleaner

FLASH_BYTES = 128 << 20
DISK_BYTES = block_cleaner.DISK_BYTES


def load(target, engine, seconds, depth, seed):
    job = block_cleaner.fio(
        target, "--rw=randwrite", "--bs=4k", f"--iodepth={depth}", f"--size={DISK_BYTES}", "--norandommap",
        "--time_based", f"--runtime={seconds}", f"--ramp_time={seconds}", f"--randseed={seed}", engine=engine)
    return {"writes_per_second": job["write"]["iops"], "p99_ms": block_cleaner.percentile_ms(job, "write")}


def served(command, socket, load, *how):
    """`load` of another server, which listens on `socket`."""
    server = subprocess.Popen(command)
    try:
        while not os.path.exists(socket):
            time.sleep(0.05)
            assert server.poll() is None, command
        return load(f"nbd+unix:///?socket={socket}", "nbd", *how)
    finally:
        server.terminate()
        server.wait(60)
        if os.path.exists(socket):
            os.unlink(socket)


def of_volume(arguments, policy, mode, seconds, depth, seed):
    folder = os.path.join(arguments.folder, f"{policy}-{mode}")
    volume = block_cleaner.Volume(arguments.entresol, folder, None, policy, mode, FLASH_BYTES)
    try:
        row = load(volume.uri, "nbd", seconds, depth, seed)
        status = volume.status()
        past = [one for one in status["bypassed"] if one["why"] == "overrun"]
        written = sum(one["count"] for one in status["latencies"] if one["place"].startswith("written"))
        return {**row, "flash_writes_per_write": status["flash_writes"] / max(written, 1),
                "past_of_all": sum(one["writes"] for one in past) / max(written, 1)}
    finally:
        volume.stop()
        shutil.rmtree(folder)


def parser_of(description, rounds, seconds):
    """Of what both scripts that compare servers are told."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entresol")
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=int, default=seconds)
    parser.add_argument("--policies", default="face-gsc")
    parser.add_argument("--json")
    return parser


def prepared(arguments):
    """The disk's file, with all of its blocks written, and the place of a socket."""
    os.makedirs(arguments.folder)
    disk, socket = (os.path.abspath(os.path.join(arguments.folder, name)) for name in ("disk", "other.sock"))
    block_cleaner.fio(disk, "--rw=write", "--bs=1m", f"--size={DISK_BYTES}")
    return disk, socket


def of_policies(arguments, of_volume):
    """How a volume is measured, by policy and mode."""
    return {f"{policy}/{short}": lambda *how, policy=policy, mode=mode: of_volume(arguments, policy, mode, *how)
            for policy in arguments.policies.split(",")
            for short, mode in (("wb", "write-back"), ("wt", "write-through"))}


def in_turn(ways, number, *how):
    """What each way gives, in an order that is another one in each round."""
    names = list(ways)
    turn = number % len(names)
    found = {name: ways[name](*how, number) for name in names[turn:] + names[:turn]}
    return {name: found[name] for name in names}


def end(arguments, rows):
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"arguments": vars(arguments), "rows": rows}, file, indent=1)
    shutil.rmtree(arguments.folder)


def main():
    parser = parser_of(__doc__, 3, 15)
    parser.add_argument("--depth", type=int, default=32)
    arguments = parser.parse_args()
    disk, socket = prepared(arguments)
    # How the load is run, by what is measured.
    ways = {
        "disk": lambda *how: load(disk, "libaio", *how),
        "nbdkit": lambda *how: served(["nbdkit", "-f", "-U", socket, "file", disk], socket, load, *how),
        "qemu-nbd": lambda *how: served(
            ["qemu-nbd", "-t", "-e", "16", "-k", socket, "-f", "raw", "--cache=none", "--aio=native", disk], socket, load, *how),
        "nbd": lambda *how: served(["nbdkit", "-f", "-U", socket, "memory", str(DISK_BYTES)], socket, load, *how),
    }
    ways |= of_policies(arguments, of_volume)
    rows, names = [], list(ways)
    for number in range(arguments.rounds):
        found = in_turn(ways, number, arguments.seconds, arguments.depth)
        for name in names:
            row = {"round": number, "what": name, **found[name]}
            row["of_disk"] = row["writes_per_second"] / found["disk"]["writes_per_second"]
            rows.append(row)
            print(json.dumps(row), flush=True)
    print(f"{'':16}{'writes/s':>12}{'of disk':>9}{'p99 ms':>9}")
    for name in names:
        of = lambda key: statistics.median(row[key] for row in rows if row["what"] == name)
        print(f"{name:16}{of('writes_per_second'):12,.0f}{of('of_disk'):9.2f}{of('p99_ms'):9.1f}")
    end(arguments, rows)


if __name__ == "__main__":
    main()
