#!/usr/bin/env bash
# Walks README's four ways in, as a new user does: in a fresh clone, each command as it stands in the table.
#
#   tests/ways.sh [--here] [--built FOLDER] [WAY ...]
#
# WAY is a word of the row: database, PostgreSQL, Rust, buy [default: all]. --here: in this checkout instead of a clone.
# --built: FOLDER has the program `entresol`, which else is installed from the clone. CARGO_TARGET_DIR may name a folder
# in which crates were built before. A missing server of PostgreSQL is built, which takes minutes; root runs it as the
# user nobody. Prints the seconds of each command. It is not below crates/, since it tests a document.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
here= built=
if [ "${1:-}" = --here ]; then
  here=yes
  shift
fi
if [ "${1:-}" = --built ]; then
  built=$(realpath "$2")
  shift 2
fi
ways=("$@")
[ ${#ways[@]} -gt 0 ] || ways=(database PostgreSQL Rust buy)
work=$(mktemp -d)
chmod 755 "$work"
servers=()
finish() {
  for server in ${servers[@]+"${servers[@]}"}; do
    kill -INT -- "-$server" 2>/dev/null || true
    for _ in $(seq 100); do
      kill -0 -- "-$server" 2>/dev/null || break
      sleep 0.1
    done
  done
  rm -rf "$work"
}
trap finish EXIT

clone=$repository
if [ -z "$here" ]; then
  git clone --quiet "$repository" "$work/clone"
  clone=$work/clone
fi
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$clone/target}
cd "$clone"

# commands WORD: those of the row that begins with WORD in its first cell, a line each.
commands() {
  sed -n '/^| you have |/,/^$/p' README.md | awk -F ' [|] ' -v word="$1" 'index($1, word) { print $2 }' \
    | sed 's/<br>/\n/g' | tr -d '`'
}

# given COMMAND: runs it; a server until this script ends.
given() {
  local began=$SECONDS said=$work/said.$RANDOM
  case $1 in
    *" serve "* | *"postgres run "*)
      setsid bash -c "exec $1" >"$said" 2>&1 </dev/null &
      servers+=($!)
      until grep -qi ready "$said"; do
        kill -0 $! 2>/dev/null || { cat "$said" >&2; exit 1; }
        sleep 0.1
      done
      ;;
    *) bash -c "$1" >"$said" 2>&1 </dev/null || { tail -n 20 "$said" >&2; echo "failed: $1" >&2; exit 1; } ;;
  esac
  printf '%5d s  %s\n' $((SECONDS - began)) "$1"
}

for way in "${ways[@]}"; do
  mapfile -t walked < <(commands "$way")
  [ ${#walked[@]} = 3 ] || { echo "README has ${#walked[@]} commands for $way" >&2; exit 1; }
  echo "== $way"
  case $way in
    database | buy)
      if [ -n "$built" ]; then
        export PATH=$built:$PATH
      elif ! [ -x "$work/installed/bin/entresol" ]; then
        given "cargo install --quiet --locked --path crates/cli --root $work/installed"
        export PATH=$work/installed/bin:$PATH
      fi
      mkdir -p "$work/$way"
      truncate -s 256M "$work/$way/disk.img"
      truncate -s 64M "$work/$way/flash.img"
      cd "$work/$way"
      for command in "${walked[@]}"; do given "$command"; done
      cd "$clone"
      ;;
    PostgreSQL)
      export PGHOST=/tmp PGUSER=postgres PGDATABASE=postgres
      for command in "${walked[@]}"; do
        command=${command/ DATA/ $work/DATA}
        command=${command/ FLASH/ $work/FLASH}
        if [[ $command == *"postgres run"* ]] && [ "$(id -u)" = 0 ]; then
          chmod 777 "$work"
          command+=" --user nobody"
        fi
        given "$command"
        bin=$(echo "$CARGO_TARGET_DIR"/postgres/18.*/bin)
        export PATH=$bin:$PATH
      done
      ;;
    *) for command in "${walked[@]}"; do given "$command"; done ;;
  esac
done
echo "walked: ${ways[*]}"
