-- The schema that SQLite has after its migrations up to version 8, for PostgreSQL. Its migrations say what the columns
-- mean. Ids are UUIDs as text, times integer microseconds. Documents are JSON as it was written (`JSON`, not `JSONB`,
-- which would reorder it). Text is compared byte by byte, as SQLite does.

-- `last_served` counts up over all workspaces: the smallest was served least recently.
CREATE TABLE workspaces (
    id TEXT COLLATE "C" PRIMARY KEY,
    last_served BIGINT NOT NULL
);

CREATE TABLE api_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    role TEXT COLLATE "C" NOT NULL
);

CREATE TABLE policies (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    kind JSON NOT NULL,
    n_actions BIGINT NOT NULL,
    dim BIGINT NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    source_job_id TEXT COLLATE "C",
    params JSON NOT NULL,
    base_digest TEXT COLLATE "C" NOT NULL
);
CREATE INDEX policies_listed ON policies (workspace, created_at, id);
CREATE INDEX policies_learned ON policies (source_job_id);

-- What the caller states about the log is in `logging`, `repetitions` and `exact_propensities`.
CREATE TABLE datasets (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C",
    logging_policy_id TEXT COLLATE "C" REFERENCES policies (id),
    created_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    logging JSON NOT NULL,
    repetitions JSON NOT NULL,
    exact_propensities BOOLEAN NOT NULL
);
CREATE INDEX datasets_listed ON datasets (workspace, created_at, id);
CREATE INDEX datasets_logged_by ON datasets (logging_policy_id);

-- `row_set` is the name of the rows: versions with exactly the same rows have the same, whatever their order.
CREATE TABLE dataset_versions (
    dataset_id TEXT COLLATE "C" NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    row_count BIGINT NOT NULL,
    context_count BIGINT NOT NULL,
    n_actions BIGINT NOT NULL,
    dim BIGINT NOT NULL,
    outcome JSON NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    capabilities JSON NOT NULL,
    health JSON NOT NULL,
    parts JSON NOT NULL,
    last_timestamp BIGINT,
    row_set TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (dataset_id, version)
);

-- Jobs outlive the datasets and policies that they read, so they do not reference them. `seq` is the place in the
-- queue; a job that is put back keeps it. `shown` says whether any attempt has shown a bound.
CREATE TABLE jobs (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL REFERENCES workspaces (id),
    seq BIGINT NOT NULL,
    dataset_id TEXT COLLATE "C" NOT NULL,
    dataset_version BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    spec JSON NOT NULL,
    metadata JSON NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    attempt BIGINT NOT NULL,
    lease_token TEXT COLLATE "C",
    lease_until BIGINT,
    cancel_requested BOOLEAN NOT NULL,
    progress JSON,
    result JSON,
    failure JSON,
    certificate JSON,
    evidence JSON,
    revision BIGINT NOT NULL,
    shown BOOLEAN NOT NULL DEFAULT FALSE,
    queued_at BIGINT,
    submitted_by TEXT COLLATE "C"
);
CREATE INDEX jobs_listed ON jobs (workspace, created_at, id);
CREATE UNIQUE INDEX jobs_placed ON jobs (seq);
CREATE INDEX jobs_by_status ON jobs (status, workspace, seq);
CREATE INDEX jobs_by_dataset ON jobs (dataset_id, status);
CREATE INDEX jobs_ended ON jobs (finished_at);
CREATE INDEX jobs_ended_in_workspace ON jobs (workspace, finished_at, id);
CREATE INDEX jobs_listed_by_status ON jobs (workspace, status, created_at, id);
CREATE INDEX jobs_listed_by_dataset ON jobs (workspace, dataset_id, created_at, id);
CREATE INDEX jobs_listed_by_decision ON jobs (workspace, (result ->> 'decision'), created_at, id);

CREATE TABLE job_policies (
    job_id TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    policy_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, policy_id)
);
CREATE INDEX job_policies_by_policy ON job_policies (policy_id);

CREATE TABLE job_events (
    job_id TEXT COLLATE "C" NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    data JSON NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (job_id, id)
);

-- Idempotency: unanswered while `status` is null.
CREATE TABLE requests (
    workspace TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    status BIGINT,
    headers JSON,
    body BYTEA,
    pending_until BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, key)
);
CREATE INDEX requests_expiring ON requests (expires_at);

-- Every file that a row names. What is in the blob store and not in here is an orphan.
CREATE TABLE blobs (
    key TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT COLLATE "C" NOT NULL,
    bytes BIGINT NOT NULL
);
CREATE INDEX blobs_owned ON blobs (owner);

-- Public halves of the keys that certificates were signed with, the retired ones too.
CREATE TABLE signing_keys (
    public_key TEXT COLLATE "C" PRIMARY KEY,
    first_used BIGINT NOT NULL
);

