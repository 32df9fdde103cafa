#!/usr/bin/env bash
# Makes a fresh system of Debian in FOLDER, which must not exist.
#
#   system.sh NAME SUITE FOLDER [PACKAGES]
#
# SUITE is the codename of a release, PACKAGES are more packages, separated by commas. Needs root, debootstrap and a
# mirror, which is that of this system's apt. A base system is made once, and kept in the user's cache folder as
# NAME. Where none can be made, the exit status is 3, and one sentence on stderr says why.
set -euo pipefail
name=$1 suite=$2 root=$3 with=${4:-}

cannot() {
  echo "$*" >&2
  exit 3
}
[ "$(id -u)" = 0 ] || cannot "fresh systems are made by root only"
command -v debootstrap >/dev/null || cannot "there is no debootstrap"
unshare --mount --pid --fork true 2>/dev/null || cannot "this system allows no namespaces"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep '/debian/$' | head -n 1 || true)
[ -n "$mirror" ] || cannot "apt names no mirror of Debian"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/entresol
base=$cache/debian-$name.tar
mkdir -p "$cache" "$(dirname "$root")"
if [ -e "$base" ]; then
  mkdir "$root"
  tar -C "$root" -xf "$base"
  exit
fi
# A release that is newer than debootstrap is made as sid is.
like=
[ -e "/usr/share/debootstrap/scripts/$suite" ] || like=sid
log=$(mktemp)
trap 'rm -f "$log" "$base.$$"' EXIT
debootstrap --variant=minbase ${with:+"--include=$with"} "$suite" "$root" "$mirror" $like >"$log" 2>&1 ||
  cannot "debootstrap cannot make a system of $suite from the mirror of this system: $(tail -n 1 "$log")"
# A mirror that stands still is accepted where this system accepts it.
apt-config dump | grep '^Acquire::Check-' >"$root/etc/apt/apt.conf.d/20check" || rm "$root/etc/apt/apt.conf.d/20check"
rm -rf "$root"/var/cache/apt/archives/*.deb
tar -C "$root" --one-file-system -cf "$base.$$" .
mv "$base.$$" "$base"
