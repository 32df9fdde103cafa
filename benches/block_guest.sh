#!/bin/sh
# The block door under a real kernel: boots one in QEMU and attaches a volume there with the kernel's drivers nbd and ublk.
# Four writers make and sync files on ext4. The server is killed with SIGKILL while the file system stays mounted, and
# started again; the writers go on. Then every file that was synced must have its content, read from the volume and at last
# from the disk alone; e2fsck must find nothing, and the kernel must have met no error.
#
#   benches/block_guest.sh KERNEL [DOORS] [MODES] [ROUNDS]      default: "nbd ublk", "write-through write-back", 4 kills in each
#
# KERNEL is a folder with an unpacked package of a Linux kernel (boot/vmlinuz-*, lib/modules/*): Debian's 6.12, for instance.
# Needs qemu-system-x86_64, a static busybox, kmod, for ublk libclang (the command is built with that feature)
# and xz, and in the guest, which has this machine's root read-only: python3, nbd-client, e2fsprogs. Installs nothing, and
# exits with 77 if something is missing.
#
# ACCEL: QEMU's accelerator (tcg, which needs nothing). JOURNAL=none: no journal; in write-back, files are found damaged then.
set -eu
cd "$(dirname "$0")/.."
. benches/block_door.sh
kernel=${1:-} doors=${2:-nbd ublk} modes=${3:-write-through write-back} rounds=${4:-4}
[ -n "$kernel" ] || missing "no folder of a kernel is given"
image=$(find "$kernel/boot" -name 'vmlinuz-*' 2> /dev/null | head -1)
[ -n "$image" ] || missing "$kernel has no boot/vmlinuz-*"
for tool in qemu-system-x86_64 busybox modprobe depmod xz python3 nbd-client mkfs.ext4 e2fsck; do
    command -v "$tool" > /dev/null || missing "$tool is not installed"
done
! ldd "$(command -v busybox)" > /dev/null 2>&1 || missing "busybox is not static"
features=''
case " $doors " in *" ublk "*) features=--features=ublk ;; esac
need_command $features

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root version=${image##*/vmlinuz-}
mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$folder/tree/lib"
cp "$(command -v busybox)" "$root/bin/busybox"
cp benches/guest/init.sh "$root/init"
chmod 755 "$root/init"
modules=$(find "$kernel" -type d -path "*lib/modules/$version" | head -1)
cp -r --parents "$modules" "$folder/tree"
ln -s "$(realpath -m --relative-to="$folder/tree/lib" "$folder/tree/$(dirname "$modules")")" "$folder/tree/lib/modules"
depmod -b "$folder/tree" "$version"
for module in virtio_pci virtio_blk 9pnet_virtio 9p ext4 crc32c_generic nbd ublk_drv; do
    modprobe -d "$folder/tree" -S "$version" --show-depends "$module" 2> /dev/null || true
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' > "$folder/modules"
while read -r module; do
    name=$(basename "$module" .xz)
    case $module in *.xz) xz -dc "$module" ;; *) cat "$module" ;; esac > "$root/modules/$name"
    echo "$name" >> "$root/modules/order"
done < "$folder/modules"
rm -rf "$folder/tree"
printf '%s\n' "repository='$PWD'" "entresol='$entresol'" "doors='$doors'" "modes='$modes'" "rounds='$rounds'" "journal='${JOURNAL:-kept}'" \
    > "$root/job"
(cd "$root" && find . | busybox cpio -o -H newc 2> /dev/null | gzip -1) > "$folder/initrd"
truncate -s 192M "$folder/disk"
truncate -s 48M "$folder/flash"
echo "Linux $version, $(nproc) CPUs; $(qemu-system-x86_64 --version | head -1)"
timeout 3000 qemu-system-x86_64 -M q35 -accel "${ACCEL:-tcg,thread=multi}" -cpu max -smp 2 -m 2048 -display none -vga none -serial stdio -no-reboot -nic none \
    -kernel "$image" -initrd "$folder/initrd" -append "console=ttyS0 panic=-1 mitigations=off quiet" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
    -drive "file=$folder/disk,format=raw,if=virtio" -drive "file=$folder/flash,format=raw,if=virtio" \
    < /dev/null 2>&1 | tee "$folder/log" | sed -u 's/\r$//'
grep -q 'ALL DONE' "$folder/log" || { echo "the guest did not end well" >&2; exit 1; }