-- Every look at rows. Entries outlive their jobs, policies and datasets, so they reference nothing. `family` is text,
-- because it is compared; `place` is the document as it was signed.
CREATE TABLE ledger (
    dataset_id TEXT COLLATE "C" NOT NULL,
    look BIGINT NOT NULL,
    workspace TEXT COLLATE "C" NOT NULL,
    job_id TEXT COLLATE "C" NOT NULL UNIQUE,
    dataset_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    bound TEXT COLLATE "C" NOT NULL,
    candidates BIGINT NOT NULL,
    decision TEXT COLLATE "C",
    cost DOUBLE PRECISION NOT NULL,
    spent DOUBLE PRECISION NOT NULL,
    family TEXT COLLATE "C",
    digest TEXT COLLATE "C",
    event TEXT COLLATE "C",
    asked TEXT COLLATE "C",
    every_n BOOLEAN NOT NULL,
    place JSON NOT NULL,
    signature JSON,
    seq BIGINT NOT NULL,
    ledger_id TEXT COLLATE "C" NOT NULL,
    row_count BIGINT,
    row_set TEXT COLLATE "C",
    PRIMARY KEY (dataset_id, look)
);
CREATE INDEX ledger_events ON ledger (dataset_id, event);
CREATE INDEX ledger_asked ON ledger (dataset_id, asked);
CREATE UNIQUE INDEX ledger_ordered ON ledger (seq);
CREATE INDEX ledger_listed ON ledger (ledger_id, seq);
CREATE INDEX ledger_digests ON ledger (ledger_id, digest);
CREATE INDEX ledger_families ON ledger (ledger_id, family);

-- Sets of rows that the workspace has stored, in datasets that may be deleted. `id` grows.
CREATE TABLE row_sets (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    sketch BYTEA
);
CREATE UNIQUE INDEX row_sets_named ON row_sets (workspace, name);

-- The smallest hashes of each sketch.
CREATE TABLE row_hashes (
    workspace TEXT COLLATE "C" NOT NULL,
    hash BIGINT NOT NULL,
    set_id BIGINT NOT NULL,
    PRIMARY KEY (workspace, hash, set_id)
);
CREATE INDEX row_hashes_of_set ON row_hashes (set_id);

-- The sets of each dataset, deleted ones included.
CREATE TABLE dataset_row_sets (
    dataset_id TEXT COLLATE "C" NOT NULL,
    set_id BIGINT NOT NULL,
    whole BOOLEAN NOT NULL,
    first_version BIGINT NOT NULL,
    through_version BIGINT NOT NULL,
    PRIMARY KEY (dataset_id, set_id, whole)
);
CREATE INDEX dataset_row_sets_owners ON dataset_row_sets (set_id);

-- Sets of other datasets of which a dataset has rows.
CREATE TABLE row_overlaps (
    dataset_id TEXT COLLATE "C" NOT NULL,
    set_id BIGINT NOT NULL,
    through_version BIGINT NOT NULL,
    PRIMARY KEY (dataset_id, set_id)
);
CREATE INDEX row_overlaps_of_set ON row_overlaps (set_id);

-- A ledger counts the looks at rows, whichever datasets have them, and what they cost.
CREATE TABLE ledgers (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    datasets BIGINT NOT NULL,
    looks BIGINT NOT NULL,
    spent DOUBLE PRECISION NOT NULL
);

-- The ledger of each dataset, deleted ones included.
CREATE TABLE ledger_datasets (
    dataset_id TEXT COLLATE "C" PRIMARY KEY,
    ledger_id TEXT COLLATE "C" NOT NULL REFERENCES ledgers (id)
);
CREATE INDEX ledger_datasets_by_ledger ON ledger_datasets (ledger_id);

-- The datasets whose rows parameters were learned from, by the digest of the parameters.
CREATE TABLE policy_descents (
    workspace TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    dataset_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, digest, dataset_id)
);

CREATE TABLE gates (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    definition JSON NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL
);
CREATE UNIQUE INDEX gates_named ON gates (workspace, name);
CREATE INDEX gates_listed ON gates (workspace, created_at, id);

-- Tokens are stored as their SHA-256 only. A revoked token has no row.
CREATE TABLE gate_tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    gate_id TEXT COLLATE "C" NOT NULL REFERENCES gates (id) ON DELETE CASCADE,
    name TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL
);
CREATE INDEX gate_tokens_listed ON gate_tokens (gate_id, created_at, id);

-- The secret is in clear, because it signs.
CREATE TABLE webhooks (
    id TEXT COLLATE "C" PRIMARY KEY,
    workspace TEXT COLLATE "C" NOT NULL,
    definition JSON NOT NULL,
    enabled BOOLEAN NOT NULL,
    secret TEXT COLLATE "C" NOT NULL,
    old_secret TEXT COLLATE "C",
    old_secret_until BIGINT,
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT COLLATE "C" NOT NULL,
    last_success_at BIGINT,
    failing_since BIGINT,
    dropped BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX webhooks_listed ON webhooks (workspace, created_at, id);

-- One event for one webhook. Jobs may be deleted before the delivery, so the row has everything that is sent.
CREATE TABLE deliveries (
    id TEXT COLLATE "C" PRIMARY KEY,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    data JSON NOT NULL,
    created_at BIGINT NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    since BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    next_at BIGINT,
    last_at BIGINT,
    last_status BIGINT,
    last_error TEXT COLLATE "C",
    ended_at BIGINT
);
CREATE UNIQUE INDEX deliveries_once ON deliveries (webhook_id, event_id);
CREATE INDEX deliveries_listed ON deliveries (webhook_id, created_at, id);
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at);
CREATE INDEX deliveries_waiting ON deliveries (next_at);
CREATE INDEX deliveries_ended ON deliveries (webhook_id, ended_at);
