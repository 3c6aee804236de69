-- Lists of jobs by status, dataset or decision, newest or oldest first: a page is read without the rows before it.
-- A result that cannot be read has no decision; it must not make the row impossible to write.
CREATE INDEX jobs_listed_by_status ON jobs (workspace, status, created_at, id);
CREATE INDEX jobs_listed_by_dataset ON jobs (workspace, dataset_id, created_at, id);
CREATE INDEX jobs_listed_by_decision ON jobs
    (workspace, (CASE WHEN json_valid(result) THEN json_extract(result, '$.decision') END), created_at, id);
