-- Standing gates, and the tokens with which callers without an API key ask one of them.

CREATE TABLE gates (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Which jobs it asks about and what it requires, as JSON with every default filled in.
    definition TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE UNIQUE INDEX gates_named ON gates (workspace, name);
CREATE INDEX gates_listed ON gates (workspace, created_at, id);

-- Tokens are stored as their SHA-256 only. A revoked token has no row.
CREATE TABLE gate_tokens (
    id TEXT PRIMARY KEY,
    gate_id TEXT NOT NULL REFERENCES gates (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL
);
CREATE INDEX gate_tokens_listed ON gate_tokens (gate_id, created_at, id);

-- A standing gate asks about the job that ended last.
CREATE INDEX jobs_ended_in_workspace ON jobs (workspace, finished_at, id);
