#!/bin/sh
# Runs in the guest of `cargo xtask block test guest`: doors.sh ENTRESOL DOORS MODES ROUNDS. A file system stays mounted
# while the server of its volume is killed with SIGKILL and started again; then everything must be there. /dev/vda is
# the disk, /dev/vdb the flash.
set -eu
entresol=$1 doors=$2 modes=$3 rounds=$4
cd /mnt/run
programs=/mnt/repository
mkdir -p fs
dmesg -n 1

fail() {
    echo "FAILED: $*"
    for log in writer.log server.log attach.log fsck.log; do [ ! -s $log ] || { echo "== $log"; tail -20 $log; }; done
    echo "== dmesg"
    dmesg | tail -40
    exit 1
}

# wait_for SECONDS FILE PATTERN COUNT: until so many lines of the file match.
wait_for() {
    tries=0
    until [ "$(grep -c "$3" "$2" 2> /dev/null || true)" -ge "$4" ] 2> /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt $(($1 * 5)) ] || fail "no '$3' in $2 within $1 s"
        sleep 0.2
    done
}

serve() {
    rm -f ready
    options=''
    [ "$door" != ublk ] || options=--ublk
    # shellcheck disable=SC2086 # None, or one.
    "$entresol" serve $options data.toml > ready 2>> server.log & server=$!
    wait_for 120 ready '^ready' 1
}

attach() {
    if [ "$door" = ublk ]; then
        device=$(sed -n 's/^ready.* and //p' ready)
        [ -b "$device" ] || fail "no block device in: $(cat ready)"
        return
    fi
    device=/dev/nbd0
    python3 $programs/contrib/nbd/attach.py data.sock data $device --timeout-seconds 5 > attach.log 2>&1 & attached=$!
    wait_for 60 attach.log '^attached' 1
}

# attached_again ROUND: the device of the server before is that of the new one.
attached_again() {
    case $door in
        nbd) wait_for 60 attach.log '^attached again' "$1" ;;
        ublk) grep -q " and $device\$" ready || fail "not taken over: $(cat ready)" ;;
    esac
}

detach() {
    [ "$door" = nbd ] || return 0
    nbd-client -d $device > /dev/null
    wait $attached
}

stop_server() {
    kill -TERM $server
    wait $server || fail "exit status $?"
    [ "$door" = nbd ] || [ ! -e "$device" ] || fail "$device is still there"
}

# writers_work WHAT: so many more files are synced.
writers_work() {
    notes=$(wc -l < noted)
    tries=0
    until [ "$(wc -l < noted)" -gt $((notes + 30)) ]; do
        sleep 0.3
        tries=$((tries + 1))
        [ $tries -lt 400 ] || fail "$door, $mode: $1"
        [ ! -s writer.log ] || fail "$door, $mode: a writer met an error"
    done
}

check_files() {
    python3 $programs/benches/block_files.py check fs noted > checked || { cat checked; fail "$door, $mode: files, $1"; }
    files=$(tail -1 checked)
}

check_file_system() { e2fsck -f -n "$1" > fsck.log 2>&1 || fail "$door, $mode: e2fsck of $1"; }

# A mounted file system grows with the disk of its volume, while the server runs. The driver ublk of 6.12 cannot.
grow() {
    rm -f small.* attach.log ready server.log
    truncate -s 64M small.disk
    truncate -s 32M small.flash
    "$entresol" volume create small.toml --disk small.disk --flash small.flash --mode write-back > /dev/null
    "$entresol" serve small.toml > ready 2>> server.log & server=$!
    wait_for 120 ready '^ready' 1
    python3 $programs/contrib/nbd/attach.py small.sock small /dev/nbd0 --look-seconds 1 > attach.log 2>&1 & attached=$!
    wait_for 60 attach.log '^attached' 1
    mkfs.ext4 -q -F /dev/nbd0 > /dev/null
    mount /dev/nbd0 fs
    head -c 1M /dev/urandom > random
    cp random fs/before
    truncate -s 96M small.disk
    "$entresol" volume resize small.toml > /dev/null || fail "the volume does not grow"
    wait_for 60 attach.log '^grown' 1
    [ "$(cat /sys/block/nbd0/size)" = $((96 * 2048)) ] || fail "the device has $(cat /sys/block/nbd0/size) sectors"
    resize2fs /dev/nbd0 > /dev/null 2>&1 || fail "resize2fs"
    head -c 70M /dev/zero > fs/filled || fail "the file system has no more room"
    cmp random fs/before || fail "a file that was there before"
    umount fs
    device=/dev/nbd0
    check_file_system $device
    detach
    stop_server
    echo "nbd: a mounted file system of 64 MiB grows to 96 MiB"
}

case $doors in *nbd*) door=nbd; grow ;; esac
for door in $doors; do
    for mode in $modes; do
        begun=$(cut -d. -f1 /proc/uptime)
        rm -f data.* noted server.log writer.log; : > noted; dmesg -c > /dev/null
        "$entresol" volume create data.toml --disk /dev/vda --flash /dev/vdb --mode "$mode" --policy face-gsc --overwrite > /dev/null
        [ "${journal:-kept}" = kept ] || sed -i 's/^journal = .*/journal = ""/' data.toml
        serve
        attach
        # Zeros that the kernel asks for, over what was there.
        head -c 2M /dev/urandom > random
        dd if=random of=$device bs=1M conv=fsync status=none
        blkdiscard -f -z -o 1M -l 1M $device 2> /dev/null || fail "$door, $mode: blkdiscard -z"
        { head -c 1M random; head -c 1M /dev/zero; } > expected
        echo 3 > /proc/sys/vm/drop_caches
        head -c 2M $device | cmp - expected || fail "$door, $mode: zeros"
        mkfs.ext4 -q -F $device > /dev/null
        mount $device fs
        checked=0
        for round in $(seq "$((rounds + 1))"); do
            # The last server is stopped, not killed.
            signal=KILL
            [ "$round" -le "$rounds" ] || signal=TERM
            python3 $programs/benches/block_files.py write fs noted "$mode/$round" 2> writer.log & writer=$!
            # The writers are at work before the kill, and after it.
            writers_work "the writers stand still"
            kill -$signal $server
            wait $server 2> /dev/null || [ $signal = KILL ] || fail "exit status $?"
            sleep 2
            serve
            attached_again "$round"
            writers_work "the writers do not go on"
            kill -KILL $writer
            wait $writer 2> /dev/null || true
            sync -f fs
            fstrim fs || fail "fstrim"
            # What is compared comes from the volume.
            echo 3 > /proc/sys/vm/drop_caches
            check_files "round $round"
            checked=$((checked + files))
        done
        umount fs
        check_file_system $device
        detach
        stop_server
        # The disk alone has everything, too.
        "$entresol" volume detach data.toml > /dev/null
        check_file_system /dev/vda
        mount -o ro /dev/vda fs
        check_files "on the disk alone"
        umount fs
        ! dmesg | grep -i -E 'I/O error|EXT4-fs (error|warning)|lost .*write' || fail "$door, $mode: the kernel met errors"
        echo "$door, $mode: $rounds kills and a stop with the file system mounted, $checked files that were synced are whole," \
            "e2fsck finds nothing; $files of them compared on the disk alone; $(($(cut -d. -f1 /proc/uptime) - begun)) s"
    done
done
echo "ALL DONE"
