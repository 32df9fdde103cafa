#!/bin/sh
# Hits of the block door against other NBD servers of the same file: random reads by fio's NBD engine from a warm volume,
# from `nbdkit file` and from `qemu-nbd`, all through the page cache and all with O_DIRECT. Alternately, three times each,
# in one run. Installs nothing; needs fio (with its NBD engine), nbdkit and qemu-nbd.
#
#   benches/block_hit.sh [FOLDER] [MIB] [SECONDS]     default: target/block_hit 256 3
set -eu
cd "$(dirname "$0")/.."
folder=${1:-target/block_hit} mib=${2:-256} seconds=${3:-3}
for tool in fio nbdkit qemu-nbd nbdcopy; do
    command -v $tool > /dev/null || { echo "block_hit.sh: $tool is not installed" >&2; exit 2; }
done
cargo build --quiet --release -p entresol
entresol=${CARGO_TARGET_DIR:-target}/release/entresol
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
servers=''
clean() {
    for server in $servers; do kill "$server" 2> /dev/null || true; done
    wait
    rm -f "$folder"/block_hit.*
}
trap clean EXIT
disk=$folder/block_hit.disk flash=$folder/block_hit.flash config=$folder/block_hit.toml socket=$folder/block_hit.sock
head -c "${mib}M" /dev/urandom > "$disk"
truncate -s "$((mib * 5 / 4 + 64))M" "$flash"

# Reads a second (field 8 of fio's terse output): socket, export, bytes of a read, depth, connections.
reads() {
    fio --name=hit --ioengine=nbd --uri="nbd+unix:///$2?socket=$1" --rw=randread --bs="$3" --iodepth="$4" --numjobs="$5" \
        --size="${mib}m" --norandommap --time_based --runtime="$seconds" --group_reporting --output-format=terse | grep '^3;' | cut -d';' -f8
}

wait_for() { until [ -S "$1" ]; do sleep 0.1; done; }

start() {
    direct=$1
    rm -f "$socket" "$folder"/block_hit.kit "$folder"/block_hit.qemu "$folder"/block_hit.toml "$folder"/block_hit.label
    "$entresol" volume create "$config" --disk "$disk" --flash "$flash" --overwrite > /dev/null
    sed -i "s/^direct_io = .*/direct_io = $direct/" "$config"
    # The pages are brought in by streams; and what is measured is hits from flash, not the same file's pages from "disk".
    sed -i "s/^sequential_bypass_bytes = .*/sequential_bypass_bytes = 0/; s/^hits_to_disk = .*/hits_to_disk = false/" "$config"
    "$entresol" serve "$config" > /dev/null & servers="$servers $!"
    if [ "$direct" = true ]; then cache=none; else cache=default; fi
    nbdkit -f -U "$folder/block_hit.kit" file "$disk" "cache=$cache" 2> /dev/null & servers="$servers $!"
    if [ "$direct" = true ]; then cache=none; else cache=writeback; fi
    qemu-nbd -t -e 8 -f raw -r -x data --cache="$cache" -k "$folder/block_hit.qemu" "$disk" & servers="$servers $!"
    wait_for "$socket"; wait_for "$folder/block_hit.kit"; wait_for "$folder/block_hit.qemu"
    # Twice: what is read enters the cache, unless its writers fall behind.
    for _ in 1 2 3; do nbdcopy "nbd+unix:///block_hit?socket=$socket" null:; done
}

echo "random reads a second from a volume whose pages are all in the cache, from nbdkit and from qemu-nbd;"
echo "on $(nproc) cores with a load of $(cut -d' ' -f1 /proc/loadavg)"
for direct in false true; do
    start $direct
    for bytes in 4096 8192; do for depth in 1 32; do for jobs in 1 4; do
        rows=''
        for round in 1 2 3; do
            rows="$rows $(reads "$socket" block_hit $bytes $depth $jobs) $(reads "$folder/block_hit.kit" '' $bytes $depth $jobs)"
            rows="$rows $(reads "$folder/block_hit.qemu" data $bytes $depth $jobs)"
        done
        echo "$direct $bytes $depth $jobs $rows" | awk '{
            for (i = 5; i < NF; i += 3) { ours += $i; kit += $(i + 1); qemu += $(i + 2) }
            best = kit > qemu ? kit : qemu
            printf "  O_DIRECT %-5s %5d bytes, depth %2d, %d connections: entresol %7d, nbdkit %7d, qemu-nbd %7d: %.2f of the better\n", $1, $2, $3, $4, ours / 3, kit / 3, qemu / 3, ours / best
        }'
    done; done; done
    "$entresol" volume status "$config" | sed -n 's/^pages/  pages/p'
    for server in $servers; do kill "$server" 2> /dev/null || true; done
    wait
    servers=''
done
