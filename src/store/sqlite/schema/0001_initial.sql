-- Ids are UUIDs as text, times integer microseconds, documents JSON as text: the same in any database.

CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    -- Counts up over all workspaces: the smallest was served least recently.
    last_served BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE TABLE policies (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    kind TEXT NOT NULL,
    n_actions BIGINT NOT NULL,
    dim BIGINT NOT NULL,
    digest TEXT NOT NULL,
    source_job_id TEXT,
    params TEXT NOT NULL
);
CREATE INDEX policies_listed ON policies (workspace, created_at, id);
CREATE INDEX policies_learned ON policies (source_job_id);

CREATE TABLE datasets (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT,
    logging_policy_id TEXT REFERENCES policies (id),
    created_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX datasets_listed ON datasets (workspace, created_at, id);
CREATE INDEX datasets_logged_by ON datasets (logging_policy_id);

CREATE TABLE dataset_versions (
    dataset_id TEXT NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    context_count BIGINT NOT NULL,
    n_actions BIGINT NOT NULL,
    dim BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    digest TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    health TEXT NOT NULL,
    parts TEXT NOT NULL,
    PRIMARY KEY (dataset_id, version)
);

-- Jobs outlive the datasets and policies that they read, so they do not reference them.
CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL REFERENCES workspaces (id),
    -- The place in the queue; a job that is put back keeps it.
    seq BIGINT NOT NULL,
    dataset_id TEXT NOT NULL,
    dataset_version BIGINT NOT NULL,
    status TEXT NOT NULL,
    spec TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    attempt BIGINT NOT NULL,
    lease_token TEXT,
    lease_until BIGINT,
    cancel_requested BIGINT NOT NULL,
    progress TEXT,
    result TEXT,
    failure TEXT,
    certificate TEXT,
    evidence TEXT,
    revision BIGINT NOT NULL
);
CREATE INDEX jobs_listed ON jobs (workspace, created_at, id);
CREATE UNIQUE INDEX jobs_placed ON jobs (seq);
CREATE INDEX jobs_by_status ON jobs (status, workspace, seq);
CREATE INDEX jobs_by_dataset ON jobs (dataset_id, status);
CREATE INDEX jobs_ended ON jobs (finished_at);

CREATE TABLE job_policies (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    policy_id TEXT NOT NULL,
    PRIMARY KEY (job_id, policy_id)
);
CREATE INDEX job_policies_by_policy ON job_policies (policy_id);

CREATE TABLE job_events (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (job_id, id)
);

-- Idempotency: unanswered while `status` is null.
CREATE TABLE requests (
    workspace TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    status BIGINT,
    headers TEXT,
    body BLOB,
    pending_until BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX requests_expiring ON requests (expires_at);

-- Every file that a row names. What is in the blob store and not in here is an orphan.
CREATE TABLE blobs (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL
);
CREATE INDEX blobs_owned ON blobs (owner);
