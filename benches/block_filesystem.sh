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

cat > "$folder/writer.py" << 'PYTHON'
import hashlib, os, random, sys, threading
root, noted, seed = sys.argv[1:]
lock, log = threading.Lock(), open(noted, "a")
def write(task):
    rng = random.Random(f"{seed}/{task}")
    for number in range(1 << 30):
        name = f"{task}-{number % 40}"
        data = rng.randbytes(rng.randrange(1, 200_000))
        with lock:
            log.write(f"{name} begun {hashlib.sha256(data).hexdigest()}\n"); log.flush()
        path = os.path.join(root, name)
        with open(path + ".new", "wb") as file:
            file.write(data); file.flush(); os.fsync(file.fileno())
        os.replace(path + ".new", path)
        folder = os.open(root, os.O_RDONLY)
        os.fsync(folder); os.close(folder)
        with lock:
            log.write(f"{name} synced {hashlib.sha256(data).hexdigest()}\n"); log.flush()
for task in range(4):
    threading.Thread(target=write, args=(task,), daemon=True).start()
threading.Event().wait()
PYTHON
cat > "$folder/check.py" << 'PYTHON'
import hashlib, os, sys
root, noted = sys.argv[1:]
synced, begun = {}, {}
for line in open(noted):
    words = line.split()
    if len(words) < 3 or len(words[2]) < 64:
        continue  # The writer was killed in the middle of the last line.
    name, what, sha = words
    if what == "begun":
        begun[name] = sha
    else:
        begun.pop(name, None); synced[name] = sha
wrong = 0
for name, sha in synced.items():
    path = os.path.join(root, name)
    found = hashlib.sha256(open(path, "rb").read()).hexdigest() if os.path.exists(path) else "nothing"
    # A file that was being replaced is the old one or the new one.
    if found not in (sha, begun.get(name)):
        wrong += 1; print(f"{name}: {found}, noted {sha}")
# What is there now is what counts from here on.
with open(noted, "w") as log:
    for name in sorted(synced):
        data = open(os.path.join(root, name), "rb").read()
        log.write(f"{name} synced {hashlib.sha256(data).hexdigest()}\n")
print(len(synced))
sys.exit(wrong > 0)
PYTHON

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
        python3 "$folder/writer.py" "$folder/mnt" "$folder/noted" "$mode/$round" 2> /dev/null & writer=$!
        sleep "$(awk -v seed="$round" 'BEGIN { srand(seed); print 0.3 + rand() * 2 }')"
        kill_server
        kill -KILL "$writer" 2> /dev/null || true
        wait "$writer" 2> /dev/null || true
        detach
        serve
        attach
        mount "$loop" "$folder/mnt"
        python3 "$folder/check.py" "$folder/mnt" "$folder/noted" > "$folder/checked" || {
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
