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
    OUT slots bigint,
    OUT slots_valid bigint,
    OUT slots_dirty bigint,
    OUT slots_superseded bigint,
    OUT objects bigint,
    OUT objects_retired bigint,
    OUT objects_refused bigint
) RETURNS record AS 'MODULE_PATHNAME' LANGUAGE C STRICT PARALLEL RESTRICTED;

CREATE VIEW entresol_stat AS SELECT * FROM entresol_stat();

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

-- Only pg_monitor reads, only superusers act.
REVOKE ALL ON FUNCTION entresol_stat() FROM PUBLIC;
REVOKE ALL ON FUNCTION entresol_stat_relation() FROM PUBLIC;
REVOKE ALL ON FUNCTION entresol_drain() FROM PUBLIC;
REVOKE ALL ON entresol_stat FROM PUBLIC;
REVOKE ALL ON entresol_stat_relation FROM PUBLIC;
GRANT EXECUTE ON FUNCTION entresol_stat() TO pg_monitor;
GRANT EXECUTE ON FUNCTION entresol_stat_relation() TO pg_monitor;
GRANT SELECT ON entresol_stat TO pg_monitor;
GRANT SELECT ON entresol_stat_relation TO pg_monitor;
