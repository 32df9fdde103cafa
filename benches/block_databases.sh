#!/bin/sh
# Databases on a volume over a disk of 1,000 I/Os a second: PostgreSQL with pgbench, MariaDB with sysbench's OLTP (SCE's set-up:
# a database, a quarter of its size or all of it on flash, a seventh of it in memory, Pareto), with the cache off and with caches of
# several policies. Disk and flash are loop devices past the page cache; the disk is throttled for the server by a control group
# (blkio, version 1), and so are its bytes, to 100 MB a second. That throttles reads and writes apart: half of the I/Os are for
# either. The file system is ext4 on a loop device over nbdfuse.
#
# A FOLDER in memory (tmpfs) leaves the machine's own disk out of it: what a sync costs there, with other work beside.
#
# Each row begins with a copy of the same database and an empty cache. It is warmed up with a disk of 20,000 I/Os and 50 MB a second and
# `hits-to-disk false` (an access is an access; only the time is shorter), then with the throttle for ten seconds, then measured.
# With a flash for all of the database, its files are read once before that. Without a cache a third of the time warms the memory.
# Needs root, /dev/fuse, nbdfuse, losetup, control groups of version 1 (blkio and memory), and PostgreSQL or MariaDB with
# sysbench. Installs nothing; exits with 77 if something is missing.
#
#   benches/block_databases.sh FOLDER postgres|mariadb quarter|all [CACHES] [WARM] [MEASURED]
#
# CACHES: words "off" or "POLICY/MODE"; WARM and MEASURED in seconds. FOLDER keeps the databases for the next run, and what
# `volume status` said of each cache in the end.
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
[ $# -ge 3 ] || { sed -n 's/^#   //p' "$0" >&2; exit 2; }
kept=$1 kind=$2 size=$3 warm=${5:-40} measured=${6:-40}
caches=${4-off face-gsc/write-back face-gsc/write-through sce/write-through flashcache/write-through}
clients=32 reads=500 writes=500
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':'):/usr/sbin
need nbdfuse losetup mkfs.ext4 setpriv awk
case $kind in
postgres) need initdb pg_ctl pgbench psql; owner=postgres ;;
mariadb) need mariadbd mariadb-install-db mariadb sysbench; owner=mysql ;;
*) echo "$kind: name postgres or mariadb" >&2; exit 2 ;;
esac
blkio=/sys/fs/cgroup/blkio memory=/sys/fs/cgroup/memory
[ -e $blkio/blkio.throttle.read_iops_device ] && [ -e $memory/memory.limit_in_bytes ] \
    || missing "this machine has no control groups of version 1 for blkio and memory"
need_command
begin_folder "$kept"
mkdir "$folder/run"
chown $owner "$folder/run"
disk_loop='' flash_loop='' process=''
server_cgroup=$blkio/entresol-$$ database_cgroup=$memory/entresol-$$
mkdir "$server_cgroup" "$database_cgroup"
clean_more() {
    throttle 0 0 0
    # All of the database's processes: one that is left would hold the volume's file system.
    for process in $(cat "$database_cgroup/cgroup.procs"); do kill -KILL "$process" 2> /dev/null || true; done
    sleep 1
}
# After the server has ended.
clean_last() {
    for device in $disk_loop $flash_loop; do losetup -d "$device" || true; done
    sleep 0.2
    rmdir "$server_cgroup" "$database_cgroup" 2> /dev/null || true
}
trap 'status=$?; (exit $status) || true; clean_all' EXIT
clean_all() { (clean) || status=$?; clean_last; exit "$status"; }

as_owner() { setpriv --reuid $owner --regid $owner --clear-groups env HOME="$folder/run" LC_ALL=C "$@"; }
limited() { (echo 0 > "$database_cgroup/cgroup.procs"; exec "$@"); }
# In the background, as $process.
start_limited() {
    (echo 0 > "$database_cgroup/cgroup.procs"; exec "$@") > "$folder/run/log" 2>&1 & process=$!
}
data=$folder/mnt/data

