-- What keys may do, and who submitted jobs.

-- Keys of earlier releases could do everything, and still can.
ALTER TABLE api_keys ADD COLUMN role TEXT NOT NULL DEFAULT 'admin';

-- The caller as certificates name it; absent for jobs of earlier releases.
ALTER TABLE jobs ADD COLUMN submitted_by TEXT;
