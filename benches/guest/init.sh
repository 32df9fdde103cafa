#!/bin/busybox sh
# The first program of the guest that `cargo xtask block test guest` boots: loads modules, mounts the host's root
# read-only below memory for what is written, and runs the job there.
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
journal=$journal PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot /host /bin/sh /mnt/repository/benches/guest/doors.sh \
    "/mnt/bin/$(basename "$entresol")" "$doors" "$modes" "$rounds"
echo "guest: exit status $?"
poweroff -f
