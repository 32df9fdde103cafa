#!/usr/bin/env bash
# Installs the packages as a new user does, in fresh systems of Debian 12 and 13, and uses them.
#
#   tests/install.sh [--short] [PACKAGES]
#
# PACKAGES is a folder that `cargo xtask package` has filled [default: target/packages]. --short: Debian 12 alone,
# and without a service manager. Needs root, debootstrap and a mirror, which is that of this system's apt; without
# them it says why and passes. It is not below crates/, since it tests no crate: it builds nothing and sees the
# files that a user downloads. A base system is made once, and kept in the user's cache folder.
set -euo pipefail
cd "$(dirname "$0")/.."

suites=(bookworm trixie) short=
if [ "${1:-}" = --short ]; then
  suites=(bookworm) short=yes
  shift
fi
packages=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/packages}")

skip() {
  echo "skipped: $*"
  exit 0
}
(cd "$packages" && sha256sum --check --quiet SHA256SUMS) || { echo "the checksums differ" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/entresol

# With a service manager in the long form.
with=man-db,bash-completion,libnbd-bin,python3-minimal
[ -n "$short" ] || with+=,systemd,dbus

for suite in "${suites[@]}"; do
  # Without a service manager the system is made in less time.
  name=$suite
  [ -z "$short" ] || [ -e "$cache/debian-$suite.tar" ] || name+=-short
  root=$work/$suite
  began=$SECONDS status=0
  # The gate does not wait for a slow mirror.
  ${short:+timeout 100} contrib/debian/system.sh "$name" "$suite" "$root" "$with" 2>"$work/log" || status=$?
  case $status in
    0) ;;
    3) skip "$(cat "$work/log")" ;;
    124) skip "a system of $suite is not made in 100 s" ;;
    *) cat "$work/log" >&2; exit $status ;;
  esac
  echo "$suite: a base system of $(du -smx "$root" | cut -f 1) MB in $((SECONDS - began)) s"
  mkdir -p "$root/packages" "$root/upgrade"
  cp "$packages"/* "$root/packages/"
  # The same package with a higher revision, as the one of an upgrade.
  deb=$(basename "$root"/packages/entresol_*_amd64.deb)
  dpkg-deb --raw-extract "$root/packages/$deb" "$work/upgrade"
  sed -i 's/^Version: .*/&.1/' "$work/upgrade/DEBIAN/control"
  dpkg-deb --root-owner-group -Znone --build "$work/upgrade" "$root/upgrade/entresol.deb" >/dev/null
  rm -rf "$work/upgrade"
  cp tests/install/inside.sh tests/install/service.sh "$root/"

  began=$SECONDS
  contrib/debian/within.sh "$root" bash /inside.sh
  echo "$suite: used in $((SECONDS - began)) s"
  if [ -z "$short" ]; then
    began=$SECONDS
    bash tests/install/service.sh "$root"
    echo "$suite: as a service in $((SECONDS - began)) s"
  fi
  rm -rf "$root"
done
echo "installed, used and removed on ${suites[*]}"

# The wheel, in a fresh environment of this system: the notebooks are executed.
for wheel in "$packages"/entresol-*.whl; do
  [ -z "$short" ] && [ -e "$wheel" ] || continue
  began=$SECONDS
  if ! { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q "$wheel" pandas pyarrow; } >"$work/log" 2>&1; then
    tail -n 3 "$work/log"
    skip "the wheel: it, pandas and pyarrow cannot be installed in a fresh environment"
  fi
  size=$(du -smx "$work"/venv/lib/python3*/site-packages/entresol | cut -f 1)
  "$work/venv/bin/python" -m unittest crates/python/tests/test_notebook.py
  echo "the wheel: installed ($size MB) and the notebooks executed in $((SECONDS - began)) s"
done