# --- the databases: make, start, load

postgres_make() {
    as_owner initdb -D "$data" -A trust --no-locale > "$folder/run/made" 2>&1
    cat >> "$data/postgresql.conf" << CONF
listen_addresses = ''
unix_socket_directories = '$folder/run'
shared_buffers = 32MB
max_wal_size = 256MB
checkpoint_timeout = 60s
CONF
    postgres_start
    as_owner createdb -h "$folder/run" bench
    as_owner pgbench -h "$folder/run" -i -q -s 40 bench > /dev/null 2>&1
    as_owner psql -X -q -h "$folder/run" -d bench -c 'vacuum analyze' -c checkpoint
}
postgres_start() {
    sed -i "s|^unix_socket_directories = .*|unix_socket_directories = '$folder/run'|" "$data/postgresql.conf"
    rm -f "$data/postmaster.pid"
    limited setpriv --reuid $owner --regid $owner --clear-groups \
        pg_ctl -D "$data" -w -t 120 -l "$folder/run/log" start > /dev/null
    process=$(head -1 "$data/postmaster.pid")
}
# Prints transactions a second.
postgres_load() {
    as_owner pgbench -h "$folder/run" -n -M prepared -c $clients -j 2 -T "$1" bench 2> "$folder/run/errors" \
        | awk '/^tps = / { print $3 }'
}
mariadb_make() {
    as_owner mariadb-install-db --no-defaults --datadir="$data" --auth-root-authentication-method=normal > "$folder/run/made" 2>&1
    mariadb_start
    mariadb --no-defaults -S "$folder/run/sock" -u root -e 'create database sbtest'
    mariadb_load 0 prepare > /dev/null
}
# SCE's memory is a seventh of the database.
mariadb_start() {
    start_limited setpriv --reuid $owner --regid $owner --clear-groups \
        mariadbd --no-defaults --datadir="$data" --socket="$folder/run/sock" --skip-networking --pid-file="$folder/run/pid" \
        --innodb-buffer-pool-size=80M --innodb-flush-method=O_DIRECT --innodb-log-file-size=128M \
        --innodb-flush-log-at-trx-commit=1 --innodb-io-capacity=1000
    until mariadb --no-defaults -S "$folder/run/sock" -u root -e 'select 1' > /dev/null 2>&1; do sleep 0.2; done
}
mariadb_load() {
    sysbench oltp_read_write --db-driver=mysql --mysql-socket="$folder/run/sock" --mysql-user=root --tables=4 --table-size=400000 \
        --rand-type=pareto --threads=$clients --time="$1" --report-interval=0 "${2:-run}" 2> "$folder/run/errors" \
        | sed -n 's/.*transactions:.*(\(.*\) per sec.*/\1/p'
}
# At once: what it has written is not needed any more.
kill_database() {
    case $kind in postgres) kill -QUIT "$process" ;; *) kill -KILL "$process" ;; esac
    timeout 60 tail --pid="$process" -f /dev/null || true
    wait "$process" 2> /dev/null || true
    process=''
}
end_database() {
    case $kind in postgres) kill -INT "$process" ;; *) kill -TERM "$process" ;; esac
    timeout 120 tail --pid="$process" -f /dev/null
    wait "$process" 2> /dev/null || true
    process=''
}

# --- devices

throttle() {
    [ -n "$disk_loop" ] || return 0
    number=$(lsblk -dno MAJ:MIN "$disk_loop" | tr -d ' ')
    for limit in read_iops:$1 write_iops:$2 read_bps:$3 write_bps:$3; do
        echo "$number ${limit#*:}" > "$server_cgroup/blkio.throttle.${limit%:*}_device" || true
    done
}
# reads, writes of the disk; sectors written to the flash
counted() {
    awk '{ printf "%s %s ", $1, $5 }' "/sys/block/$(basename "$disk_loop")/stat"
    awk '{ print $7 }' "/sys/block/$(basename "$flash_loop")/stat"
}

