#!/bin/sh
# A cache that does not pay, on throttled devices: a flash device of half of the disk's I/Os a second, uniform reads of which
# 2 % hit, and scans of the whole volume. fio's NBD engine reads a volume with its cache, with the usual options, and the same
# door with the cache off, alternately. Disk and flash are loop devices past the page cache, throttled for the servers by a
# control group (blkio, version 1): 1,000 reads and 1,000 writes a second and 100 MB a second; the slow flash: 500 and 50 MB.
# Needs root, losetup, fio with its NBD engine, control groups of version 1. Installs nothing; exits with 77 if something is
# missing.
#
#   benches/block_never_slower.sh [FOLDER] [SECONDS] [PAIRS]       default: a temporary folder, 4, 4
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
seconds=${2:-4} pairs=${3:-4}
need fio lsblk awk
blkio=/sys/fs/cgroup/blkio
[ -e $blkio/blkio.throttle.read_iops_device ] || missing "this machine has no control group blkio of version 1"
need_command
begin_folder "${1:-}"
server_cgroup=$blkio/entresol-$$
mkdir "$server_cgroup"
devices='' servers=''
end_load() {
    for process in $servers; do kill "$process" 2> /dev/null || true; wait "$process" 2> /dev/null || true; done
    for device in $devices; do throttle "$device" 0 0; losetup -d "$device" || true; done
    devices='' servers=''
}
clean_more() {
    end_load
    sleep 0.2
    rmdir "$server_cgroup" 2> /dev/null || true
}

throttle() {
    number=$(lsblk -dno MAJ:MIN "$1" | tr -d ' ')
    for limit in read_iops:$2 write_iops:$2 read_bps:$3 write_bps:$3; do
        echo "$number ${limit#*:}" > "$server_cgroup/blkio.throttle.${limit%:*}_device" || true
    done
}
device() {
    rm -f "$folder/$1"
    if [ "$3" = full ]; then head -c "$2M" /dev/urandom > "$folder/$1"; else truncate -s "$2M" "$folder/$1"; fi
    last=$(losetup -f --show --direct-io=on "$folder/$1")
    devices="$devices $last"
}
# start NAME: its server, which is ready.
start() {
    serve_as "$1"
    servers="$servers $server"
    server=''
}
# fio on NAME: reads a second, or KB a second of a scan.
reads() {
    volume=$1 column=$2
    shift 2
    fio --name="$volume" --ioengine=nbd --uri="nbd+unix:///$volume?socket=$folder/$volume.sock" --size="${mib}m" "$@" \
        --output-format=terse | grep '^3;' | cut -d';' -f"$column"
}

# load TITLE DISK-MIB FLASH-MIB FLASH-IOPS FIELD FIO-OPTIONS: with and without the cache, alternately.
load() {
    title=$1 mib=$2 flash_mib=$3 flash_iops=$4 field=$5
    shift 5
    rm -f "$folder"/with.* "$folder"/without.*
    device disk "$mib" full; disk=$last
    device flash "$flash_mib" sparse; flash=$last
    device disk2 "$mib" full; disk2=$last
    device flash2 "$flash_mib" sparse; flash2=$last
    "$entresol" volume create "$folder/with.toml" --disk "$disk" --flash "$flash" > /dev/null
    "$entresol" volume create "$folder/without.toml" --disk "$disk2" --flash "$flash2" > /dev/null
    sed -i 's/^cache = .*/cache = false/' "$folder/without.toml"
    start with; start without
    # Warm: every page is read, in any order.
    "$entresol" volume set "$folder/with.toml" hits-to-disk false > /dev/null
    for _ in 1 2 3; do reads with 8 --rw=randread --bs=4k --iodepth=16 > /dev/null; done
    "$entresol" volume set "$folder/with.toml" hits-to-disk true > /dev/null
    throttle "$disk" 1000 100000000; throttle "$disk2" 1000 100000000
    [ "$flash_iops" = 0 ] || throttle "$flash" "$flash_iops" 50000000
    # What it learns of devices that have just become slower is not measured.
    reads with 8 --rw=randread --bs=4k --norandommap --iodepth=16 --time_based --runtime=10 > /dev/null
    rows=''
    for _ in $(seq "$pairs"); do
        rows="$rows $(reads with "$field" "$@") $(reads without "$field" "$@")"
    done
    "$entresol" volume status --json "$folder/with.toml" > "$folder/status" || true
    hits=$(awk -F'[:,]' '/"flash_hits"/ { flash = $2 } /"disk_reads"/ { disk = $2 } END { print flash, disk }' "$folder/status")
    echo "$rows" | awk -v title="$title" -v hits="$hits" '{
        for (i = 1; i < NF; i += 2) { with += $i; without += $(i + 1); ratios = ratios sprintf(" %.2f", $i / $(i + 1)) }
        n = NF / 2
        printf "  %-42s with %8.0f, without %8.0f: %.3f (pairs:%s)\n", title, with / n, without / n, with / without, ratios
    }'
    end_load
}

echo "reads a second (scans: KB) of a volume with its cache and of the same door without, disks of 1,000 I/Os a second;"
echo "$pairs pairs of $seconds s, on $(nproc) cores with a load of $(cut -d' ' -f1 /proc/loadavg)"
random="--rw=randread --bs=4k --norandommap --time_based --runtime=$seconds"
# shellcheck disable=SC2086 # Options.
for depth in 1 16; do
    load "flash half as fast, all hits, depth $depth" 64 96 500 8 $random --iodepth=$depth
    load "2 % hits, depth $depth" 512 13 0 8 $random --iodepth=$depth
done
load "scans in requests of 256 KiB" 384 96 0 7 --rw=read --bs=256k --iodepth=4
load "the same, flash half as fast" 384 96 500 7 --rw=read --bs=256k --iodepth=4
