#!/bin/sh
# PostgreSQL on a volume whose server is killed under load: a stock server on ext4 on a loop device over nbdfuse, pgbench, and
# SIGKILL of `entresol serve`. In odd rounds the connection is lost: the file system is mounted again, PostgreSQL recovers. In
# even rounds a proxy (nbdkit's retry filter) connects anew, the file system stays mounted, and PostgreSQL goes on over three
# kills; then it is stopped, and the file system is unmounted. In every second of these rounds commits are not synced, so that
# there are few flushes, and a write that the killed server had acknowledged is missing from PostgreSQL's files if it is lost.
# The moments are random, or, in every second pair of rounds, a chosen I/O: strace ends the server in the n-th call of a thread
# that writes to the disk or the flash, or syncs it.
#
# After each round e2fsck must find nothing, the sums of pgbench's four tables must be equal, its history must have each
# transaction that was acknowledged, and pg_amcheck must find nothing. Needs root, /dev/fuse, PostgreSQL, nbdfuse, nbdkit,
# losetup, e2fsprogs; strace, if there is one. Installs nothing; exits with 77 if something is missing.
#
#   benches/block_postgres.sh [ROUNDS] [MODES] [POLICY]       default: 30 rounds in each of write-through and write-back
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
rounds=${1:-30} modes=${2:-write-through write-back} policy=${3:-}
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')
need nbdfuse nbdkit losetup mkfs.ext4 e2fsck initdb pg_ctl pgbench psql pg_amcheck setpriv awk
id postgres > /dev/null 2>&1 || missing "there is no user postgres"
need_command
begin_folder
loader='' postmaster=''
clean_more() {
    if [ -n "$loader" ]; then kill "$loader" 2> /dev/null || true; wait "$loader" 2> /dev/null || true; fi
    stop_database QUIT
}

as_owner() { setpriv --reuid postgres --regid postgres --clear-groups env HOME="$folder/run" LC_ALL=C "$@"; }
data=$folder/mnt/data
database() { as_owner env PGHOST="$folder/run" PGPORT=5439 "$@"; }
ask() { database psql -X -q -A -t -d bench -c "$1"; }
start_database() {
    # Of a PostgreSQL that was killed, whose number another process may have.
    rm -f "$data/postmaster.pid"
    if as_owner pg_ctl -D "$data" -w -t 120 -l "$folder/run/log" start > "$folder/run/started" 2>&1; then
        postmaster=$(head -1 "$data/postmaster.pid")
        return
    fi
    [ -z "$under" ] || return 1
    tail -20 "$folder/run/log" >&2
    echo "$mode, round $round: PostgreSQL does not start" >&2
    exit 1
}
# stop_database INT|QUIT: with a checkpoint, or at once; also if its files cannot be read any more.
stop_database() {
    [ -n "$postmaster" ] || return 0
    kill "-$1" "$postmaster" 2> /dev/null || true
    timeout 60 tail --pid="$postmaster" -f /dev/null
    postmaster=''
}

make_database() {
    mkfs.ext4 -q "$loop"
    mount "$loop" "$folder/mnt" || missing "this machine mounts no loop device"
    chown postgres "$folder/mnt" "$folder/run"
    as_owner initdb -D "$data" -A trust --data-checksums --wal-segsize=1 --no-locale > "$folder/run/initdb" 2>&1
    cat >> "$data/postgresql.conf" << CONF
listen_addresses = ''
unix_socket_directories = '$folder/run'
port = 5439
shared_buffers = 4MB
min_wal_size = 2MB
max_wal_size = 8MB
checkpoint_timeout = 30s
# What is written reaches the volume soon, long before it is flushed.
backend_flush_after = 64kB
bgwriter_flush_after = 64kB
autovacuum_naptime = 5s
CONF
    start_database
    database createdb bench
    database pgbench -i -q -s 2 bench > /dev/null 2>&1
}

# load SECONDS SYNC: transactions, whose commits are synced or not, in the background; ends when the database does.
load() {
    database env PGOPTIONS="-c synchronous_commit=$2" pgbench -n -c 4 -j 2 -T "$1" bench > "$folder/run/load" 2>&1 & loader=$!
}
loaded() {
    wait "$loader" || true
    loader=''
    acknowledged=$(awk '/transactions actually processed/ { split($6, n, "/"); print n[1] }' "$folder/run/load")
    acknowledged=${acknowledged:-0}
}

