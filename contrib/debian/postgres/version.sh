#!/bin/sh
# Run in a fresh system of Debian by `cargo xtask postgres deb`: which version of the package this release has.
#
#   version.sh MAJOR
#
# After: /build/version.
set -eu
export LC_ALL=C.UTF-8

sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get update -qq -o APT::Sandbox::User=root
apt-cache show --no-all-versions "postgresql-$1" | sed -n 's/^Version: //p' >/build/version
if [ ! -s /build/version ]; then
  echo "this release has no package postgresql-$1"
  exit 1
fi
