#!/usr/bin/env bash
# Installs the package of `cargo xtask postgres deb` as a new user does, in a fresh system of Debian, with the commands
# that docs/POSTGRESQL.md shows; then upgrades, kills, and removes.
#
#   tests/install/postgres.sh [PACKAGES]
#
# PACKAGES is a folder that `cargo xtask postgres deb` has filled [default: target/packages/postgres]. Needs root,
# debootstrap and a mirror; without them it says why and passes.
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/packages/postgres}")
debs=("$packages"/postgresql-*-entresol_*_amd64.deb)
[ -e "${debs[0]}" ] || { echo "$packages has no package: call cargo xtask postgres deb" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for deb in "${debs[@]}"; do
  began=$SECONDS
  name=$(dpkg-deb --field "$deb" Package) major=${name//[!0-9]/}
  suite=forky
  [ "$major" -ge 18 ] || suite=trixie
  root=$work/$suite
  contrib/debian/system.sh "$suite-minimal" "$suite" "$root" 2>"$work/log" || {
    status=$?
    [ $status = 3 ] || { cat "$work/log" >&2; exit $status; }
    echo "skipped: $(cat "$work/log")"
    exit 0
  }
  echo "$name on $suite: a base system of $(du -smx "$root" | cut -f 1) MB in $((SECONDS - began)) s"
  mkdir "$root/packages"
  cp "$deb" "$root/packages/"
  cp tests/install/postgres-inside.sh "$root/inside.sh"
  # The commands of the page, with its major version.
  sed -n '/^### As a package of Debian/,/^```$/p' docs/POSTGRESQL.md | sed '1,/^```sh$/d; /^```$/d' |
    sed "s/\b18\b/$major/g" >"$root/packages/commands.sh"
  contrib/debian/within.sh "$root" bash /inside.sh "$major"
  rm -rf "$root"
  echo "$name on $suite: $((SECONDS - began)) s in all"
done
