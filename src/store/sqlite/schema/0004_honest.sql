-- How logs were logged, one ledger for the same rows, and the descent of policies by their parameters.

-- The caller's statements about the log. Datasets of earlier releases have the safe defaults.
ALTER TABLE datasets ADD COLUMN logging TEXT NOT NULL DEFAULT '"adaptive"';
ALTER TABLE datasets ADD COLUMN repetitions TEXT NOT NULL DEFAULT '"decisions"';
ALTER TABLE datasets ADD COLUMN exact_propensities BIGINT NOT NULL DEFAULT 0;

-- The latest timestamp of the version's rows; absent if rows have none. And the name of its rows: versions with
-- exactly the same rows have the same, whatever their order. Versions of earlier releases have their digest.
ALTER TABLE dataset_versions ADD COLUMN last_timestamp BIGINT;
ALTER TABLE dataset_versions ADD COLUMN row_set TEXT NOT NULL DEFAULT '';
UPDATE dataset_versions SET row_set = digest;

-- Rows with the same context_id are decisions of their own unless the caller says that they were designed.
UPDATE dataset_versions SET capabilities =
    json_set(capabilities, '$.multiple_interactions', json('false'), '$.repeated_contexts', json('true'))
WHERE json_extract(capabilities, '$.multiple_interactions') = 1;

-- Sets of rows that the workspace has stored, in datasets that may be deleted. `id` grows. Sets of earlier releases
-- have no sketch and are recognized by their digest only, which is their name.
CREATE TABLE row_sets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    sketch BLOB
);
CREATE UNIQUE INDEX row_sets_named ON row_sets (workspace, name);

-- The smallest hashes of each sketch. Only sketches that have one of a log's hashes are compared with it.
CREATE TABLE row_hashes (
    workspace TEXT NOT NULL,
    hash BIGINT NOT NULL,
    set_id BIGINT NOT NULL,
    PRIMARY KEY (workspace, hash, set_id)
) WITHOUT ROWID;
CREATE INDEX row_hashes_of_set ON row_hashes (set_id);

-- The sets of each dataset, deleted ones included: the rows that versions added, and, if rows were appended, all
-- rows of the newest version (`whole`). The rows of a set are in all versions from `first_version` on, some of them
-- perhaps earlier, and they are among the rows of `through_version`.
CREATE TABLE dataset_row_sets (
    dataset_id TEXT NOT NULL,
    set_id BIGINT NOT NULL,
    whole BIGINT NOT NULL,
    first_version BIGINT NOT NULL,
    through_version BIGINT NOT NULL,
    PRIMARY KEY (dataset_id, set_id, whole)
) WITHOUT ROWID;
CREATE INDEX dataset_row_sets_owners ON dataset_row_sets (set_id);

-- Sets of other datasets of which a dataset has rows, though not exactly the same: these are among the rows of its
-- version `through_version`.
CREATE TABLE row_overlaps (
    dataset_id TEXT NOT NULL,
    set_id BIGINT NOT NULL,
    through_version BIGINT NOT NULL,
    PRIMARY KEY (dataset_id, set_id)
) WITHOUT ROWID;
CREATE INDEX row_overlaps_of_set ON row_overlaps (set_id);

INSERT INTO row_sets (workspace, name)
SELECT d.workspace, v.digest FROM dataset_versions v JOIN datasets d ON d.id = v.dataset_id
GROUP BY d.workspace, v.digest ORDER BY MIN(v.created_at);
INSERT INTO dataset_row_sets (dataset_id, set_id, whole, first_version, through_version)
SELECT d.id, s.id, 0, 1, MAX(v.version) FROM dataset_versions v JOIN datasets d ON d.id = v.dataset_id
JOIN row_sets s ON s.workspace = d.workspace AND s.name = v.digest GROUP BY d.id, s.id;

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

-- Looks get their order, which their numbers no longer give once two ledgers have become one, their ledger, and
-- how many rows they saw and which; these are absent if the dataset is gone.
ALTER TABLE ledger ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN ledger_id TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN row_count BIGINT;
ALTER TABLE ledger ADD COLUMN row_set TEXT;
UPDATE ledger SET
    seq = rowid,
    ledger_id = dataset_id,
    (row_count, row_set) = (SELECT v.row_count, v.row_set FROM dataset_versions v
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
