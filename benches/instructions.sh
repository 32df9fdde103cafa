#!/usr/bin/env bash
# Instructions that the core's hot paths take, counted by valgrind (callgrind): the same on every run and machine of one
# kind. "jobs" is the bookkeeping of writes and dequeues for each page that enters.
#
# usage: benches/instructions.sh [policy ...]
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || { echo "benches/instructions.sh needs valgrind; install it and try again" >&2; exit 2; }
case "${1:-}" in
  -*) echo "usage: benches/instructions.sh [policy ...]" >&2; exit 2 ;;
esac
calls=4096
policies=("$@")
[ ${#policies[@]} -gt 0 ] || policies=(face face-gr face-gsc lc)

cargo build --release --quiet --package entresol-core --example hot_path_counts
program="${CARGO_TARGET_DIR:-target}/release/examples/hot_path_counts"
# A "rep movsb" would be counted once for each byte.
export GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1073741824
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# print_count FORMAT CALLS ARGUMENT...: runs $program with the arguments and prints the instructions of one call in its
# functions `counted_...`.
print_count() {
  local format=$1 calls=$2
  shift 2
  valgrind --quiet --tool=callgrind --callgrind-out-file="$out/counts" --collect-atstart=no \
    --toggle-collect='*counted_*' "$program" "$@" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
  awk -v format=" %12s" -v each="$format" -v calls="$calls" \
    '/^(totals|summary):/ { printf format, sprintf(each, $2 / calls); exit }' "$out/counts"
}

printf '%-10s %12s %12s %12s %12s %12s\n' policy fetch-hit fetch-miss evict jobs attach
for policy in "${policies[@]}"; do
  printf '%-10s' "$policy"
  for path in fetch-hit fetch-miss evict jobs attach; do
    print_count %.1f "$calls" "$policy" "$path" "$calls"
  done
  printf '\n'
done

# The front's work, whatever the number of pages that die by it.
cargo build --release --quiet --package entresol-engine --example retire_costs
program="${CARGO_TARGET_DIR:-target}/release/examples/retire_costs"
printf '\n%-28s %12s %12s\n' 'object with cached pages' retire cut
for pages in 10 1000000; do
  printf '%-28s' "$pages"
  for what in retire cut; do
    print_count %.0f 1 "$what" "$pages"
  done
  printf '\n'
done

# Whole calls of a front, in memory of its own process and in a segment: with the proof of the page or its copy and
# checksum. A private front reads the disk itself when it misses.
cargo build --release --quiet --package entresol-engine --example front_counts
program="${CARGO_TARGET_DIR:-target}/release/examples/front_counts"
calls=1024
printf '\n%-10s %12s %12s %12s\n' front fetch-hit fetch-miss evict
for memory in private mapped; do
  printf '%-10s' "$memory"
  for path in fetch-hit fetch-miss evict; do
    if [ "$memory $path" = 'private fetch-miss' ]; then
      printf ' %12s' -
      continue
    fi
    print_count %.1f "$calls" "$memory" "$path" "$calls"
  done
  printf '\n'
done

# A hit of SCE's cache of raw pages, uniform over 256 fragments, with the read of the page's checksum from flash if it is
# not in memory.
cargo build --release --quiet --package entresol-engine --example fragment_hits
program="${CARGO_TARGET_DIR:-target}/release/examples/fragment_hits"
printf '\n%-28s %12s\n' 'sce, proofs in memory of' hit
for kept in 256 16; do
  printf '%-28s' "$kept of 256 fragments"
  print_count %.1f 1024 "$kept" count 1024
  printf '\n'
done
