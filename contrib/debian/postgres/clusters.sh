# Functions of the package's scripts: clusters, and the servers that run. Part of some of them.

bin=/usr/lib/postgresql/#MAJOR#/bin

# The servers of this major version, by process and data folder.
servers() {
  for exe in /proc/[0-9]*/exe; do
    pid=${exe#/proc/} pid=${pid%/exe}
    case $(readlink "$exe" 2>/dev/null) in
      "$bin/postgres"*) ;;
      *) continue ;;
    esac
    data=$(readlink "/proc/$pid/cwd")
    if [ "$(head -n 1 "$data/postmaster.pid" 2>/dev/null)" = "$pid" ]; then
      echo "$pid $data"
    fi
  done
}

# The clusters of this major version that postgresql-common knows: name, state, data folder.
known() {
  pg_lsclusters -h 2>/dev/null | while read -r version name _ state _ data _; do
    if [ "$version" = "#MAJOR#" ]; then
      echo "$name $state $data"
    fi
  done
}

# The name of the cluster in data folder $1, if it has one.
name_of() {
  known | while read -r name _ data; do
    if [ "$(readlink -f "$data")" = "$(readlink -f "$1")" ]; then
      echo "$name"
    fi
  done
}

# The data folders of all clusters that are known here, or whose server runs.
folders() {
  { known | cut -d ' ' -f 3-; servers | cut -d ' ' -f 2-; } | xargs -r -d '\n' readlink -f | sort -u
}

# Whether the cache of the cluster in $1 may have pages that are newer than its files: a bit of pg_control's version.
needs_flash() {
  number=$(LC_ALL=C "$bin/pg_controldata" "$1" 2>/dev/null | sed -n 's/^pg_control version number: *//p')
  [ -n "$number" ] && [ $((number & 0x400000)) != 0 ]
}
