#!/bin/sh
# Flash hits against fio: random 4 KiB reads of one file with O_DIRECT, as bare reads (fio, io_uring) and as fetches from
# a warm face-gsc cache, each page verified. Alternately, three times each, in one run. Installs nothing; needs fio.
#
#   benches/flash_hit.sh [FOLDER] [MIB] [SECONDS]     default: target/flash_hit 1024 5
set -eu
cd "$(dirname "$0")/.."
folder=${1:-target/flash_hit} mib=${2:-1024} seconds=${3:-5}
command -v fio > /dev/null || { echo "flash_hit.sh: fio is not installed" >&2; exit 2; }
cargo build --quiet --release -p entresol-engine --example flash_hit
hit=${CARGO_TARGET_DIR:-target}/release/examples/flash_hit
mkdir -p "$folder"
flash=$folder/flash.img disk=$folder/disk.img
trap 'rm -f "$flash" "$disk"' EXIT
"$hit" fill "$flash" "$disk" "$mib"

# Reads a second (field 8 of fio's terse output).
bare() {
    fio --name=bare --filename="$flash" --size="${mib}m" --readonly --rw=randread --bs=4k --direct=1 --norandommap \
        --ioengine=io_uring --iodepth=1 --numjobs="$1" --time_based --runtime="$seconds" --group_reporting \
        --output-format=terse | cut -d';' -f8
}

echo "random 4 KiB reads a second: fio (io_uring, depth 1 a job) and fetches that hit flash (one thread a job)"
for jobs in 1 4 16; do
    fio_all='' hit_all=''
    for round in 1 2 3; do
        fio_all="$fio_all $(bare $jobs)"
        hit_all="$hit_all $("$hit" run "$flash" "$disk" $jobs "$seconds")"
    done
    echo "$jobs;$fio_all;$hit_all" | awk -F';' '{
        n = split($2, fio, " "); split($3, hit, " ")
        for (i = 1; i <= n; i++) { printf "  %2d jobs: fio %7d, entresol %7d, ratio %5.1f %%\n", $1, fio[i], hit[i], 100 * hit[i] / fio[i]; f += fio[i]; h += hit[i] }
        printf "  %2d jobs: ratio of the means %.1f %%\n", $1, 100 * h / f
    }'
done
