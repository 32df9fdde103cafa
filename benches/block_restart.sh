#!/bin/sh
# Warm restarts of the block door: the part of the pages read that the cache had, in ten seconds before a stop, and in the first ten
# seconds after it: a clean one (SIGTERM), and kill -9. Four of five requests are reads; nine of ten go to a tenth of the
# volume, which is four times as large as the flash. Needs fio (with its NBD engine).
# ENTRESOL names the program, if it need not be built.
#
#   benches/block_restart.sh [FOLDER] [MIB] [SECONDS]     default: target/block_restart 1024 10
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
mib=${2:-1024} seconds=${3:-10}
need_tools fio python3
need_command
begin_folder "${1:-target/block_restart}"
base=$folder/data

# So many seconds of the workload with the random numbers of seed $2.
work() {
    fio --name=restart --ioengine=nbd --uri="nbd+unix:///data?socket=$base.sock" --rw=randrw --rwmixread=80 --bs=4096 \
        --iodepth=8 --size="${mib}m" --random_distribution=zoned:90/10:10/90 --norandommap --randseed="$2" --time_based \
        --runtime="$1" --output-format=terse > /dev/null
}

# Pages read, and those of them that came from the cache.
reads() {
    "$entresol" volume status "$base.toml" --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
hits = status["staging_hits"] + status["flash_hits"]
print(hits + status["disk_reads"], hits, status["dirty_pages"])'
}

rate() {
    echo "$1 $2" | awk '{ printf "%.3f", ($1 > 0) ? $2 / $1 : 0 }'
}

echo "part of the reads served by the cache, in $seconds seconds; $(load_now)"
for mode in write-through write-back; do
    rm -f "$base".toml "$base".label "$base".flash "$base".disk
    truncate -s "${mib}M" "$base.disk"
    truncate -s "$((mib / 4 + 16))M" "$base.flash"
    "$entresol" volume create "$base.toml" --disk "$base.disk" --flash "$base.flash" --mode "$mode" --policy "${POLICY:-face-gsc}" > /dev/null
    sed -i "s/^hits_to_disk = .*/hits_to_disk = false/" "$base.toml"
    serve
    work $((seconds * 3)) 1
    seed=2
    for signal in TERM KILL; do
        set -- $(reads); all=$1 hits=$2
        work "$seconds" $seed
        set -- $(reads)
        before=$(rate $(($1 - all)) $(($2 - hits))) dirty=$3
        begin=$(date +%s%N)
        kill -s $signal "$server"
        wait "$server" 2> /dev/null || true
        stopped=$(date +%s%N)
        serve
        ready=$(date +%s%N)
        work "$seconds" $((seed + 1))
        set -- $(reads)
        printf '  %-13s %-4s: before %s, after %s; stopped in %d ms with %d dirty pages, ready after %d ms\n' \
            "$mode" $signal "$before" "$(rate "$1" "$2")" $(((stopped - begin) / 1000000)) "$dirty" $(((ready - stopped) / 1000000))
        seed=$((seed + 2))
    done
    stop_server
done
