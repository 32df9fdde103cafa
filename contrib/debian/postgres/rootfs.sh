#!/usr/bin/env bash
# Makes a root file system for an image of PostgreSQL with the flash cache, of a package of `cargo xtask postgres deb`.
#
#   rootfs.sh cloudnativepg | official PACKAGE TARBALL
#
# cloudnativepg: for CloudNativePG, which brings its own entry point and runs the server as user 26
# (https://cloudnative-pg.io/documentation/current/container_images/). official: with the conventions of Docker's
# official image: user 999, /usr/local/bin/docker-entrypoint.sh, POSTGRES_PASSWORD, /docker-entrypoint-initdb.d, and
# 18's folder of data, /var/lib/postgresql/18/docker (https://hub.docker.com/_/postgres). Needs root and debootstrap,
# no daemon.
set -euo pipefail
target=$1 deb=$(realpath "$2") tarball=$(realpath "$3")
here=$(dirname "$(realpath "$0")")
case $target in
  cloudnativepg) user=26 ;;
  official) user=999 ;;
  *) echo "there is no target $target: cloudnativepg or official" >&2; exit 2 ;;
esac
name=$(dpkg-deb --field "$deb" Package) major=${name//[!0-9]/}
suite=forky
[ "$major" -ge 18 ] || suite=trixie

work=$(mktemp -d)
trap 'rm -rf "$work" "$tarball.$$"' EXIT
root=$work/root
"$here/../system.sh" "$suite-minimal" "$suite" "$root"
cp "$deb" "$root/package.deb"
"$here/../within.sh" "$root" bash -euc '
  major=$1 user=$2
  export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
  # Group 26 is another one in Debian.
  groupadd --gid 999 postgres
  useradd --uid "$user" --gid postgres --home-dir /var/lib/postgresql --shell /bin/bash postgres
  mkdir -p /etc/postgresql-common
  echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
  apt-get update -qq -o APT::Sandbox::User=root
  apt-get install -y -qq --no-install-recommends -o APT::Sandbox::User=root -o Dpkg::Options::=--force-confold \
    /package.deb locales xz-utils zstd >/dev/null
  localedef -i en_US -f UTF-8 en_US.UTF-8
  # The programs are on the path; those of postgresql-common look for clusters in /etc/postgresql.
  ln -sf "/usr/lib/postgresql/$major/bin/"* /usr/local/bin/
  rm -f /usr/local/bin/*.distrib
  rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/* /package.deb /etc/ssl/private/ssl-cert-snakeoil.key
  install -d -o postgres -g postgres -m 3777 /var/run/postgresql
  install -d -o postgres -g postgres -m 755 /var/lib/postgresql
' within "$major" "$user" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; exit 1; }
if [ "$target" = official ]; then
  install -m 755 "$here/entrypoint.sh" "$root/usr/local/bin/docker-entrypoint.sh"
  mkdir -p "$root/docker-entrypoint-initdb.d"
fi
# The network of the system in which it was made.
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
# The file system of /run was another one meanwhile.
install -d -o "$user" -g 999 -m 3777 "$root/run/postgresql"
tar -C "$root" --numeric-owner --one-file-system -cf "$tarball.$$" .
mv "$tarball.$$" "$tarball"
echo "$tarball: $(($(stat -c %s "$tarball") / 1048576)) MB, user $user"
