#!/usr/bin/env bash
# Run by chroot in a root file system of contrib/debian/postgres/rootfs.sh by tests/install/rootfs.sh.
set -euo pipefail
trap 'echo "  failed: line $LINENO: $BASH_COMMAND" >&2; tail -n 5 /tmp/log 2>/dev/null >&2' ERR
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=en_US.UTF-8
target=$1
major=$(basename /usr/lib/postgresql/*)
flash=(-c shared_preload_libraries=entresol -c entresol.size=128MB -c shared_buffers=16MB)

ok() {
  echo "  ok: $*"
}
fail() {
  echo "  failed: $*" >&2
  exit 1
}
# The file system of /run is not the image's here: within.sh.
install -d -o postgres -g postgres -m 3777 /run/postgresql
[ "$(ls -A /etc/postgresql 2>/dev/null)" = "" ] || fail "a cluster was made"

# hits PSQL...: a load, and its hits.
hits() {
  "$@" -qc 'CREATE EXTENSION IF NOT EXISTS entresol' -c 'CREATE TABLE t AS SELECT i, repeat($$x$$, 500) FROM generate_series(1, 100000) i' \
    -c CHECKPOINT -c 'SELECT count(*) FROM t' -c 'SELECT sum(i) FROM t' >/dev/null
  "$@" -XAtqc 'SELECT flash_hits + staging_hits FROM entresol_stat'
}

# https://cloudnative-pg.io/documentation/current/container_images/, and what the operator does by itself: it calls the
# programs as user 26, with a folder of data of its own.
cloudnativepg() {
  local data=/var/lib/postgresql/data/pgdata as=(setpriv --reuid 26 --regid 26 --clear-groups env HOME=/var/lib/postgresql)
  [ "$(id -u postgres)" = 26 ] || fail "the user of the servers is $(id -u postgres)"
  for program in initdb postgres pg_ctl pg_controldata pg_basebackup pg_rewind psql du; do
    "${as[@]}" "$program" --version >/dev/null || fail "$program is not on the path"
  done
  locale -a | grep -qx en_US.utf8 || fail "no locale"
  ok "the programs of the list are on the path, and a locale"
  "${as[@]}" initdb -D "$data" >/tmp/log 2>&1
  "${as[@]}" pg_ctl -D "$data" -l /tmp/server.log -o "${flash[*]} -c entresol.flash=/var/lib/postgresql/flash" -w start >/tmp/log
  local found
  found=$(hits "${as[@]}" psql -d postgres)
  [ "$found" -gt 0 ] || fail "$found hits"
  "${as[@]}" pg_basebackup -D /var/lib/postgresql/backup -c fast
  "${as[@]}" pg_verifybackup /var/lib/postgresql/backup >/tmp/log 2>&1
  "${as[@]}" pg_ctl -D "$data" -m fast -w stop >/tmp/log
  "${as[@]}" pg_controldata "$data" >/tmp/log
  ok "a cluster of user 26 with a flash: $found hits; a base backup"
}

# https://hub.docker.com/_/postgres: arguments and variables as a user of the official image gives them.
official() {
  local data=/var/lib/postgresql/$major/docker entry=docker-entrypoint.sh
  [ "$(id -u postgres)" = 999 ] || fail "the user of the servers is $(id -u postgres)"
  if "$entry" >/tmp/log 2>&1; then fail "a cluster without a password was made"; fi
  grep -q POSTGRES_PASSWORD /tmp/log || fail "nothing is said of the password"
  [ ! -e "$data/PG_VERSION" ] || fail "a refused cluster was made"
  "$entry" psql --version | grep -q PostgreSQL || fail "another command is not run"

  echo 'CREATE TABLE from_sql (i int);' >/docker-entrypoint-initdb.d/10.sql
  echo 'psql -U "$POSTGRES_USER" -d "$POSTGRES_DB" -c "CREATE TABLE from_shell (i int)"' >/docker-entrypoint-initdb.d/20.sh
  echo 'CREATE TABLE from_gzip (i int);' | gzip >/docker-entrypoint-initdb.d/30.sql.gz
  echo secret >/tmp/password
  run() {
    POSTGRES_PASSWORD_FILE=/tmp/password POSTGRES_USER=owner POSTGRES_DB=shop POSTGRES_INITDB_ARGS=--auth-host=scram-sha-256 \
      "$entry" "${flash[@]}" -c entresol.flash=/var/lib/postgresql/flash -c port=55432 -c listen_addresses=127.0.0.1 \
      >/tmp/log 2>&1 &
    server=$!
    for _ in $(seq 300); do
      PGPASSWORD=secret psql -h 127.0.0.1 -p 55432 -U owner -d shop -c 'SELECT 1' >/dev/null 2>&1 && return
      kill -0 "$server" 2>/dev/null || fail "the server has ended: $(tail -n 5 /tmp/log)"
      sleep 0.2
    done
    fail "no server: $(tail -n 5 /tmp/log)"
  }
  run
  [ "$(cat "$data/PG_VERSION")" = "$major" ] || fail "the cluster is not in $data"
  [ "$(stat -c %u "/proc/$(head -n 1 "$data/postmaster.pid")")" = 999 ] || fail "the server has another user"
  [ "$(head -n 1 "$data/postmaster.pid")" = "$server" ] || fail "the server is not the process that was called"
  grep -qx "listen_addresses = '\*'" "$data/postgresql.conf" || fail "the server would listen on its socket alone"
  local client=(env PGPASSWORD=secret psql -h 127.0.0.1 -p 55432 -U owner -d shop)
  [ "$("${client[@]}" -XAtqc "SELECT count(*) FROM pg_tables WHERE tablename ~ '^from_(sql|shell|gzip)\$'")" = 3 ] ||
    fail "scripts of initdb were not run"
  if PGPASSWORD=wrong psql -h 127.0.0.1 -p 55432 -U owner -d shop -c 'SELECT 1' >/dev/null 2>&1; then
    fail "a wrong password is accepted"
  fi
  local found
  found=$(hits "${client[@]}")
  [ "$found" -gt 0 ] || fail "$found hits"
  # Engines stop it with the image's signal.
  kill -INT "$server"
  wait "$server" || fail "the server did not stop by itself"
  run
  [ "$("${client[@]}" -XAtqc 'SELECT count(*) FROM t')" = 100000 ] || fail "rows are missing"
  kill -INT "$server"
  wait "$server"
  ok "a cluster of user 999 by its entry point, with scripts and a flash: $found hits; and again with its data"
}
"$target"
