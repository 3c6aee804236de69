-- How logs were logged, one ledger for the same rows, and the descent of policies by their parameters.

-- The caller's statements about the log. Datasets of earlier releases have the safe defaults.
ALTER TABLE datasets ADD COLUMN logging TEXT NOT NULL DEFAULT '"adaptive"';
ALTER TABLE datasets ADD COLUMN repetitions TEXT NOT NULL DEFAULT '"decisions"';
ALTER TABLE datasets ADD COLUMN exact_propensities BIGINT NOT NULL DEFAULT 0;

-- The latest timestamp of the version's rows; absent if rows have none.
ALTER TABLE dataset_versions ADD COLUMN last_timestamp BIGINT;

-- Rows with the same context_id are decisions of their own unless the caller says that they were designed.
UPDATE dataset_versions SET capabilities =
    json_set(capabilities, '$.multiple_interactions', json('false'), '$.repeated_contexts', json('true'))
WHERE json_extract(capabilities, '$.multiple_interactions') = 1;

-- The fingerprints by which rows are recognized when they are uploaded again, for every dataset of the workspace,
-- deleted ones included: of the rows that each version added, and of all rows of the newest version (`whole`).
-- `seq` grows. A version of an earlier release has no sketch and is recognized by its digest only.
CREATE TABLE row_sketches (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    whole BIGINT NOT NULL,
    digest TEXT NOT NULL,
    sketch BLOB,
    created_at BIGINT NOT NULL
);
CREATE INDEX row_sketches_by_workspace ON row_sketches (workspace, seq);
CREATE INDEX row_sketches_by_dataset ON row_sketches (dataset_id, whole);
INSERT INTO row_sketches (workspace, dataset_id, version, whole, digest, created_at)
SELECT d.workspace, d.id, v.version, 0, v.digest, v.created_at
FROM dataset_versions v JOIN datasets d ON d.id = v.dataset_id ORDER BY v.created_at, d.id, v.version;

-- A ledger counts the looks at rows, whichever datasets have them, and what they cost.
CREATE TABLE ledgers (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    -- How many datasets have it, deleted ones included.
    datasets BIGINT NOT NULL,
    looks BIGINT NOT NULL,
    spent DOUBLE PRECISION NOT NULL
);

-- The ledger of each dataset, deleted ones included. Datasets with the same rows have the same.
CREATE TABLE ledger_datasets (
    dataset_id TEXT PRIMARY KEY,
    ledger_id TEXT NOT NULL REFERENCES ledgers (id)
);
CREATE INDEX ledger_datasets_by_ledger ON ledger_datasets (ledger_id);

INSERT INTO ledgers (id, workspace, datasets, looks, spent)
SELECT id, workspace, 1, 0, 0.0 FROM datasets UNION SELECT dataset_id, workspace, 1, 0, 0.0 FROM ledger;
UPDATE ledgers SET
    looks = (SELECT MAX(look) FROM ledger WHERE dataset_id = ledgers.id),
    spent = (SELECT spent FROM ledger WHERE dataset_id = ledgers.id ORDER BY look DESC LIMIT 1)
WHERE EXISTS (SELECT 1 FROM ledger WHERE dataset_id = ledgers.id);
INSERT INTO ledger_datasets (dataset_id, ledger_id) SELECT id, id FROM ledgers;

-- Looks get their order, which their numbers no longer give once two ledgers have become one, their ledger,
-- and how many rows they saw; that is absent if the dataset is gone.
ALTER TABLE ledger ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN ledger_id TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN row_count BIGINT;
UPDATE ledger SET
    seq = rowid,
    ledger_id = dataset_id,
    row_count = (SELECT v.row_count FROM dataset_versions v
        WHERE v.dataset_id = ledger.dataset_id AND v.version = ledger.dataset_version);
CREATE UNIQUE INDEX ledger_ordered ON ledger (seq);
CREATE INDEX ledger_listed ON ledger (ledger_id, seq);
DROP INDEX ledger_digests;
DROP INDEX ledger_families;
CREATE INDEX ledger_digests ON ledger (ledger_id, digest);
CREATE INDEX ledger_families ON ledger (ledger_id, family);

-- The datasets whose rows parameters were learned from, directly or through other policies. They are known by
-- the digest of the parameters without exploration, so a policy that is stored again, even after it was deleted,
-- has the same descent.
ALTER TABLE policies ADD COLUMN base_digest TEXT NOT NULL DEFAULT '';
UPDATE policies SET base_digest = digest;
CREATE TABLE policy_descents (
    workspace TEXT NOT NULL,
    digest TEXT NOT NULL,
    dataset_id TEXT NOT NULL,
    PRIMARY KEY (workspace, digest, dataset_id)
);
INSERT INTO policy_descents (workspace, digest, dataset_id)
SELECT DISTINCT p.workspace, p.digest, o.value FROM policies p, json_each(p.origins) o;
ALTER TABLE policies DROP COLUMN origins;
