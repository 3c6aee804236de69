-- Webhooks, and the outbox of what they are told. The transaction that ends a job writes the rows of its deliveries.

CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    -- The address and which events it is told about, as JSON with every default filled in.
    definition TEXT NOT NULL,
    enabled BIGINT NOT NULL,
    -- In clear, because it signs. Only the owner of the data directory can read it.
    secret TEXT NOT NULL,
    -- The secret before, which also signs until this time.
    old_secret TEXT,
    old_secret_until BIGINT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    last_success_at BIGINT,
    -- The first failed attempt after the last success.
    failing_since BIGINT,
    -- Events that were not stored, because too many deliveries waited.
    dropped BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX webhooks_listed ON webhooks (workspace, created_at, id);

-- One event for one webhook. Jobs may be deleted before the delivery, so the row has everything that is sent.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    -- The same for every attempt and every webhook.
    event_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    data TEXT NOT NULL,
    -- When the event happened.
    created_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    -- When it was queued, or queued again by a client: retries count from here.
    since BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    -- When it is tried next; null if it has ended.
    next_at BIGINT,
    last_at BIGINT,
    last_status BIGINT,
    last_error TEXT,
    ended_at BIGINT
);
CREATE UNIQUE INDEX deliveries_once ON deliveries (webhook_id, event_id);
CREATE INDEX deliveries_listed ON deliveries (webhook_id, created_at, id);
CREATE INDEX deliveries_due ON deliveries (webhook_id, next_at);
CREATE INDEX deliveries_waiting ON deliveries (next_at);
CREATE INDEX deliveries_ended ON deliveries (webhook_id, ended_at);
