\echo Use "CREATE EXTENSION entresol" to load this file. \quit

-- Counters of all processes since the cache was opened, and present values. In pages unless said otherwise.
-- Columns as in crates/pg/src/types.rs, which says what they mean.
CREATE FUNCTION entresol_stat(
    OUT staging_hits bigint,
    OUT flash_hits bigint,
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

-- What became of the cache: "serving", or "off" if it goes on without its flash, with the reason.
CREATE FUNCTION entresol_state(OUT state text, OUT mode text, OUT reason text, OUT stats_reset timestamptz)
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

-- Writes all dirty pages of the cache to their files.
CREATE FUNCTION entresol_drain() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- All counters begin at zero again.
CREATE FUNCTION entresol_stat_reset() RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Brings the blocks of a relation into the cache; returns how many entered.
CREATE FUNCTION entresol_prewarm(relation regclass) RETURNS bigint
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

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
REVOKE ALL ON FUNCTION entresol_stat(), entresol_state(), entresol_stat_latency(), entresol_stat_backend(),
    entresol_stat_relation(), entresol_kept_out(), entresol_stat_reset(), entresol_drain(),
    entresol_prewarm(regclass), entresol_evict(regclass), entresol_keep_out(regclass, boolean) FROM PUBLIC;
REVOKE ALL ON entresol_stat, entresol_stat_latency, entresol_stat_backend, entresol_stat_relation,
    entresol_kept_out FROM PUBLIC;
GRANT EXECUTE ON FUNCTION entresol_stat(), entresol_state(), entresol_stat_latency(), entresol_stat_backend(),
    entresol_stat_relation(), entresol_kept_out() TO pg_monitor;
GRANT SELECT ON entresol_stat, entresol_stat_latency, entresol_stat_backend, entresol_stat_relation,
    entresol_kept_out TO pg_monitor;
