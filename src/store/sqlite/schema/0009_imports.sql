-- Logs by reference. `id` is that of the dataset that the import creates. `request` says what to read and how, `objects` is
-- what was read. A worker holds an import by `lease_token` until `lease_until`, as it holds a job.
CREATE TABLE imports (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    status TEXT NOT NULL,
    submitted_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    attempt BIGINT NOT NULL,
    cancel_requested BOOLEAN NOT NULL,
    request TEXT NOT NULL,
    objects TEXT,
    progress TEXT,
    failure TEXT,
    lease_token TEXT,
    lease_until BIGINT,
    revision BIGINT NOT NULL
);
CREATE INDEX imports_listed ON imports (workspace, created_at, id);
CREATE INDEX imports_unfinished ON imports (status) WHERE status IN ('queued', 'running');
