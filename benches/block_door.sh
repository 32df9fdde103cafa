# Shared by the scripts of the block door, which source it: a server, and its volume as a block device of the kernel. Runs
# nothing by itself. A script exits with 77 if something that it needs is missing, after a sentence that says what.
#
#   $entresol          the command; from the environment, or built
#   $folder            a new folder, removed at the end
#   $server, $loop     the server's process, the loop device over the volume

missing() { echo "$(basename "$0"): $*; skipped" >&2; exit 77; }

# need_tools TOOL ...
need_tools() {
    for tool; do command -v "$tool" > /dev/null || missing "$tool is not installed"; done
}

# need TOOL ...: the tools, and what nbdfuse and losetup need.
need() {
    need_tools "$@"
    [ "$(id -u)" = 0 ] || missing "only root can mount"
    [ -e /dev/fuse ] || missing "this machine has no /dev/fuse"
    losetup -f > /dev/null 2>&1 || missing "this machine has no free loop device"
}

# need_command [CARGO OPTIONS]: builds the command, unless the environment names one.
need_command() {
    entresol=${ENTRESOL:-}
    [ -n "$entresol" ] || cargo build --quiet --release -p entresol "$@"
    entresol=$(realpath "${entresol:-${CARGO_TARGET_DIR:-target}/release/entresol}")
}

# begin_folder [FOLDER]: a folder below it for this run, and its end.
begin_folder() {
    mkdir -p "${1:-${TMPDIR:-/tmp}}"
    folder=$(mktemp -d -p "${1:-${TMPDIR:-/tmp}}")
    chmod 755 "$folder"
    server='' fuse='' retry='' loop='' server_cgroup='' under=''
    trap clean EXIT
    trap 'exit 130' INT TERM
    mkdir "$folder/mnt" "$folder/nbd"
}

# serve: starts the server of $folder/data.toml; with $server_cgroup in that control group (version 1), below the command
# $under, which may end it: false. serve_as NAME: of $folder/NAME.toml.
serve() { serve_as data; }
serve_as() {
    rm -f "$folder/ready"
    # shellcheck disable=SC2086 # A command with arguments.
    (
        for group in $server_cgroup; do echo 0 > "$group/cgroup.procs"; done
        exec $under "$entresol" serve "$folder/$1.toml"
    ) > "$folder/ready" 2> "$folder/server.log" & server=$!
    tries=0
    until grep -q -s ready "$folder/ready"; do
        sleep 0.05
        tries=$((tries + 1))
        if ! kill -0 "$server" 2> /dev/null && [ -n "$under" ]; then return 1; fi
        if [ $tries -gt 1200 ]; then cat "$folder/server.log" >&2; echo "the server is not ready" >&2; exit 1; fi
    done
}

# ended PROCESS ...: they end, with the usual signal.
ended() {
    for process; do kill "$process" 2> /dev/null || true; done
    for process; do wait "$process" 2> /dev/null || true; done
}

# wait_for SOCKET: until another server has it.
wait_for() { until [ -S "$1" ]; do sleep 0.1; done; }

# load_now: where a measurement was made.
load_now() { echo "on $(nproc) cores with a load of $(cut -d' ' -f1 /proc/loadavg)"; }

# kill_server: SIGKILL.
kill_server() {
    kill -KILL "$server" 2> /dev/null || true
    wait "$server" 2> /dev/null || true
    server=''
}

# stop_server: SIGTERM, and its exit status.
stop_server() {
    kill -TERM "$server"
    wait "$server"
    server=''
}

# attach [retry] [LOSETUP OPTIONS]: the volume as $loop; false if the server was ended meanwhile. With "retry" a proxy between connects anew and asks again when the
# server was killed, so that a mounted file system stays.
attach() {
    socket=$folder/data.sock export=data
    if [ "${1:-}" = retry ]; then
        shift
        rm -f "$folder/retry.pid"
        nbdkit -f -U "$folder/retry.sock" -P "$folder/retry.pid" --filter=retry nbd "uri=nbd+unix:///data?socket=$folder/data.sock" \
            retries=60 retry-delay=1 retry-exponential=no retry=60 2> "$folder/retry.log" & retry=$!
        until [ -s "$folder/retry.pid" ]; do sleep 0.05; done
        socket=$folder/retry.sock export=
    fi
    nbdfuse "$folder/nbd/disk" "nbd+unix:///$export?socket=$socket" 2> "$folder/fuse.log" & fuse=$!
    tries=0
    until [ -e "$folder/nbd/disk" ]; do
        sleep 0.05
        tries=$((tries + 1))
        kill -0 "$server" 2> /dev/null || return 1
        [ $tries -lt 400 ] && continue
        grep -q '^fuse' "$folder/fuse.log" && missing "nbdfuse cannot mount here: $(tail -1 "$folder/fuse.log")"
        cat "$folder/fuse.log" >&2
        exit 1
    done
    loop=$(losetup -f --show "$@" "$folder/nbd/disk") && return
    kill -0 "$server" 2> /dev/null || return 1
    missing "this machine has no loop device over FUSE"
}

# detach: the volume has no block device any more, whatever became of the server.
detach() {
    umount "$folder/mnt" 2> /dev/null || umount -l "$folder/mnt" 2> /dev/null || true
    if [ -n "$loop" ]; then losetup -d "$loop" 2> /dev/null || true; loop=''; fi
    umount "$folder/nbd" 2> /dev/null || umount -l "$folder/nbd" 2> /dev/null || true
    for process in $fuse $retry; do
        kill "$process" 2> /dev/null || true
        wait "$process" 2> /dev/null || true
    done
    fuse='' retry=''
    rm -f "$folder/retry.sock"
}

# Scripts that start more define it.
clean_more() { :; }

clean() {
    status=$?
    trap - EXIT
    clean_more
    detach
    [ -z "$server" ] || kill_server
    if [ -f "$folder/data.toml" ]; then
        rm -f "$(sed -n 's/^journal = "\(.*\)"/\1/p' "$folder/data.toml")"
    fi
    rm -rf "$folder"
    exit "$status"
}

# check_file_system ROUND: what e2fsck says of $loop, which is not mounted; its journal was replayed by a mount.
check_file_system() {
    e2fsck -f -n "$loop" > "$folder/fsck" 2>&1 && return
    cat "$folder/fsck"
    echo "$1: e2fsck" >&2
    exit 1
}
