\echo Use "CREATE EXTENSION entresol" to load this file. \quit

-- Counters of all processes since the cache was opened, and present values. In pages unless said otherwise.
-- The comments on the view's columns say what they mean.
CREATE FUNCTION entresol_stat(
    OUT staging_hits bigint,
    OUT flash_hits bigint,
    OUT async_hits bigint,
    OUT async_rejected bigint,
    OUT misses bigint,
    OUT staged_dirty bigint,
    OUT staged_clean bigint,
    OUT already_cached bigint,
    OUT refused_clean bigint,
    OUT disk_only bigint,
    OUT written_through bigint,
    OUT kept_out bigint,
    OUT over_budget bigint,
    OUT pulled bigint,
    OUT destaged bigint,
    OUT flash_writes bigint,
    OUT second_chances bigint,
    OUT dequeue_reads bigint,
    OUT damaged_clean bigint,
    OUT forgets bigint,
    OUT cuts bigint,
    OUT retired bigint,
    OUT flushes bigint,
    OUT checkpoints bigint,
    OUT destages_asked bigint,
    OUT no_file bigint,
    OUT past_end bigint,
    OUT space_waits bigint,
    OUT file_syncs bigint,
    OUT flash_write_bytes bigint,
    OUT slots bigint,
    OUT slots_valid bigint,
    OUT slots_dirty bigint,
    OUT slots_superseded bigint,
    OUT objects bigint,
    OUT objects_retired bigint,
    OUT objects_refused bigint
) RETURNS record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

-- The state of the cache: "serving", or "off" if it runs without its flash, with the reason.
CREATE FUNCTION entresol_state(OUT state text, OUT mode text, OUT reason text, OUT stats_reset timestamptz)
RETURNS record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

-- What a loss of the flash means now: whether the cluster survives it, from where on WAL replaces it, how many bytes of WAL
-- would be replayed, how many dirty pages need more of WAL than a crash does, and how many seconds the replay would take.
-- That is estimated by pages from the last replay; before the first one by bytes from the last redo with the flash.
CREATE FUNCTION entresol_flash_loss(OUT flash_loss text, OUT horizon pg_lsn, OUT wal_to_replay bigint, OUT pages_behind bigint,
    OUT replay_seconds double precision)
RETURNS record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

-- How long things take, in microseconds; the parts are rounded up to powers of two. "read" and "stage" are
-- measured while track_io_timing is on.
CREATE FUNCTION entresol_stat_latency(
    OUT operation text,
    OUT count bigint,
    OUT total_us bigint,
    OUT p50_us bigint,
    OUT p95_us bigint,
    OUT p99_us bigint
) RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_stat AS
SELECT s.*, state.*, read.p50_us AS read_p50_us, read.p99_us AS read_p99_us,
    write.p50_us AS flash_write_p50_us, write.p99_us AS flash_write_p99_us
FROM entresol_stat() s CROSS JOIN entresol_state() state
LEFT JOIN entresol_stat_latency() read ON read.operation = 'read'
LEFT JOIN entresol_stat_latency() write ON write.operation = 'flash write';

-- As in crates/pg/src/types.rs.
COMMENT ON COLUMN entresol_stat.staging_hits IS
    'Reads served from memory between DRAM and flash.';
COMMENT ON COLUMN entresol_stat.flash_hits IS
    'Reads served from flash.';
COMMENT ON COLUMN entresol_stat.async_hits IS
    'Of flash_hits, reads that the server has started, to be executed meanwhile.';
COMMENT ON COLUMN entresol_stat.async_rejected IS
    'Such reads that found another page in its place, and were repeated.';
COMMENT ON COLUMN entresol_stat.misses IS
    'Reads that the cache could not serve.';
COMMENT ON COLUMN entresol_stat.staged_dirty IS
    'Dirty pages taken.';
COMMENT ON COLUMN entresol_stat.staged_clean IS
    'Clean pages taken.';
COMMENT ON COLUMN entresol_stat.already_cached IS
    'Clean pages offered with an equal copy in the cache.';
COMMENT ON COLUMN entresol_stat.refused_clean IS
    'Clean pages not taken, for there was no room.';
