#!/bin/busybox sh
# The first program of a guest of `cargo xtask block`: loads modules, mounts the host's root read-only below memory for
# what is written, and runs the call there. /job has the variables, /call the call; $program is the command `entresol`.
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r module; do
    insmod "/modules/$module" || echo "insmod $module failed"
done < /modules/order
. /job
mkdir /host
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose host /host
mount -t tmpfs tmp /host/mnt
mkdir /host/mnt/repository /host/mnt/bin /host/mnt/run
mount --bind "/host$repository" /host/mnt/repository
mount --bind "/host$(dirname "$entresol")" /host/mnt/bin
for folder in tmp run var/tmp; do mount -t tmpfs tmp "/host/$folder"; done
mount --bind /proc /host/proc; mount --bind /sys /host/sys; mount --bind /dev /host/dev
mkdir -p /host/dev/shm; mount -t tmpfs shm /host/dev/shm
ip link set lo up
program="/mnt/bin/$(basename "$entresol")" PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot /host /bin/sh -c "$(cat /call)"
echo "guest: exit status $?"
poweroff -f
