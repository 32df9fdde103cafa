#!/bin/sh
# Runs a command in the system of folder $1, in a namespace with its own /proc, /dev/shm, /dev/pts and /run. All
# processes of the namespace end with the command.
set -eu
exec unshare --mount --pid --fork sh -c '
  root=$1
  shift
  mount -t proc proc "$root/proc" && mkdir -p "$root/dev/shm" "$root/dev/pts" &&
  mount -t tmpfs tmpfs "$root/dev/shm" && mount -t tmpfs tmpfs "$root/run" &&
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" &&
  exec chroot "$root" "$@"' within "$@"
