"""Writes of 4 KiB with a flush after each: a volume beside the raw file and nbdkit.

    python3 block_flush.py ENTRESOL FOLDER [--rounds N] [--seconds S] [--clients 1,16] [--policies A,B] [--json FILE]

In turn, in another order in each round, on files of the file system of FOLDER:

    raw          fio on the disk's file, past the page cache, fdatasync after each write
    nbdkit       its file plug-in over the same file
    nbd          nbdkit's memory plug-in: what the protocol costs
    POLICY/wb, POLICY/wt   a volume in write-back and in write-through, flash and disk on the same device

Each client has one request under way, and a connection and a part of the disk of its own. Told are the medians of
flushes a second, of the ratios to raw and to nbdkit of the same round, and of the 99 % of a write and of a flush; of
volumes also, for each flush, blocks written to flash, voluntary context switches and processor time of the server.
Needs fio with its NBD engine, libnbd for Python, and nbdkit.
"""

import json
import os
import shutil
import statistics
import threading
import time

import block_cleaner
import block_overrun

FLASH_BYTES = 1 << 30
PART = 32 << 20


def load(target, engine, seconds, clients, seed):
    # The NBD engine knows no fdatasync; a flush of NBD is both.
    sync = "--fdatasync=1" if engine == "libaio" else "--fsync=1"
    job = block_cleaner.fio(
        target, "--rw=randwrite", "--bs=4k", "--iodepth=1", f"--size={PART}", f"--offset_increment={PART}",
        f"--numjobs={clients}", "--group_reporting", "--thread", "--norandommap", sync, "--time_based",
        f"--runtime={seconds}", "--ramp_time=2", f"--randseed={seed}", engine=engine)
    return {"flushes_per_second": job["write"]["iops"], "write_p99_ms": block_cleaner.percentile_ms(job, "write"),
            "flush_p99_ms": job["sync"]["lat_ns"]["percentile"]["99.000000"] / 1e6}


def spent(pid):
    """Voluntary context switches of all threads, and seconds of processor time. Those of a connection's thread are
    gone when it ends."""
    switches = seconds = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            switches += int(next(line for line in file if line.startswith("voluntary")).split()[1])
        with open(f"/proc/{pid}/task/{task}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return switches, seconds


def of_volume(arguments, policy, mode, seconds, clients, seed):
    folder = os.path.join(arguments.folder, f"{policy}-{mode}")
    volume = block_cleaner.Volume(arguments.entresol, folder, None, policy, mode, FLASH_BYTES)
    try:
        looks, status = [], volume.status()

        def look():
            looks.append((time.monotonic(), *spent(volume.server.pid)))

        timers = [threading.Timer(after, look) for after in (2.5, seconds + 1.5)]
        [timer.start() for timer in timers]
        row = load(volume.uri, "nbd", seconds, clients, seed)
        [timer.join() for timer in timers]
        (begun, *before), (ended, *after) = looks
        # The load ran for two seconds before it was counted.
        blocks = (volume.status()["flash_writes"] - status["flash_writes"]) / (seconds + 2)
        flushes = row["flushes_per_second"]
        return {**row, "blocks": blocks / flushes, "switches": (after[0] - before[0]) / (ended - begun) / flushes,
                "cpu_us": (after[1] - before[1]) / (ended - begun) / flushes * 1e6}
    finally:
        volume.stop()
        shutil.rmtree(folder)


def main():
    parser = block_overrun.parser_of(__doc__, 5, 5)
    parser.add_argument("--clients", default="1,16")
    arguments = parser.parse_args()
    disk, socket = block_overrun.prepared(arguments)

    def served(*plugin):
        return lambda *how: block_overrun.served(["nbdkit", "-f", "-U", socket, *plugin], socket, load, *how)

    ways = {"raw": lambda *how: load(disk, "libaio", *how), "nbdkit": served("file", disk),
            "nbd": served("memory", str(block_cleaner.DISK_BYTES))}
    ways |= block_overrun.of_policies(arguments, of_volume)
    rows, names = [], list(ways)
    for clients in map(int, arguments.clients.split(",")):
        for number in range(arguments.rounds):
            found = block_overrun.in_turn(ways, number, arguments.seconds, clients)
            for name in names:
                row = {"clients": clients, "round": number, "what": name, **found[name]}
                for other in ("raw", "nbdkit"):
                    row[f"of_{other}"] = row["flushes_per_second"] / found[other]["flushes_per_second"]
                rows.append(row)
                print(json.dumps(row), flush=True)
    columns = ["flushes_per_second", "of_raw", "of_nbdkit", "write_p99_ms", "flush_p99_ms", "blocks", "switches", "cpu_us"]
    print(f"{'clients':8}{'':14}" + "".join(f"{column.replace('flushes_per_second', 'flushes/s'):>14}" for column in columns))
    for clients in map(int, arguments.clients.split(",")):
        for name in names:
            mine = [row for row in rows if (row["clients"], row["what"]) == (clients, name)]
            told = [f"{statistics.median(row[column] for row in mine):14,.2f}" if column in mine[0] else f"{'':14}"
                    for column in columns]
            print(f"{clients:<8}{name:14}" + "".join(told))
    block_overrun.end(arguments, rows)


if __name__ == "__main__":
    main()
