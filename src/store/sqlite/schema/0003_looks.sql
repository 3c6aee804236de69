-- Looks without a certificate, places as they were signed, and where policies come from.

-- Whether the job has ever shown a bound on the rows of its certificate, in whichever attempt, and
-- since when it waits: from its submission, or from when it was put back last.
ALTER TABLE jobs ADD COLUMN shown BIGINT NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN queued_at BIGINT;
UPDATE jobs SET queued_at = created_at;
UPDATE jobs SET shown = 1
WHERE status IN ('queued', 'running') AND json_extract(progress, '$.bound') IS NOT NULL;

-- The datasets whose rows a policy depends on: of the job that learned it, and of everything that the
-- job read besides.
ALTER TABLE policies ADD COLUMN origins TEXT NOT NULL DEFAULT '[]';
WITH RECURSIVE origins (policy_id, dataset_id) AS (
    SELECT p.id, l.dataset_id FROM policies p JOIN ledger l ON l.job_id = p.source_job_id
    UNION
    SELECT p.id, o.dataset_id FROM origins o
    JOIN job_policies j ON j.policy_id = o.policy_id
    JOIN policies p ON p.source_job_id = j.job_id
)
UPDATE policies SET origins = (SELECT json_group_array(dataset_id) FROM origins WHERE policy_id = policies.id);

-- The rows of the old table are copied by the program, which words their places as they were signed.
DROP INDEX ledger_digests;
DROP INDEX ledger_events;
DROP INDEX ledger_families;
ALTER TABLE ledger RENAME TO ledger_2;

-- Every look at a dataset's rows: each certificate, and each job that showed a bound and ended without
-- one. Entries outlive their jobs and policies, and the dataset too, for its certificates name their
-- places; so they reference nothing.
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
    -- Absent where there is no certificate.
    decision TEXT,
    -- What this look cost, and what all looks up to it did.
    cost DOUBLE PRECISION NOT NULL,
    spent DOUBLE PRECISION NOT NULL,
    family TEXT,
    -- The certificate's digest, and the event that it rests on where that holds at every n.
    digest TEXT,
    event TEXT,
    -- What was asked, as far as an event depends on it, and whether that event holds at every n; asked
    -- is absent for looks of earlier releases.
    asked TEXT,
    every_n BIGINT NOT NULL,
    -- The whole place as it was signed, words and all, and the signature.
    place TEXT NOT NULL,
    signature TEXT,
    PRIMARY KEY (dataset_id, look)
);
CREATE INDEX ledger_digests ON ledger (dataset_id, digest);
CREATE INDEX ledger_events ON ledger (dataset_id, event);
CREATE INDEX ledger_asked ON ledger (dataset_id, asked);
CREATE INDEX ledger_families ON ledger (dataset_id, family);
