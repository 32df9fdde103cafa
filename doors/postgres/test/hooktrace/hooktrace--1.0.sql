\echo Use "CREATE EXTENSION hooktrace" to load this file. \quit

-- How often each rule was checked since the server's start (oracle.c).
CREATE FUNCTION hooktrace_stat(OUT name text, OUT count bigint) RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- Does random things to an empty table and compares every page with what was written last. Raises an
-- error at the first difference. A fault leaves out one step of the cache for this table (model.c). The cache's
-- worker holds each page that it pulls for pause_us before it hands the page down.
CREATE FUNCTION hooktrace_model(relation regclass, steps int, seed bigint, fault text DEFAULT 'none',
								pause_us int DEFAULT 0)
RETURNS text AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

REVOKE ALL ON FUNCTION hooktrace_model(regclass, int, bigint, text, int) FROM PUBLIC;
