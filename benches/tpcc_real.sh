#!/bin/sh
# TPC-C under the wall clock on a slow disk, under several policies one after the other: what `entresol bench tpcc` simulates, on
# files. Disk, flash and log are loop devices past the page cache; the disk is throttled by a control group (blkio, version 1) to
# 1,000 reads and 1,000 writes a second, and 100 MB a second; writes only when the database has been loaded, which writes page
# by page. Each policy begins with a blank flash. Needs root, losetup, control groups of version 1, 6 GB. Installs nothing; exits
# with 77 if something is missing.
#
#   benches/tpcc_real.sh [FOLDER] [MINUTES] [SYSTEMS] [OPTIONS OF bench tpcc ...]
#
# default: a temporary folder, 3, disk-only,face-gsc,lc,s3-fifo,reuse,reuse-slots; 16 % of flash
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
minutes=${2:-3} systems=${3:-disk-only,face-gsc,lc,s3-fifo,reuse,reuse-slots}
need_tools lsblk losetup
[ "$(id -u)" = 0 ] || missing "only root can throttle a device"
blkio=/sys/fs/cgroup/blkio
[ -e $blkio/blkio.throttle.read_iops_device ] || missing "this machine has no control group blkio of version 1"
need_command
begin_folder "${1:-}"
[ $# -gt 3 ] && shift 3 || shift $#
server_cgroup=$blkio/entresol-$$
mkdir "$server_cgroup"
devices=''
clean_more() {
    for device in $devices; do losetup -d "$device" || true; done
    sleep 0.2
    rmdir "$server_cgroup" 2> /dev/null || true
}
for name in disk flash log; do
    truncate -s 5G "$folder/$name"
    device=$(losetup -f --show --direct-io=on "$folder/$name")
    devices="$devices $device"
    eval "$name=$device"
done
number=$(lsblk -dno MAJ:MIN "$disk" | tr -d ' ')
limit() { echo "$number $2" > "$server_cgroup/blkio.throttle.$1_device"; }
limit read_iops 1000; limit read_bps 100000000; limit write_bps 100000000
# Sectors written to the log so far: many, once there are transactions.
logged() { awk '{ print $7 }' "/sys/block/$(basename "$log")/stat"; }
load_now
for system in $(echo "$systems" | tr ',' ' '); do
    limit write_iops 0
    before=$(logged)
    (
        while [ $(($(logged) - before)) -lt 8192 ]; do sleep 0.2; done
        limit write_iops 1000
    ) & watcher=$!
    sh -c 'echo 0 > "$1/cgroup.procs"; shift; exec "$@"' sh "$server_cgroup" \
        "$entresol" bench tpcc --real --flash "$flash" --disk "$disk" --log "$log" --overwrite --flash-percent 16 \
        --warehouses 10 --minutes "$minutes" --system "$system" --json "$folder/$system.json" "$@" > "$folder/out" 2>&1 \
        || { kill $watcher; cat "$folder/out" >&2; exit 1; }
    wait $watcher
    tpmc=$(sed -n 's/.*"tpmC": *\([0-9.]*\).*/\1/p' "$folder/$system.json")
    hits=$(sed -n 's/.*"flash_hit_rate": *\([0-9.]*\).*/\1/p' "$folder/$system.json")
    echo "$system: tpmC ${tpmc%.*}, flash hits ${hits:--}"
done
load_now