# In how many seconds, or in which call, the server is killed in this round.
random() {
    awk -v seed="$(echo "$1" | cksum | cut -d' ' -f1)" -v least="$2" -v span="$3" 'BEGIN { srand(seed); rand(); print least + rand() * span }'
}
choose() {
    under=''
    if [ $((round % 4)) -lt 2 ] && [ -n "$can_trace" ]; then
        calls=pwrite64,pwritev,pwritev2,fdatasync
        [ $((round % 8)) -lt 4 ] || calls=fdatasync
        number=$(random "$mode$round" 3 120 | cut -d. -f1)
        [ "$calls" != fdatasync ] || number=$((number / 4 + 1))
        under="strace -D -f -qq -o $folder/trace --seccomp-bpf -e trace=$calls -e inject=$calls:signal=KILL:when=$number"
    fi
}
wait_for_death() {
    # A chosen I/O may never come.
    if [ -n "$under" ]; then timeout 4 tail --pid="$server" -f /dev/null || true; fi
}

check() {
    sums=$(ask "select (select sum(abalance) from pgbench_accounts) || ' ' || (select sum(tbalance) from pgbench_tellers)
        || ' ' || (select sum(bbalance) from pgbench_branches) || ' ' || (select coalesce(sum(delta), 0) from pgbench_history)")
    rows=$(ask "select count(*) from pgbench_history")
    # shellcheck disable=SC2086 # Four words.
    set -- $sums
    if [ "$1" != "$2" ] || [ "$1" != "$3" ] || [ "$1" != "$4" ]; then
        echo "$mode, round $round: the sums differ: $sums" >&2; exit 1
    fi
    # Of each client, the last transaction may be there unacknowledged.
    if [ "$rows" -lt $((known + acknowledged)) ] || [ "$rows" -gt $((known + acknowledged + 4)) ]; then
        echo "$mode, round $round: $known transactions and $acknowledged acknowledged ones, but $rows are there" >&2; exit 1
    fi
    known=$rows
    database pg_amcheck --install-missing --heapallindexed bench > "$folder/run/amcheck" 2>&1 || {
        cat "$folder/run/amcheck"; echo "$mode, round $round: pg_amcheck" >&2; exit 1
    }
    total=$((total + acknowledged)) kills=$((kills + killed))
}

# The connection is lost with the server: everything above it ends, too.
round_without_connection() {
    choose
    killed=1 acknowledged=0
    # A chosen I/O may come before there is a load.
    if serve && attach && mount "$loop" "$folder/mnt" 2> /dev/null && start_database; then
        load 20 on
        if [ -n "$under" ]; then wait_for_death; else sleep "$(random "$mode$round" 0.3 2)"; fi
    fi
    kill_server
    stop_database QUIT
    [ -z "$loader" ] || loaded
    detach
    under=''
    serve
    attach
}

# The file system stays mounted, and PostgreSQL runs, over three kills.
round_with_connection() {
    under=''
    serve
    attach retry
    mount "$loop" "$folder/mnt"
    start_database
    if [ $((round % 4)) = 2 ]; then synced=off end=INT; else synced=on end=QUIT; fi
    load 7 $synced
    killed=0
    for kill in 1 2 3; do
        if [ -n "$under" ]; then wait_for_death; else sleep "$(random "$mode$round$kill" 0.2 1.5)"; fi
        kill_server; killed=$((killed + 1))
        choose
        [ $kill -lt 3 ] || under=''
        serve || { kill_server; killed=$((killed + 1)) under=''; serve; }
    done
    loaded
    if grep -q 'aborted\|ERROR\|PANIC' "$folder/run/load"; then
        cat "$folder/run/load"; echo "$mode, round $round: PostgreSQL noticed the kills" >&2; exit 1
    fi
    stop_database $end
}

can_trace=''
if strace -f --seccomp-bpf -qq -e trace=fsync -o /dev/null true 2> /dev/null; then can_trace=yes; fi
for mode in $modes; do
    rm -f "$folder"/data.* "$folder"/disk "$folder"/flash
    rm -rf "$folder/run"; mkdir "$folder/run"
    truncate -s 320M "$folder/disk"; truncate -s 40M "$folder/flash"
    "$entresol" volume create "$folder/data.toml" --disk "$folder/disk" --flash "$folder/flash" --mode "$mode" --policy "${POLICY:-face-gsc}" \
        ${policy:+--policy "$policy"} > /dev/null
    known=0 total=0 kills=0 round=0
    serve
    attach
    make_database
    stop_database INT
    detach
    stop_server
    for round in $(seq "$rounds"); do
        if [ $((round % 2)) = 1 ]; then round_without_connection; else round_with_connection; fi
        # Everything is read again from the volume; the file system's journal is replayed first.
        umount "$folder/mnt" 2> /dev/null || true
        mount "$loop" "$folder/mnt"
        umount "$folder/mnt"
        check_file_system "$mode, round $round"
        mount "$loop" "$folder/mnt"
        start_database
        check
        stop_database INT
        umount "$folder/mnt"
        detach
        stop_server
    done
    echo "$mode: $rounds rounds, $kills kills, $total acknowledged transactions, none lost; sums, e2fsck and pg_amcheck agree"
done
