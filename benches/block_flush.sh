#!/bin/sh
# Flushes of the block door: random writes of 4 KiB, a flush after each, by 1 and by 16 clients. A raw file with fdatasync on
# the same file system, the same file behind `nbdkit`, and a cached volume in both modes; alternately, three times each, in
# one run. Also how many blocks of 4 KiB the server has written to its devices for each flush. Installs nothing; needs
# fio (with its NBD engine) and nbdkit.
# ENTRESOL names the program, if it need not be built.
#
#   benches/block_flush.sh [FOLDER] [MIB] [SECONDS]     default: target/block_flush 256 3
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
mib=${2:-256} seconds=${3:-3}
need_tools fio nbdkit
need_command
begin_folder "${1:-target/block_flush}"
servers=''
clean_more() { ended $servers; }

# Writes a second (field 49 of fio's terse output).
count() { grep '^3;' | cut -d';' -f49; }
common="--name=flush --rw=randwrite --bs=4096 --iodepth=1 --size=${mib}m --norandommap --time_based --runtime=$seconds
    --group_reporting --output-format=terse"
raw() { fio $common --filename="$folder/raw" --ioengine=psync --fdatasync=1 --numjobs="$1" | count; }
through() { fio $common --ioengine=nbd --uri="nbd+unix:///$2?socket=$1" --fsync=1 --numjobs="$3" | count; }
# Bytes that a process has had written to devices.
written() { sed -n 's/^write_bytes: //p' "/proc/$1/io"; }

# A volume in mode $1.
start() {
    # Written once, as a device is: else each sync would write what the file system notes of new blocks.
    head -c "${mib}M" /dev/zero > "$folder/$1.disk"
    head -c "$((mib * 5 / 4 + 64))M" /dev/zero > "$folder/$1.flash"
    sync "$folder/$1.disk" "$folder/$1.flash"
    "$entresol" volume create "$folder/$1.toml" --disk "$folder/$1.disk" --flash "$folder/$1.flash" --mode "$1" --policy "${POLICY:-face-gsc}" > /dev/null
    # The flash here is no slower than the disk: what is measured is the cache.
    sed -i "s/^hits_to_disk = .*/hits_to_disk = false/" "$folder/$1.toml"
    serve_as "$1"
    servers="$servers $server"
}

head -c "${mib}M" /dev/zero > "$folder/raw"
head -c "${mib}M" /dev/zero > "$folder/kitdisk"
nbdkit -f -U "$folder/kit" file "$folder/kitdisk" & servers="$servers $!"
wait_for "$folder/kit"
start write-through
server_wt=$server
start write-back
server_wb=$server server=''
echo "flushes a second, each after a random write of 4 KiB; $(load_now)"
for clients in 1 16; do
    rows=''
    for round in 1 2 3; do
        rows="$rows $(raw $clients) $(through "$folder/kit" '' $clients)"
        for mode in wt wb; do
            case $mode in wt) name=write-through process=$server_wt ;; wb) name=write-back process=$server_wb ;; esac
            before=$(written "$process")
            flushes=$(through "$folder/$name.sock" "$name" $clients)
            rows="$rows $flushes $(($(written "$process") - before))"
        done
    done
    echo "$clients $seconds $rows" | awk '{
        for (i = 3; i < NF; i += 6) {
            raw += $i; kit += $(i + 1); wt += $(i + 2); wt_bytes += $(i + 3); wb += $(i + 4); wb_bytes += $(i + 5); n++
        }
        printf "  %2d clients: raw file %6d; nbdkit %6d\n", $1, raw / n, kit / n
        printf "              write-through %6d, %.2f of raw, %.1f blocks written a flush\n", wt / n, wt / raw, wt_bytes / 4096 / (wt * $2)
        printf "              write-back    %6d, %.2f of raw, %.1f blocks written a flush\n", wb / n, wb / raw, wb_bytes / 4096 / (wb * $2)
    }'
done
