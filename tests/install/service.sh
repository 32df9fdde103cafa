#!/usr/bin/env bash
# Boots the system in folder $1 with its own service manager, and serves a volume as a unit (tests/install.sh).
# Namespaces instead of a virtual machine: the kernel is this system's.
set -euo pipefail
root=$1
group=/sys/fs/cgroup/unified
[ -d "$group" ] || group=/sys/fs/cgroup
group=$group/entresol-install-$$
if ! mkdir "$group" 2>/dev/null; then
  echo "  skipped: this system gives no control group to a service manager"
  exit 0
fi
dpkg-deb --extract "$root"/packages/entresol_*_amd64.deb "$root"
# What the tarball has left comes first on every path.
rm -rf "$root/etc/entresol" "$root"/usr/local/*
mkdir "$root/etc/entresol"
cat >"$root/etc/systemd/system/try.service" <<'UNIT'
[Unit]
After=basic.target
[Service]
Type=oneshot
StandardOutput=file:/said
StandardError=file:/said
ExecStart=/bin/bash /try.sh
ExecStopPost=/bin/systemctl --no-block exit
UNIT
cat >"$root/try.sh" <<'TRY'
set -eux
cd /etc/entresol
systemd-analyze verify entresol@data.service
systemd-analyze security --offline=yes /usr/lib/systemd/system/entresol@.service | tail -n 1
truncate -s 256M /srv/disk2 && truncate -s 64M /srv/flash2
entresol volume create data.toml --disk /srv/disk2 --flash /srv/flash2 --mode write-back
systemctl start entresol@data
systemctl is-active entresol@data
uri='nbd+unix:///data?socket=/etc/entresol/data.sock'
nbdcopy --flush /srv/data "$uri"
systemctl kill --signal=KILL entresol@data
for _ in $(seq 100); do nbdinfo --size "$uri" && break; sleep 0.2; done
rm -f /srv/back; nbdcopy "$uri" /srv/back; cmp --bytes=3145728 /srv/back /srv/data
pid=$(systemctl show -P MainPID entresol@data)
cp /usr/bin/entresol /usr/bin/entresol.new && mv /usr/bin/entresol.new /usr/bin/entresol
dpkg-deb --control /packages/entresol_*_amd64.deb /control
sh /control/postinst configure 0
systemctl restart entresol@data
test "$pid" != "$(systemctl show -P MainPID entresol@data)"
rm -f /srv/back; nbdcopy "$uri" /srv/back; cmp --bytes=3145728 /srv/back /srv/data
systemctl stop entresol@data
entresol volume detach data.toml
cmp --bytes=3145728 /srv/disk2 /srv/data
echo all well
TRY
head -c 3M /dev/urandom >"$root/srv/data"
rm -f "$root/said"
status=0
timeout 180 sh -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid --fork --uts --ipc --cgroup sh -c '\''
  mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount -t sysfs -o ro sysfs "$0/sys" &&
  mount -t tmpfs tmpfs "$0/dev/shm" && mount -t tmpfs tmpfs "$0/run" && mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup" &&
  cd "$0" && mkdir -p old && pivot_root . old && umount -l old &&
  exec env -i container=entresol PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=try.service --log-target=console --log-level=warning --show-status=no'\'' "$0"' \
  "$root" "$group" >"$root/console" 2>&1 || status=$?
rmdir "$group" 2>/dev/null || true
if ! grep -qx 'all well' "$root/said" 2>/dev/null; then
  cat "$root/said" "$root/console" 2>/dev/null | tail -n 40
  echo "  failed: the service (status $status)" >&2
  exit 1
fi
grep -E 'Overall exposure|runs the program|systemctl restart' "$root/said" | sed 's/^/  /'
echo "  ok: a unit: started, killed, restarted by its manager, restarted after an upgrade, stopped"
