#!/usr/bin/env bash
# Makes both root file systems for images of the package of `cargo xtask postgres deb`, and runs servers in them by
# chroot, as the engine of their target would call them. No container engine is used.
#
#   tests/install/rootfs.sh [PACKAGES]
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/packages/postgres}")
debs=("$packages"/postgresql-*-entresol_*_amd64.deb)
[ -e "${debs[0]}" ] || { echo "$packages has no package: call cargo xtask postgres deb" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for deb in "${debs[@]}"; do
  for target in cloudnativepg official; do
    began=$SECONDS status=0
    contrib/debian/postgres/rootfs.sh "$target" "$deb" "$work/$target.tar" 2>"$work/said" || status=$?
    if [ "$status" = 3 ]; then
      echo "skipped: $(cat "$work/said")"
      exit 0
    elif [ "$status" != 0 ]; then
      cat "$work/said" >&2
      exit "$status"
    fi
    made=$((SECONDS - began))
    mkdir "$work/system"
    tar -C "$work/system" -xf "$work/$target.tar"
    cp tests/install/rootfs-inside.sh "$work/system/inside.sh"
    contrib/debian/within.sh "$work/system" bash /inside.sh "$target"
    rm -rf "$work/system" "$work/$target.tar"
    echo "$target: made in $made s, used in $((SECONDS - began - made)) s"
  done
done