COMMENT ON COLUMN entresol_stat.disk_only IS
    'Dirty pages written to disk past the cache.';
COMMENT ON COLUMN entresol_stat.written_through IS
    'Changed pages written to their files by the server itself, and taken as clean ones.';
COMMENT ON COLUMN entresol_stat.kept_out IS
    'Pages offered of relations that are kept out of the cache.';
COMMENT ON COLUMN entresol_stat.over_budget IS
    'Pages offered while the budget of writes to flash is short.';
COMMENT ON COLUMN entresol_stat.pulled IS
    'Pages pulled out of shared buffers to fill a group.';
COMMENT ON COLUMN entresol_stat.destaged IS
    'Pages written from flash to relation files.';
COMMENT ON COLUMN entresol_stat.flash_writes IS
    'Pages written to flash, second chances included.';
COMMENT ON COLUMN entresol_stat.second_chances IS
    'Second chances given.';
COMMENT ON COLUMN entresol_stat.dequeue_reads IS
    'Pages read from flash to be destaged or staged again.';
COMMENT ON COLUMN entresol_stat.damaged_clean IS
    'Clean pages found damaged on flash.';
COMMENT ON COLUMN entresol_stat.forgets IS
    'Requests to forget blocks.';
COMMENT ON COLUMN entresol_stat.cuts IS
    'Forks truncated.';
COMMENT ON COLUMN entresol_stat.retired IS
    'Forks removed.';
COMMENT ON COLUMN entresol_stat.flushes IS
    'Requests to make a relation durable.';
COMMENT ON COLUMN entresol_stat.checkpoints IS
    'Checkpoints.';
COMMENT ON COLUMN entresol_stat.destages_asked IS
    'Requests to bring pages to disk: drains, backups, copies of databases.';
COMMENT ON COLUMN entresol_stat.no_file IS
    'Pages not destaged, since their file is gone.';
COMMENT ON COLUMN entresol_stat.past_end IS
    'Pages not destaged, since their file is shorter.';
COMMENT ON COLUMN entresol_stat.space_waits IS
    'Waits of a destage for space on a file system.';
COMMENT ON COLUMN entresol_stat.file_syncs IS
    'Syncs of relation files.';
COMMENT ON COLUMN entresol_stat.flash_write_bytes IS
    'Bytes of pages written to flash.';
COMMENT ON COLUMN entresol_stat.slots IS
    'Slots on flash.';
COMMENT ON COLUMN entresol_stat.slots_valid IS
    'Slots with the newest version of a page.';
COMMENT ON COLUMN entresol_stat.slots_dirty IS
    'Valid slots that are newer than disk.';
COMMENT ON COLUMN entresol_stat.slots_superseded IS
    'Slots with a superseded version.';
COMMENT ON COLUMN entresol_stat.objects IS
    'Forks with pages in the cache.';
COMMENT ON COLUMN entresol_stat.objects_retired IS
    'Removed forks whose numbers are not free yet.';
COMMENT ON COLUMN entresol_stat.objects_refused IS
    'Times that the table of forks was full.';
COMMENT ON COLUMN entresol_stat.state IS
    '"serving", or "off" if the server runs without its flash.';
COMMENT ON COLUMN entresol_stat.mode IS
    '"write-back" or "write-through".';
COMMENT ON COLUMN entresol_stat.reason IS
    'Why the state is off.';
COMMENT ON COLUMN entresol_stat.stats_reset IS
    'When the counters were reset.';
COMMENT ON COLUMN entresol_stat.read_p50_us IS
    'Half of the reads from the cache took less than so many microseconds, rounded up to a power of two; while track_io_timing is on.';
COMMENT ON COLUMN entresol_stat.read_p99_us IS
    'As read_p50_us, 99 of 100 reads.';
COMMENT ON COLUMN entresol_stat.flash_write_p50_us IS
    'Half of the writes to flash took less than so many microseconds, rounded up to a power of two.';
COMMENT ON COLUMN entresol_stat.flash_write_p99_us IS
    'As flash_write_p50_us, 99 of 100 writes.';

CREATE VIEW entresol_stat_latency AS SELECT * FROM entresol_stat_latency();

