#!/usr/bin/env bash
# What a PostgreSQL backend's calls of the flash cache cost: instructions, counted by valgrind (callgrind), and the best
# time of many batches, beside the bare pread of the same pages. "absent" is a look-up in vain, "again" the eviction of a
# clean page that is on flash.
#
# usage: benches/pg_instructions.sh
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# = 0 ] || { echo "usage: benches/pg_instructions.sh" >&2; exit 2; }
command -v valgrind >/dev/null || { echo "benches/pg_instructions.sh needs valgrind; install it and try again" >&2; exit 2; }
cargo build --release --quiet --package entresol-pg --example door_counts
program="${CARGO_TARGET_DIR:-target}/release/examples/door_counts"
# A "rep movsb" would be counted once for each byte.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
calls=1024

for what in read absent evict again; do
  valgrind --quiet --tool=callgrind --callgrind-out-file="$out/counts" --collect-atstart=no \
    --toggle-collect='*counted_*' "$program" "$calls" count "$what" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
  awk -v what="$what" -v calls="$calls" \
    '/^(totals|summary):/ { printf "%-20s %8.0f instructions\n", what, $2 / calls; exit }' "$out/counts"
done
"$program" 200000 time
