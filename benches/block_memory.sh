#!/bin/sh
# Memory of the block door: how much the resident set grows with each slot of the cache, between two sizes of flash, when
# all slots are in use; and what does not depend on the size. Needs little room: pages are zeros, and files sparse.
#
#   benches/block_memory.sh [SMALL_GIB] [LARGE_GIB] [POLICY ...]     default: 4 16 face-gsc
set -eu
cd "$(dirname "$0")/.."
small=${1:-4} large=${2:-16}
[ $# -gt 2 ] && shift 2 || set -- face-gsc
cargo build --quiet --release -p entresol-block --example memory
program=${CARGO_TARGET_DIR:-target}/release/examples/memory
for policy in "$@"; do
    for gib in "$small" "$large"; do "$program" "$gib" "$policy"; done | tee /dev/stderr | awk '{
        for (i = 1; i < NF; i++) { if ($(i + 1) == "slots,") slots[NR] = $i; if ($(i + 1) == "when") full[NR] = $(NF - 2) }
    } END {
        each = (full[2] - full[1]) / (slots[2] - slots[1])
        printf "  %.2f bytes a slot, %.1f MiB besides\n", each, (full[1] - each * slots[1]) / 1048576
        exit each > 22
    }'
done
