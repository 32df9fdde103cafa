#!/usr/bin/env bash
# Run within a fresh system by tests/install/postgres.sh: /packages has the package and the commands of the page.
set -euo pipefail
trap 'echo "  failed: line $LINENO: $BASH_COMMAND" >&2; tail -n 5 /tmp/said 2>/dev/null >&2' ERR
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/
major=$1 package=postgresql-$1-entresol server=postgresql-$1
bin=/usr/lib/postgresql/$major/bin data=/var/lib/postgresql/$major/fast

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
sql() {
  runuser -u postgres -- psql --cluster "$major/fast" -XAtq -c "$1"
}
# The rows are consistent, and are those of before.
same() {
  [ "$(sql 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)')" = t ] ||
    fail "the rows are not those that were committed"
  [ "$(sql 'SELECT count(*) FROM pgbench_history')" = "$rows" ] || fail "committed rows are missing"
}
postmaster() {
  head -n 1 "$data/postmaster.pid"
}
# refused COMMAND...: it fails; what it says is in /tmp/said.
refused() {
  if "$@" >/tmp/said 2>&1; then fail "was not refused: $*"; fi
}
# What is not installed is not part of the test: servers of this system's own, questions.
printf '%s\n' 'APT::Get::Assume-Yes "true";' 'APT::Sandbox::User "root";' 'quiet "2";' >/etc/apt/apt.conf.d/20test
apt-get update

# The five commands.
cd /packages
began=$SECONDS commands=0
while read -r command; do
  step=$SECONDS commands=$((commands + 1))
  bash -euc "$command" >/tmp/said 2>&1 || fail "$command: $(tail -n 5 /tmp/said)"
  echo "  $((SECONDS - step)) s: $command"
done <commands.sh
cat /tmp/said
[ "$commands" = 5 ] || fail "the page has $commands commands"
read -r state hits < <(sql "SELECT state || ' ' || flash_hits FROM entresol_stat")
[ "$state" = serving ] && [ "$hits" -gt 0 ] || fail "state $state, hits $hits"
size=$(dpkg-query -W -f '${Installed-Size}' "$package")
ok "five commands: $((SECONDS - began)) s, $hits hits; $((size / 1024)) MB installed"
rows=$(sql 'SELECT count(*) FROM pgbench_history')
[ "$rows" -gt 0 ] || fail "pgbench has written nothing"
debian=$(dpkg-query -W -f '${Version}' "$server")
has "$(sql 'SHOW server_version')" "(Debian $debian)"
[ "$(pg_lsclusters -h | grep -c '^.* fast .* online')" = 1 ] || fail "the cluster is not listed as online"

# Modules of Debian's packages are compiled for a server without changes.
sql 'CREATE EXTENSION pg_buffercache'
[ "$(sql 'SELECT count(*) > 0 FROM pg_buffercache')" = t ] || fail "pg_buffercache"
plan=$(sql 'SET jit_above_cost = 0; EXPLAIN (ANALYZE) SELECT sum(abalance) FROM pgbench_accounts')
has "$plan" "JIT:"
ok "a module of Debian's package is loaded, and its JIT compiles"

pg_ctlcluster "$major" fast restart
same
kill -KILL "$(postmaster)"
for _ in $(seq 100); do pgrep -f "^$bin/postgres" >/dev/null || break; sleep 0.1; done
pg_ctlcluster "$major" fast start
same
ok "restarted, and killed and started: the rows are there"

# An upgrade of the package while the server runs.
dpkg-deb --raw-extract "$package"_*.deb /tmp/upgrade
sed -i 's/^Version: .*/&.1/' /tmp/upgrade/DEBIAN/control
dpkg-deb --root-owner-group -Znone --build /tmp/upgrade /tmp/upgrade.deb >/dev/null
pid=$(postmaster)
apt-get install /tmp/upgrade.deb >/tmp/said 2>&1
[ "$(postmaster)" = "$pid" ] && kill -0 "$pid" || fail "the upgrade has restarted the server"
has "$(cat /tmp/said)" "process $pid) runs the program from before"
has "$(cat /tmp/said)" "pg_ctlcluster $major fast restart"
same
pg_ctlcluster "$major" fast restart
[ -z "$("/var/lib/dpkg/info/$package.postinst" configure 0)" ] || fail "a server of the new program is named"
ok "an upgrade restarts no server, and names it"

