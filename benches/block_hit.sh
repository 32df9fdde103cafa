#!/bin/sh
# Hits of the block door against other NBD servers of the same file: random reads by fio's NBD engine from a warm volume,
# from `nbdkit file` and from `qemu-nbd`, all through the page cache and all with O_DIRECT. Alternately, three times each,
# in one run. Also the CPU time of the server for each read. Installs nothing; needs fio (with its NBD engine), nbdkit and qemu-nbd.
#
# ENTRESOL names the program, if it need not be built; POLICY another policy than face-gsc.
#
#   benches/block_hit.sh [FOLDER] [MIB] [SECONDS]     default: target/block_hit 256 3
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
mib=${2:-256} seconds=${3:-3}
need_tools fio nbdkit qemu-nbd nbdcopy
need_command
begin_folder "${1:-target/block_hit}"
servers=''
clean_more() { ended $servers; }
disk=$folder/disk flash=$folder/flash config=$folder/data.toml socket=$folder/data.sock
head -c "${mib}M" /dev/urandom > "$disk"
truncate -s "$((mib * 5 / 4 + 64))M" "$flash"

# CPU time that a process has taken, in ticks.
ticks() { cut -d' ' -f14,15 "/proc/$1/stat" | awk '{ print $1 + $2 }'; }

# Reads a second (field 8 of fio's terse output), and the nanoseconds of CPU time that the server took for each: its process,
# socket, export, bytes of a read, depth, connections.
reads() {
    before=$(ticks "$1")
    count=$(fio --name=hit --ioengine=nbd --uri="nbd+unix:///$3?socket=$2" --rw=randread --bs="$4" --iodepth="$5" --numjobs="$6" \
        --size="${mib}m" --norandommap --time_based --runtime="$seconds" --group_reporting --output-format=terse \
        | grep '^3;' | cut -d';' -f8)
    echo "$count $((($(ticks "$1") - before) * 1000000000 / $(getconf CLK_TCK) / (count * seconds + 1)))"
}

start() {
    direct=$1
    rm -f "$folder/kit" "$folder/qemu" "$config" "$folder/data.label"
    "$entresol" volume create "$config" --disk "$disk" --flash "$flash" --overwrite --policy "${POLICY:-face-gsc}" > /dev/null
    sed -i "s/^direct_io = .*/direct_io = $direct/" "$config"
    # The pages are brought in by a stream of writes; and what is measured is hits from flash, not the same file's pages from "disk".
    sed -i "s/^sequential_bypass_bytes = .*/sequential_bypass_bytes = 0/; s/^hits_to_disk = .*/hits_to_disk = false/" "$config"
    serve
    servers="$servers $server" ours=$server server=''
    if [ "$direct" = true ]; then cache=none; else cache=default; fi
    nbdkit -f -U "$folder/kit" file "$disk" "cache=$cache" 2> /dev/null & servers="$servers $!" kit=$!
    if [ "$direct" = true ]; then cache=none; else cache=writeback; fi
    qemu-nbd -t -e 8 -f raw -r -x data --cache="$cache" -k "$folder/qemu" "$disk" & servers="$servers $!" qemu=$!
    wait_for "$folder/kit"; wait_for "$folder/qemu"
    # What is written enters the cache: by one writer, so that adjacent pages lie side by side on flash, as in the file.
    nbdcopy --flush --connections=1 --requests=1 "$disk" "nbd+unix:///data?socket=$socket"
    tries=0
    until "$entresol" volume status "$config" | grep -q "^pages  *$((mib * 256)) of"; do
        tries=$((tries + 1))
        # A cache of fragments takes what is read, when it was read often enough.
        reads $ours "$socket" data 4096 32 1 > /dev/null
        [ $tries -lt 40 ] || { echo "block_hit.sh: not all pages are in the cache" >&2; exit 1; }
        sleep 0.5
    done
}

echo "random reads a second from a volume whose pages are all in the cache, from nbdkit and from qemu-nbd;"
load_now
for direct in false true; do
    start $direct
    for bytes in 4096 8192; do for depth in ${DEPTHS:-1 32}; do for jobs in ${JOBS:-1 4}; do
        rows=''
        for round in 1 2 3; do
            rows="$rows $(reads $ours "$socket" data $bytes $depth $jobs)"
            rows="$rows $(reads $kit "$folder/kit" '' $bytes $depth $jobs)"
            rows="$rows $(reads $qemu "$folder/qemu" data $bytes $depth $jobs)"
        done
        echo "$direct $bytes $depth $jobs $rows" | awk '{
            for (i = 5; i < NF; i += 6) {
                ours += $i; kit += $(i + 2); qemu += $(i + 4)
                ours_ns += $(i + 1); kit_ns += $(i + 3); qemu_ns += $(i + 5); n++
            }
            best = kit > qemu ? kit : qemu
            printf "  O_DIRECT %-5s %5d bytes, depth %2d, %d connections: ", $1, $2, $3, $4
            printf "entresol %7d, nbdkit %7d, qemu-nbd %7d: %.2f of the better; ", ours / n, kit / n, qemu / n, ours / best
            printf "CPU %.1f, %.1f, %.1f us a read\n", ours_ns / n / 1000, kit_ns / n / 1000, qemu_ns / n / 1000
        }'
    done; done; done
    "$entresol" volume status "$config" | sed -n 's/^pages/  pages/p'
    ended $servers
    servers=''
done
