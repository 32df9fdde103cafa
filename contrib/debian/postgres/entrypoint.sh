#!/usr/bin/env bash
# The entry point of an image with the conventions of Docker's official one (https://hub.docker.com/_/postgres).
#
# An empty PGDATA is made: POSTGRES_PASSWORD (or POSTGRES_HOST_AUTH_METHOD=trust), POSTGRES_USER, POSTGRES_DB,
# POSTGRES_INITDB_ARGS, POSTGRES_INITDB_WALDIR; each of the first three may be the content of a file, as
# POSTGRES_PASSWORD_FILE. Then the files of /docker-entrypoint-initdb.d run in the order of their names, on a server
# that only listens on its socket. All else that is called than postgres, or options of it, is run as it is.
set -euo pipefail
# The major version of the one server that is installed.
major=$(basename /usr/lib/postgresql/*)
export PGDATA=${PGDATA:-/var/lib/postgresql/$major/docker}

# The value of variable $1, or the content of the file that $1_FILE names.
setting() {
  local file=$1_FILE
  if [ -n "${!1:-}" ] && [ -n "${!file:-}" ]; then
    echo "$1 and $file are both set: only one may be" >&2
    exit 1
  fi
  if [ -n "${!file:-}" ]; then
    cat "${!file}"
  else
    echo "${!1:-}"
  fi
}

as_database() {
  psql -v ON_ERROR_STOP=1 --no-psqlrc --username "$user" --dbname "$database" "$@"
}

make_cluster() {
  local password auth
  password=$(setting POSTGRES_PASSWORD)
  auth=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}
  if [ -z "$password" ] && [ "$auth" != trust ]; then
    echo "the cluster is new, and has no password: set POSTGRES_PASSWORD (or POSTGRES_HOST_AUTH_METHOD=trust)" >&2
    exit 1
  fi
  user=$(setting POSTGRES_USER) user=${user:-postgres}
  database=postgres
  local wanted
  wanted=$(setting POSTGRES_DB) wanted=${wanted:-$user}
  # The arguments are words, as the official image takes them.
  eval "initdb --username=\"\$user\" --pwfile=<(printf '%s\n' \"\$password\") ${POSTGRES_INITDB_ARGS:-} \
    ${POSTGRES_INITDB_WALDIR:+--waldir \"\$POSTGRES_INITDB_WALDIR\"}"
  echo "host all all all $auth" >>"$PGDATA/pg_hba.conf"
  echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"

  export PGPASSWORD=$password
  pg_ctl --wait --silent -o "$(printf '%q ' "$@") -c listen_addresses='' -p ${PGPORT:-5432}" start
  if [ "$wanted" != postgres ]; then
    as_database --set name="$wanted" <<<'CREATE DATABASE :"name"'
    database=$wanted
  fi
  local file
  for file in /docker-entrypoint-initdb.d/*; do
    case $file in
      *.sh) if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
      *.sql) as_database --file "$file" ;;
      *.sql.gz) gunzip --stdout "$file" | as_database ;;
      *.sql.xz) xzcat "$file" | as_database ;;
      *.sql.zst) zstd --decompress --stdout "$file" | as_database ;;
      */\*) ;;
      *) echo "$file is left out: it is no script of a shell or of SQL" ;;
    esac
  done
  pg_ctl --wait --silent --mode fast stop
  unset PGPASSWORD
}

case ${1:-} in
  '' | -*) set -- postgres "$@" ;;
esac
if [ "$1" = postgres ]; then
  if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chmod 700 "$PGDATA"
    chown -R postgres: "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --init-groups -- "$0" "$@"
  fi
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    make_cluster "${@:2}"
  fi
fi
exec "$@"
