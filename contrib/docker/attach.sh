#!/bin/sh
# Mounts the volume whose NBD address is $1 at folder $2, until SIGTERM: nbdfuse makes a file of it, a loop device
# makes a disk of that. A volume without a file system gets ext4; one that has any content but a file system is
# refused.
set -eu
uri=$1 folder=$2
nbd=$(mktemp -d)
mkdir -p "$folder"
nbdfuse "$nbd/disk" "$uri" &
fuse=$!
for _ in $(seq 100); do
  [ -e "$nbd/disk" ] && break
  kill -0 $fuse
  sleep 0.1
done
device=$(losetup --find --show --direct-io=on "$nbd/disk")
if ! blkid -p "$device" >/dev/null; then
  if [ -n "$(head -c 1048576 "$device" | tr -d '\0' | head -c 1)" ]; then
    echo "attach.sh: $uri has content that is no file system; nothing was changed" >&2
    losetup -d "$device"
    umount "$nbd/disk" 2>/dev/null || umount "$nbd"
    exit 2
  fi
  mkfs.ext4 -q "$device"
fi
mount "$device" "$folder"
echo "mounted at $folder"
end() {
  trap - TERM INT
  umount "$folder"
  losetup -d "$device"
  umount "$nbd/disk" 2>/dev/null || umount "$nbd"
  wait $fuse || true
  exit 0
}
trap end TERM INT
# `wait` alone is ended by a signal.
while kill -0 $fuse 2>/dev/null; do wait $fuse || true; done
echo "attach.sh: nbdfuse has ended" >&2
exit 1
