#!/bin/sh
# Run in the system of version.sh by `cargo xtask postgres deb`: installs PostgreSQL as this release has it, and what it
# is compiled with, and unpacks its source with Debian's patches to /build/source.
#
#   source.sh MAJOR
#
# After: /build/orig, the name of the source without patches.
set -eu
major=$1
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold -o APT::Sandbox::User=root \
  "postgresql-$major=$(cat /build/version)" \
  gcc make perl bison flex pkgconf gettext dpkg-dev libc6-dev systemtap-sdt-dev libreadline-dev zlib1g-dev \
  libicu-dev liburing-dev libssl-dev libxml2-dev libxslt1-dev libldap-dev libkrb5-dev libpam0g-dev libsystemd-dev \
  libselinux1-dev uuid-dev liblz4-dev libzstd-dev libnuma-dev libcurl4-openssl-dev bzip2 xz-utils

# apt compares the checksums with those of the signed index.
mkdir -p /build/archive
cd /build/archive
apt-get source -qq --download-only -o APT::Sandbox::User=root "postgresql-$major=$(cat /build/version)"
ls postgresql-*.orig.tar.* >/build/orig
rm -rf /build/source
dpkg-source --no-check --extract ./*.dsc /build/source