golden=$kept/block_databases.$kind
if [ ! -f "$golden" ]; then
    truncate -s 1400M "$golden.new"
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$golden.new"
    mount -o loop "$golden.new" "$folder/mnt"
    chown $owner "$folder/mnt"
    echo $((1 << 33)) > "$database_cgroup/memory.limit_in_bytes"
    ${kind}_make
    end_database
    du -sk "$data" | cut -f1 > "$golden.kib"
    umount "$folder/mnt"
    mv "$golden.new" "$golden"
fi
kib=$(cat "$golden.kib")
case $size in quarter) flash_kib=$((kib / 4)) ;; all) flash_kib=$((kib * 11 / 10)) ;; *) echo "$size: name quarter or all" >&2; exit 2 ;; esac

# All of the database enters the cache, as far as its policy likes. In the database's control group, whose memory is limited.
read_once() {
    "$entresol" volume set "$folder/data.toml" sequential-bypass-bytes 0 > /dev/null
    limited find "$data" -type f -exec cat {} + > /dev/null
    "$entresol" volume set "$folder/data.toml" sequential-bypass-bytes $((4 << 20)) > /dev/null
}

row() {
    cp "$golden" "$folder/disk"
    rm -f "$folder"/data.* "$folder/flash"
    # Written, so that a sync has no blocks to allocate.
    head -c "$((flash_kib / 1024 + 2))M" /dev/zero > "$folder/flash"
    sync "$folder/disk" "$folder/flash"
    disk_loop=$(losetup -f --show --direct-io=on "$folder/disk")
    flash_loop=$(losetup -f --show --direct-io=on "$folder/flash")
    policy=${1%/*} mode=${1#*/}
    [ "$1" != off ] || { policy=face-gsc mode=write-through; }
    "$entresol" volume create "$folder/data.toml" --disk "$disk_loop" --flash "$flash_loop" --policy "$policy" --mode "$mode" > /dev/null
    [ "$1" != off ] || sed -i 's/^cache = .*/cache = false/' "$folder/data.toml"
    throttle 20000 20000 50000000
    serve
    attach --direct-io=on
    mount "$loop" "$folder/mnt"
    echo $((160 << 20)) > "$database_cgroup/memory.limit_in_bytes"
    [ $kind = postgres ] || echo $((1 << 30)) > "$database_cgroup/memory.limit_in_bytes"
    if [ "$1" = off ]; then
        ${kind}_start
        ${kind}_load $((warm / 3)) > /dev/null
    else
        "$entresol" volume set "$folder/data.toml" hits-to-disk false > /dev/null
        [ "$size" = quarter ] || read_once
        ${kind}_start
        ${kind}_load "$warm" > /dev/null
        "$entresol" volume set "$folder/data.toml" hits-to-disk true > /dev/null
    fi
    throttle $reads $writes 100000000
    ${kind}_load 10 > /dev/null
    before=$(counted)
    rate=$(${kind}_load "$measured")
    echo "$1 $rate $measured $before $(counted)" | awk '{
        done = $2 * $3
        printf "  %-26s %8.1f transactions a second; each: %6.2f disk reads, %6.2f disk writes, %7.0f bytes to flash\n",
            $1, $2, ($7 - $4) / done, ($8 - $5) / done, ($9 - $6) * 512 / done
    }'
    [ "$1" = off ] || "$entresol" volume status "$folder/data.toml" > "$kept/status.$kind.$size.$policy.$mode" || true
    throttle 0 0 0
    kill_database
    umount "$folder/mnt"
    detach
    stop_server
    losetup -d "$disk_loop"; losetup -d "$flash_loop"
    disk_loop='' flash_loop=''
}

echo "$kind, $((kib / 1024)) MiB, on a disk of $reads reads and $writes writes a second; flash $((flash_kib / 1024)) MiB ($size); $clients clients;"
echo "$warm s to warm up, $measured s measured, $(load_now)"
for cache in $caches; do row "$cache"; done