# Debian's package alone in another version, ours alone, and both together. (That of JIT depends on a version, too.)
cd /tmp
apt-get purge "$server-jit" >/dev/null 2>&1
apt-get download "$server=$debian" >/dev/null
dpkg-deb --raw-extract "$server"_*.deb /tmp/server
sed -i 's/^Version: .*/&.1/' /tmp/server/DEBIAN/control
dpkg-deb --root-owner-group -Znone --build /tmp/server /tmp/server.deb >/dev/null
refused apt-get install --no-remove /tmp/server.deb
has "$(cat /tmp/said)" "remove is disabled"
has "$(apt-get install --simulate -o quiet=0 /tmp/server.deb)" "Remv $package"
sed -i "s/$debian/&.1/g; s/^Version: .*/&.1/" /tmp/upgrade/DEBIAN/control
dpkg-deb --root-owner-group -Znone --build /tmp/upgrade /tmp/upgrade.deb >/dev/null
refused dpkg -i /tmp/upgrade.deb
has "$(cat /tmp/said)" "would break"
same
apt-get install /tmp/server.deb /tmp/upgrade.deb >/tmp/said 2>&1
[ "$(dpkg-query -W -f '${Version}' "$server")" = "$debian.1" ] || fail "the version has not changed"
dpkg --verify "$server" "$package" | grep -v ' c ' && fail "files are not those of their packages"
pg_ctlcluster "$major" fast restart
same
ok "neither package is upgraded without the other; together they are"

# The cluster needs its flash: running, and stopped.
refused apt-get remove "$package"
has "$(cat /tmp/said)" "$data"
same
pg_ctlcluster "$major" fast stop
refused apt-get remove "$package"
has "$(cat /tmp/said)" "entresol.drain_at_shutdown = on"
refused runuser -u postgres -- "$bin/postgres.distrib" -D "$data" -c "config_file=/etc/postgresql/$major/fast/postgresql.conf" \
  -c shared_preload_libraries=
has "$(cat /tmp/said)" "incompatible with server"
[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package")" = "ii " ] || fail "the package is not installed any more"
ok "the package of a cluster that needs its flash is not removed; Debian's server refuses the cluster"

# As the refusal says.
pg_ctlcluster "$major" fast start
sql 'ALTER SYSTEM SET entresol.drain_at_shutdown = on'
sql 'SELECT pg_reload_conf()' >/dev/null
pg_ctlcluster "$major" fast stop
apt-get remove "$package" >/tmp/said 2>&1
has "$(cat /tmp/said)" "shared_preload_libraries of $major/fast"
[ -z "$(dpkg-divert --list "*$major/bin*")" ] && [ ! -e "$bin/postgres.distrib" ] || fail "a diversion stays"
dpkg --verify "$server" | grep -v ' c ' && fail "the programs are not Debian's"
pg_conftool "$major" fast set shared_preload_libraries ''
pg_ctlcluster "$major" fast start
same
ok "drained, and removed: Debian's server has the cluster"
apt-get purge "$package" >/dev/null 2>&1
[ -z "$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null)" ] && [ ! -e "/usr/share/doc/$package" ] || fail "files stay"

# A server of Debian's that runs meanwhile, and the cluster with the flash again.
apt-get install /tmp/upgrade.deb >/tmp/said 2>&1
has "$(cat /tmp/said)" "process $(postmaster)) runs the program from before"
pg_conftool "$major" fast set shared_preload_libraries entresol
pg_ctlcluster "$major" fast restart
same
[ "$(sql 'SELECT state FROM entresol_stat')" = serving ] || fail "the cache does not serve"
pg_ctlcluster "$major" fast stop
ok "installed again over a running server; the cluster has its flash again"