-- What processes of each type did, as pg_stat_io has it. In pages.
CREATE FUNCTION entresol_stat_backend(
    OUT backend_type text,
    OUT hits bigint,
    OUT misses bigint,
    OUT staged_dirty bigint,
    OUT staged_clean bigint,
    OUT refused bigint
) RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_stat_backend AS SELECT * FROM entresol_stat_backend();

-- I/O of the flash, with the columns of pg_stat_io. Times are in milliseconds: those of reads by processes while
-- track_io_timing is on.
CREATE FUNCTION entresol_stat_io(
    OUT backend_type text,
    OUT object text,
    OUT context text,
    OUT reads bigint,
    OUT read_bytes bigint,
    OUT read_time double precision,
    OUT writes bigint,
    OUT write_bytes bigint,
    OUT write_time double precision,
    OUT writebacks bigint,
    OUT writeback_time double precision,
    OUT extends bigint,
    OUT extend_bytes bigint,
    OUT extend_time double precision,
    OUT hits bigint,
    OUT evictions bigint,
    OUT reuses bigint,
    OUT fsyncs bigint,
    OUT fsync_time double precision,
    OUT stats_reset timestamptz
) RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_stat_io AS SELECT * FROM entresol_stat_io();

-- What the cache has saved in the last hour, or since it was opened.
CREATE FUNCTION entresol_benefit(
    OUT since timestamptz,
    OUT seconds bigint,
    OUT disk_reads_saved bigint,
    OUT disk_writes_saved bigint,
    OUT disk_read_ms double precision,
    OUT disk_write_ms double precision,
    OUT disk_seconds_saved double precision,
    OUT flash_write_bytes bigint,
    OUT hit_percent double precision,
    OUT hit_percent_half double precision,
    OUT hit_percent_twice double precision,
    OUT forecast text
) RETURNS record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_benefit AS SELECT * FROM entresol_benefit();

COMMENT ON COLUMN entresol_benefit.disk_reads_saved IS
    'Pages that the cache has served.';
COMMENT ON COLUMN entresol_benefit.disk_writes_saved IS
    'Pages that the server has handed down instead of writing them to disk, less those that the cache has written there.';
COMMENT ON COLUMN entresol_benefit.disk_read_ms IS
    'What a page read from disk takes, of reads that were timed.';
COMMENT ON COLUMN entresol_benefit.disk_write_ms IS
    'What a page written to disk takes, with its sync, of writes by the cache.';
COMMENT ON COLUMN entresol_benefit.disk_seconds_saved IS
    'What the saved reads and writes would have taken.';
COMMENT ON COLUMN entresol_benefit.flash_write_bytes IS
    'Written to flash.';
COMMENT ON COLUMN entresol_benefit.hit_percent IS
    'Hits of this cache, as its shadows count them.';
COMMENT ON COLUMN entresol_benefit.hit_percent_half IS
    'Hits with half the flash, as forecast.';
COMMENT ON COLUMN entresol_benefit.hit_percent_twice IS
    'Hits with twice the flash, as forecast.';
COMMENT ON COLUMN entresol_benefit.forecast IS
    'What the shadows say of sizes and policies, or why they say nothing.';

-- What the cache has of each fork of a relation, in all databases.
CREATE FUNCTION entresol_stat_relation(
    OUT tablespace oid,
    OUT database oid,
    OUT relfilenode oid,
    OUT fork text,
    OUT cached bigint,
    OUT dirty bigint,
    OUT hits bigint,
    OUT misses bigint,
    OUT staged_dirty bigint,
    OUT staged_clean bigint
) RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

-- The same for the relations of this database and the shared ones, by name: which table earns its flash.
CREATE VIEW entresol_stat_relation AS
SELECT pg_filenode_relation(tablespace, relfilenode) AS relation, s.*
FROM entresol_stat_relation() s
WHERE database IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()));

-- What statements of clients have had of the cache, in pages, by query identifier (compute_query_id).
CREATE FUNCTION entresol_stat_statements(
    OUT userid oid,
    OUT dbid oid,
    OUT queryid bigint,
    OUT calls bigint,
    OUT hits bigint,
    OUT async_hits bigint,
    OUT misses bigint,
    OUT staged_dirty bigint,
    OUT staged_clean bigint
) RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_stat_statements AS SELECT * FROM entresol_stat_statements();

