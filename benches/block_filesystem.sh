#!/bin/sh
# A file system on a volume, whose server is killed under load: ext4 on a loop device over nbdfuse. Four writers make files,
# sync them, and note outside what was synced. The server is killed with SIGKILL at a random moment and started again. The
# journal is replayed, e2fsck must find nothing, and every file that was noted must have its content. Needs root, nbdfuse,
# losetup, e2fsprogs and python3; installs nothing, and exits with 77 if something is missing.
#
#   benches/block_filesystem.sh [ROUNDS] [MODE]       default: 30 rounds in each of write-through and write-back
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-30} modes=${2:-write-through write-back}
. benches/block_door.sh
need nbdfuse losetup mkfs.ext4 e2fsck python3
need_command
begin_folder

for mode in $modes; do
    rm -f "$folder"/data.* "$folder"/disk "$folder"/flash "$folder"/noted
    : > "$folder/noted"
    truncate -s 192M "$folder/disk"; truncate -s 48M "$folder/flash"
    mkfs.ext4 -q "$folder/disk"
    "$entresol" volume create "$folder/data.toml" --disk "$folder/disk" --flash "$folder/flash" --mode "$mode" > /dev/null
    files=0
    for round in $(seq "$rounds"); do
        serve
        attach
        mount "$loop" "$folder/mnt"
        python3 benches/block_files.py write "$folder/mnt" "$folder/noted" "$mode/$round" 2> /dev/null & writer=$!
        sleep "$(awk -v seed="$round" 'BEGIN { srand(seed); print 0.3 + rand() * 2 }')"
        kill_server
        kill -KILL "$writer" 2> /dev/null || true
        wait "$writer" 2> /dev/null || true
        detach
        serve
        attach
        mount "$loop" "$folder/mnt"
        python3 benches/block_files.py check "$folder/mnt" "$folder/noted" > "$folder/checked" || {
            cat "$folder/checked"; echo "$mode, round $round: files" >&2; exit 1
        }
        files=$((files + $(tail -1 "$folder/checked")))
        umount "$folder/mnt"
        check_file_system "$mode, round $round"
        detach
        stop_server
    done
    echo "$mode: $rounds kills, $files files that were synced are whole, e2fsck finds nothing"
done
