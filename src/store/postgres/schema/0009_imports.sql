-- Logs by reference; SQLite's migration of this number says what the columns mean. Releases that know schema 8 do not see
-- them, and can work beside this one: their jobs on a dataset whose objects are pinned fail, and can be submitted again.
CREATE TABLE imports (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    submitted_by TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    attempt BIGINT NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    request JSON NOT NULL,
    objects JSON,
    progress JSON,
    failure JSON,
    lease_token TEXT COLLATE "C",
    lease_until BIGINT,
    revision BIGINT NOT NULL
);
CREATE INDEX imports_listed ON imports (workspace, created_at, id);
CREATE INDEX imports_unfinished ON imports (status) WHERE status IN ('queued', 'running');
