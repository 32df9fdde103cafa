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

# Reads a second (field 8 of fio's terse output): jobs, further options.
bare() {
    jobs=$1; shift
    fio --name=bare --filename="$flash" --size="${mib}m" --readonly --rw=randread --bs=4k --direct=1 --norandommap \
        --ioengine=io_uring --iodepth=1 --numjobs="$jobs" --time_based --runtime="$seconds" --group_reporting \
        --output-format=terse "$@" | cut -d';' -f8
}

echo "random 4 KiB reads a second, depth 1 a job: fio (io_uring) with a process a job, fio with a thread a job,"
echo "and verified fetches that hit flash with a thread a job; on $(nproc) cores with a load of $(cut -d' ' -f1 /proc/loadavg)"
for jobs in 1 4 16; do
    rows=''
    for round in 1 2 3; do
        rows="$rows $(bare $jobs) $(bare $jobs --thread) $("$hit" run "$flash" "$disk" $jobs "$seconds")"
    done
    echo "$jobs $rows" | awk '{
        for (i = 2; i < NF; i += 3) {
            printf "  %2d jobs: fio %7d, with threads %7d, entresol %7d: %5.1f %%, %5.1f %%\n", $1, $i, $(i + 1), $(i + 2), 100 * $(i + 2) / $i, 100 * $(i + 2) / $(i + 1)
            processes += $i; threads += $(i + 1); hits += $(i + 2)
        }
        printf "  %2d jobs: %.1f %% of fio, %.1f %% of fio with threads\n", $1, 100 * hits / processes, 100 * hits / threads
    }'
done
