#!/usr/bin/env bash
# Run within a fresh system by tests/install.sh: installs the packages in /packages, uses and removes them.
set -euo pipefail
trap 'echo "  failed: line $LINENO: $BASH_COMMAND" >&2' ERR
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/

# ok WHAT: what was shown.
ok() {
  echo "  ok: $*"
}
fail() {
  echo "  failed: $*" >&2
  exit 1
}
# has TEXT WORDS: the text has the words.
has() {
  grep -qF -e "$2" <<<"$1" || fail "no \"$2\" in: $1"
}

server=
# serve CONFIG: as the unit does.
serve() {
  local start
  start=$(sed -n 's/^ExecStart=//p' "$unit")
  : >/tmp/ready
  ${start//\/etc\/entresol\/%i.toml/$1} >/tmp/ready 2>/tmp/log &
  server=$!
  for _ in $(seq 200); do
    grep -q ^ready /tmp/ready && return
    kill -0 "$server" 2>/dev/null || fail "the server has ended: $(cat /tmp/log)"
    sleep 0.1
  done
  fail "the server is not ready: $(cat /tmp/log)"
}
stop() {
  kill -"$1" "$server"
  wait "$server" 2>/dev/null || [ "$1" = KILL ]
}
uri='nbd+unix:///data?socket=/etc/entresol/data.sock'
# same: the volume begins with the bytes that were written.
same() {
  rm -f /tmp/back
  nbdcopy "$uri" /tmp/back
  cmp --bytes=3145728 /tmp/back /srv/data
}

used() {
  df --output=used -B1M / | tail -n 1
}
unit=/usr/lib/systemd/system/entresol@.service
before=$(du -smx /usr | cut -f 1) began=$SECONDS
dpkg --unpack /packages/entresol_*_amd64.deb >/dev/null && apt-get check -qq && dpkg --configure entresol >/dev/null
ok "the package is installed: $(($(du -smx /usr | cut -f 1) - before)) MB, $((SECONDS - began)) s"
has "$(entresol --version)" "entresol "
dpkg --verify entresol

has "$(man -P cat entresol)" "SYNOPSIS"
has "$(man -P cat entresol-volume-create)" "mounted or in use"
ok "manual pages"

complete_words() {
  source /usr/share/bash-completion/completions/entresol
  COMP_WORDS=(entresol volume re) COMP_CWORD=2
  _entresol entresol re volume
  echo "${COMPREPLY[*]}"
}
has "$(complete_words)" "resize replace-flash"
ok "completions"

[ "$(zcat /usr/share/doc/entresol/third-party-licences.gz | grep -c '^libc [0-9.]*: ')" = 1 ] || fail "libc's licence"
components=$(zcat /usr/share/doc/entresol/entresol.cdx.json.gz | grep -c '"bom-ref"')
[ "$components" -gt 50 ] || fail "$components crates are listed"
ok "licences, and the list of what is compiled in"

# A volume whose server is killed.
truncate -s 256M /srv/disk && truncate -s 64M /srv/flash && head -c 3M /dev/urandom >/srv/data
cd /etc/entresol
entresol volume create data.toml --disk /srv/disk --flash /srv/flash --mode write-back >/dev/null
serve /etc/entresol/data.toml
nbdcopy --flush --requests=1 -- /srv/data "$uri"
has "$(entresol volume status data.toml)" "write-back"
stop KILL
serve /etc/entresol/data.toml
same
ok "a volume: created, served, written, its server killed and started again; the bytes are there"

# An upgrade while it is served.
said=$(dpkg -i /upgrade/entresol.deb 2>&1)
has "$said" "/etc/entresol/data.toml"
has "$said" "process $server"
has "$said" "would get errors"
kill -0 "$server" || fail "the upgrade has ended the server"
same
stop TERM
serve /etc/entresol/data.toml
said=$(/var/lib/dpkg/info/entresol.postinst configure 0)
[ -z "$said" ] || fail "a server of the new program is named: $said"
# As attach.py would be called.
(exec -a attach.py bash -c 'sleep 60; true' attach.py data.sock data /dev/nbd0) &
attach=$!
dpkg -i --force-downgrade /packages/entresol_*_amd64.deb >/tmp/said 2>&1
has "$(cat /tmp/said)" "attach.py holds requests"
kill $attach
ok "an upgrade restarts no server, and names those that run the old program"

if dpkg -r entresol >/tmp/said 2>&1; then fail "the package of a served volume was removed"; fi
has "$(cat /tmp/said)" "these volumes are being served"
dpkg -i /packages/entresol_*_amd64.deb >/dev/null 2>&1
stop TERM
entresol volume detach data.toml >/dev/null
dpkg -r entresol >/dev/null
[ ! -e /usr/bin/entresol ] && [ -e /etc/entresol/data.label ] || fail "the program stays, or the label is gone"
dpkg --purge entresol >/tmp/said 2>&1
has "$(cat /tmp/said)" "has labels of volumes"
cmp --bytes=3145728 /srv/disk /srv/data
ok "removed; the label stays, and the disk has the bytes"

# The tarballs: that of glibc, and the static one where it was made.
unit=/usr/local/lib/systemd/system/entresol@.service
for tarball in /packages/entresol-*.tar.gz; do
  rm -rf /etc/entresol && mkdir /etc/entresol
  tar -C /usr/local --strip-components=1 -xf "$tarball"
  hash -r
  [ "$(command -v entresol)" = /usr/local/bin/entresol ] || fail "the program is not on the path"
  has "$(man -P cat entresol)" "SYNOPSIS"
  cd /etc/entresol
  entresol volume create data.toml --disk /srv/disk --flash /srv/flash --overwrite >/dev/null
  serve /etc/entresol/data.toml
  same
  stop TERM
  entresol volume detach data.toml >/dev/null
  ok "$(basename "$tarball"): unpacked to /usr/local, a volume served"
done