-- Writes all dirty pages of the cache to their files.
CREATE FUNCTION entresol_drain() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The cache as it is: settings of it change while the server runs. "refused": why the cache does not have them.
CREATE FUNCTION entresol_cache(
    OUT flash text,
    OUT size_mb bigint,
    OUT max_size_mb bigint,
    OUT mode text,
    OUT policy text,
    OUT refused text
) RETURNS record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_cache AS SELECT * FROM entresol_cache();

-- Exchanges the flash for another file or device, or adds one, while the server runs; changes "entresol.flash". It
-- returns when the cache is there, and is not undone by a rollback.
CREATE FUNCTION entresol_move_flash(path text) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- All counters begin at zero again.
CREATE FUNCTION entresol_stat_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Brings the blocks of a relation into the cache; returns how many entered.
CREATE FUNCTION entresol_prewarm(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The same for the relations of this database, small ones first, as many as there is room for.
CREATE FUNCTION entresol_prewarm() RETURNS bigint
AS 'MODULE_PATHNAME', 'entresol_prewarm_database' LANGUAGE C STRICT;

-- Writes a file that names the pages in the cache, those of most use first; returns how many. Without a path:
-- entresol.manifest in the cluster's folder, which base backups have.
CREATE FUNCTION entresol_dump_manifest(path text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C;

-- Brings the pages that such a file names into the cache, of all databases, as many as there is room for; returns
-- how many entered.
CREATE FUNCTION entresol_load_manifest(path text DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C;

-- Removes the blocks of a relation from the cache, dirty ones to their files; returns how many were there.
CREATE FUNCTION entresol_evict(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Keeps a relation out of the cache, or lets it enter again: sets its security label. With the transaction.
CREATE FUNCTION entresol_keep_out(relation regclass, keep boolean DEFAULT true) RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The files of such relations, in all databases. "leaves": the relation may enter again; its clean pages do so when
-- the file is durable.
CREATE FUNCTION entresol_kept_out(
    OUT database oid,
    OUT relid oid,
    OUT tablespace oid,
    OUT relfilenode oid,
    OUT leaves boolean
) RETURNS SETOF record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

-- The relations of this database that are kept out.
CREATE VIEW entresol_kept_out AS
SELECT objoid::regclass AS relation
FROM pg_catalog.pg_seclabel
WHERE provider = 'entresol' AND label = 'keep-out' AND classoid = 'pg_catalog.pg_class'::regclass AND objsubid = 0;

-- Only pg_monitor reads, only superusers act.
REVOKE ALL ON FUNCTION entresol_stat(), entresol_state(), entresol_cache(), entresol_stat_latency(), entresol_stat_backend(),
    entresol_stat_io(), entresol_benefit(), entresol_stat_relation(), entresol_stat_statements(), entresol_kept_out(),
    entresol_flash_loss(), entresol_stat_reset(), entresol_drain(), entresol_move_flash(text), entresol_prewarm(regclass), entresol_prewarm(),
    entresol_dump_manifest(text), entresol_load_manifest(text), entresol_evict(regclass),
    entresol_keep_out(regclass, boolean) FROM PUBLIC;
REVOKE ALL ON entresol_stat, entresol_cache, entresol_stat_latency, entresol_stat_backend, entresol_stat_io, entresol_benefit,
    entresol_stat_relation, entresol_stat_statements, entresol_kept_out FROM PUBLIC;
GRANT EXECUTE ON FUNCTION entresol_stat(), entresol_state(), entresol_cache(), entresol_stat_latency(), entresol_stat_backend(),
    entresol_stat_io(), entresol_benefit(), entresol_stat_relation(), entresol_stat_statements(),
    entresol_kept_out(), entresol_flash_loss() TO pg_monitor;
GRANT SELECT ON entresol_stat, entresol_cache, entresol_stat_latency, entresol_stat_backend, entresol_stat_io, entresol_benefit,
    entresol_stat_relation, entresol_stat_statements, entresol_kept_out TO pg_monitor;
