-- Every certificate that was drawn from a dataset's rows. Entries outlive their jobs and policies,
-- and the dataset too, for its certificates name their places; so they reference nothing.
CREATE TABLE ledger (
    dataset_id TEXT NOT NULL,
    look BIGINT NOT NULL,
    workspace TEXT NOT NULL,
    job_id TEXT NOT NULL UNIQUE,
    dataset_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    bound TEXT NOT NULL,
    candidates BIGINT NOT NULL,
    decision TEXT NOT NULL,
    delta DOUBLE PRECISION NOT NULL,
    -- What all looks before this one cost, and the earlier look whose event this one shares.
    spent_before DOUBLE PRECISION NOT NULL,
    cost DOUBLE PRECISION NOT NULL,
    shares_look BIGINT,
    shares_why TEXT,
    family TEXT,
    -- Looks of the family that were taken, this one included.
    family_taken BIGINT,
    -- The certificate's digest, the event that it rests on where that holds at every n, and the
    -- signature; absent for what was issued before there was a ledger.
    digest TEXT,
    event TEXT,
    signature TEXT,
    PRIMARY KEY (dataset_id, look)
);
CREATE INDEX ledger_digests ON ledger (dataset_id, digest);
CREATE INDEX ledger_events ON ledger (dataset_id, event);
CREATE INDEX ledger_families ON ledger (dataset_id, family);

-- Public halves of the keys that certificates were signed with, the retired ones too.
CREATE TABLE signing_keys (
    public_key TEXT PRIMARY KEY,
    first_used BIGINT NOT NULL
);

-- The certificates that exist already were looks as well.
INSERT INTO ledger (dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, candidates,
    decision, delta, spent_before, cost)
SELECT dataset_id,
    ROW_NUMBER() OVER of_dataset,
    workspace, id, dataset_version, finished_at,
    json_extract(spec, '$.kind'),
    json_extract(spec, '$.bound'),
    COALESCE(json_array_length(spec, '$.candidates'), 0),
    json_extract(result, '$.decision'),
    json_extract(spec, '$.delta'),
    COALESCE(SUM(json_extract(spec, '$.delta')) OVER (of_dataset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0.0),
    json_extract(spec, '$.delta')
FROM jobs WHERE status = 'succeeded'
WINDOW of_dataset AS (PARTITION BY dataset_id ORDER BY finished_at, seq);
