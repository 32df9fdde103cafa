#!/bin/sh
# Run in the system of source.sh by `cargo xtask postgres deb`: compiles the changed programs of PostgreSQL and the
# module, as the installed package of Debian says that it was configured.
#
#   build.sh MAJOR
#
# Before: /build/source, with all patches; /build/entresol, the module's; /build/libentresol_pg.a. After: /build/stage,
# the files of the package; /build/depends, the packages of the libraries that they need.
set -eu
major=$1
export LC_ALL=C.UTF-8

# Languages, JIT and tests are in other packages of Debian, which stay as they are.
bin=/usr/lib/postgresql/$major/bin
eval "set -- $("$bin/pg_config" --configure)"
for option; do
  shift
  case $option in
    --with-tcl | --with-perl | --with-python | --with-llvm | --enable-tap-tests) continue ;;
    # Debian makes its own configure, which has this option; it changes no program.
    --runstatedir=*) continue ;;
    LLVM_CONFIG=* | CLANG=* | PYTHON=* | CXX* | PROVE=* | XSLTPROC=*) continue ;;
    # No name of this folder in the programs.
    CFLAGS=*) option="$option -ffile-prefix-map=/build/source=." ;;
  esac
  set -- "$@" "$option"
done
cd /build/source
./configure "$@"
# Libraries first: the rules of the server alone do not wait for them.
make -j"$(nproc)" -C src/backend generated-headers
for part in port common backend fe_utils bin/pg_rewind bin/pg_resetwal; do
  make -j"$(nproc)" -C "src/$part" all
done

# Headers and rules of the patched server, for the module; this system is thrown away.
make -C src/include install
make -C src install-local
make -C src/makefiles install
make -C config install
stage=/build/stage
rm -rf "$stage"
make -C /build/entresol PG_CONFIG="$bin/pg_config" COPT=-Werror CORE=/build/libentresol_pg.a all
make -C /build/entresol PG_CONFIG="$bin/pg_config" CORE=/build/libentresol_pg.a install DESTDIR="$stage"
rm -rf "$stage/usr/include"
install -D -m 755 -t "$stage$bin" src/backend/postgres src/bin/pg_rewind/pg_rewind src/bin/pg_resetwal/pg_resetwal
strip --strip-unneeded --remove-section=.comment "$stage$bin"/* "$stage/usr/lib/postgresql/$major/lib/entresol.so"
chmod 644 "$stage/usr/lib/postgresql/$major/lib/entresol.so"

# The libraries' packages, with the versions that are needed.
mkdir -p /build/control/debian
printf 'Source: entresol\n\nPackage: entresol-postgresql\nArchitecture: any\n' >/build/control/debian/control
cd /build/control
dpkg-shlibdeps -O "$stage$bin"/* "$stage/usr/lib/postgresql/$major/lib/entresol.so" >/build/depends
