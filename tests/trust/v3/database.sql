BEGIN TRANSACTION;
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE TABLE blobs (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL
);
INSERT INTO "blobs" VALUES('datasets/01a1e449-ae56-72dd-b3f4-d58cf3d22810/01a1e449-ae56-72dd-b3f4-d58cf3d22810-01a1e449-ae56-72dd-b3f4-d58de7c34f7e.parquet','01a1e449-ae56-72dd-b3f4-d58cf3d22810',3774);
INSERT INTO "blobs" VALUES('datasets/01a1e449-aea2-71bd-b14b-1c8cf8061124/01a1e449-aea2-71bd-b14b-1c8cf8061124-01a1e449-aea2-71bd-b14b-1c8dab76fa8f.parquet','01a1e449-aea2-71bd-b14b-1c8cf8061124',2916);
INSERT INTO "blobs" VALUES('policies/01a1e449-aed7-75f4-8390-f03a6dd4dcaa.json','01a1e449-aed7-75f4-8390-f03a6dd4dcaa',84);
INSERT INTO "blobs" VALUES('jobs/01a1e449-aef0-77a4-b038-15c93a11b22f/01a1e449-af22-72f1-b3d9-254527f86178/certificate.json','01a1e449-aef0-77a4-b038-15c93a11b22f',3329);
INSERT INTO "blobs" VALUES('jobs/01a1e449-aef0-77a4-b038-15c93a11b22f/01a1e449-af22-72f1-b3d9-254527f86178/evidence.json','01a1e449-aef0-77a4-b038-15c93a11b22f',2);
INSERT INTO "blobs" VALUES('jobs/01a1e449-af90-70dd-a2de-a313cd2061fc/01a1e449-afa3-76d9-9ae6-39ece3f2c678/certificate.json','01a1e449-af90-70dd-a2de-a313cd2061fc',3329);
INSERT INTO "blobs" VALUES('jobs/01a1e449-af90-70dd-a2de-a313cd2061fc/01a1e449-afa3-76d9-9ae6-39ece3f2c678/evidence.json','01a1e449-af90-70dd-a2de-a313cd2061fc',2);
INSERT INTO "blobs" VALUES('policies/01a1e449-b47c-74cd-878f-882ff59253dd.json','01a1e449-b47c-74cd-878f-882ff59253dd',171);
INSERT INTO "blobs" VALUES('jobs/01a1e449-b016-7330-aaeb-86a5fb551fcf/01a1e449-b025-756a-a13f-5a5e38c852ed/certificate.json','01a1e449-b016-7330-aaeb-86a5fb551fcf',2901);
INSERT INTO "blobs" VALUES('jobs/01a1e449-b016-7330-aaeb-86a5fb551fcf/01a1e449-b025-756a-a13f-5a5e38c852ed/evidence.json','01a1e449-b016-7330-aaeb-86a5fb551fcf',241);
INSERT INTO "blobs" VALUES('policies/01a1e449-b69a-7120-a316-b6ec88d85c47.json','01a1e449-b69a-7120-a316-b6ec88d85c47',169);
INSERT INTO "blobs" VALUES('jobs/01a1e449-b492-7115-b9fc-837566d366a5/01a1e449-b4a4-70e4-89f5-6de966760bed/certificate.json','01a1e449-b492-7115-b9fc-837566d366a5',2950);
INSERT INTO "blobs" VALUES('jobs/01a1e449-b492-7115-b9fc-837566d366a5/01a1e449-b4a4-70e4-89f5-6de966760bed/evidence.json','01a1e449-b492-7115-b9fc-837566d366a5',347);
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
INSERT INTO "dataset_versions" VALUES('01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,1794831396507000,250,250,3,2,'{"kind":"reward","min":0.0,"max":1.0}','sha256:b0f36e1bde36424795f593b79e89fdb2edffb7b1f99297db38a2e66dd0ab7df1','{"features":true,"full_propensities":true,"multiple_interactions":false,"candidates":[]}','{"action_counts":[88,91,71],"actions_never_logged":[],"effective_sample_size":250.0,"inverse_propensity_mean":{"expected":3.0,"observed":3.0,"ok":true,"z":null},"max_weight":3.0,"min_propensity":0.3333333333333333,"near_deterministic_share":0.0,"warnings":[],"worst_action_count":{"action":2,"expected":83.33333333333323,"observed":71.0,"ok":true,"z":-1.6546903033498328}}','[{"key":"datasets/01a1e449-ae56-72dd-b3f4-d58cf3d22810/01a1e449-ae56-72dd-b3f4-d58cf3d22810-01a1e449-ae56-72dd-b3f4-d58de7c34f7e.parquet","bytes":3774}]');
INSERT INTO "dataset_versions" VALUES('01a1e449-aea2-71bd-b14b-1c8cf8061124',1,1794831396562000,150,150,3,2,'{"kind":"reward","min":0.0,"max":1.0}','sha256:44c7e379b5897516b3379475e27206d1460695ae0d4d2f1477537becda1f9644','{"features":true,"full_propensities":true,"multiple_interactions":false,"candidates":[]}','{"action_counts":[52,55,43],"actions_never_logged":[],"effective_sample_size":150.0,"inverse_propensity_mean":{"expected":3.0,"observed":3.0,"ok":true,"z":null},"max_weight":3.0,"min_propensity":0.3333333333333333,"near_deterministic_share":0.0,"warnings":[],"worst_action_count":{"action":2,"expected":50.00000000000008,"observed":43.0,"ok":true,"z":-1.2124355652982293}}','[{"key":"datasets/01a1e449-aea2-71bd-b14b-1c8cf8061124/01a1e449-aea2-71bd-b14b-1c8cf8061124-01a1e449-aea2-71bd-b14b-1c8dab76fa8f.parquet","bytes":2916}]');
CREATE TABLE datasets (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT,
    logging_policy_id TEXT REFERENCES policies (id),
    created_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
INSERT INTO "datasets" VALUES('01a1e449-ae56-72dd-b3f4-d58cf3d22810','default',NULL,NULL,1794831396507000,1,1);
INSERT INTO "datasets" VALUES('01a1e449-aea2-71bd-b14b-1c8cf8061124','default',NULL,NULL,1794831396562000,1,1);
CREATE TABLE job_events (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (job_id, id)
);
INSERT INTO "job_events" VALUES('01a1e449-aef0-77a4-b038-15c93a11b22f',1,'queued','{}',1794831396606000);
INSERT INTO "job_events" VALUES('01a1e449-aef0-77a4-b038-15c93a11b22f',2,'started','{"attempt":1}',1794831396642000);
INSERT INTO "job_events" VALUES('01a1e449-aef0-77a4-b038-15c93a11b22f',3,'succeeded','{"decision":"deploy","guaranteed_improvement":0.5242940832369869}',1794831396742000);
INSERT INTO "job_events" VALUES('01a1e449-af90-70dd-a2de-a313cd2061fc',1,'queued','{}',1794831396762000);
INSERT INTO "job_events" VALUES('01a1e449-af90-70dd-a2de-a313cd2061fc',2,'started','{"attempt":1}',1794831396771000);
INSERT INTO "job_events" VALUES('01a1e449-af90-70dd-a2de-a313cd2061fc',3,'succeeded','{"decision":"deploy","guaranteed_improvement":0.5242940832369869}',1794831396874000);
INSERT INTO "job_events" VALUES('01a1e449-b016-7330-aaeb-86a5fb551fcf',1,'queued','{}',1794831396887000);
INSERT INTO "job_events" VALUES('01a1e449-b016-7330-aaeb-86a5fb551fcf',2,'started','{"attempt":1}',1794831396900000);
INSERT INTO "job_events" VALUES('01a1e449-b016-7330-aaeb-86a5fb551fcf',3,'progress','{"bound":0.16635094221520766,"elapsed_seconds":0.201377345,"epoch":0,"epochs":3,"fraction":0.3,"phase":"learning"}',1794831397112000);
INSERT INTO "job_events" VALUES('01a1e449-b016-7330-aaeb-86a5fb551fcf',4,'progress','{"bound":null,"elapsed_seconds":0.600702954,"epoch":null,"epochs":null,"fraction":0.9,"phase":"certifying"}',1794831397511000);
INSERT INTO "job_events" VALUES('01a1e449-b016-7330-aaeb-86a5fb551fcf',5,'succeeded','{"decision":"deploy","guaranteed_improvement":0.2452001957420189}',1794831398022000);
INSERT INTO "job_events" VALUES('01a1e449-b492-7115-b9fc-837566d366a5',1,'queued','{}',1794831398043000);
INSERT INTO "job_events" VALUES('01a1e449-b492-7115-b9fc-837566d366a5',2,'started','{"attempt":1}',1794831398052000);
INSERT INTO "job_events" VALUES('01a1e449-b492-7115-b9fc-837566d366a5',3,'progress','{"bound":-0.3259022256160902,"elapsed_seconds":0.201076194,"epoch":0,"epochs":3,"fraction":0.3,"phase":"learning"}',1794831398262000);
INSERT INTO "job_events" VALUES('01a1e449-b492-7115-b9fc-837566d366a5',4,'progress','{"bound":null,"elapsed_seconds":0.403975344,"epoch":null,"epochs":null,"fraction":0.9,"phase":"certifying"}',1794831398469000);
INSERT INTO "job_events" VALUES('01a1e449-b492-7115-b9fc-837566d366a5',5,'succeeded','{"decision":"deploy","guaranteed_improvement":0.38224013459140743}',1794831398570000);
INSERT INTO "job_events" VALUES('01a1e449-b6c5-7268-b2f1-bff0c6c71acf',1,'queued','{}',1794831398597000);
INSERT INTO "job_events" VALUES('01a1e449-b6c5-7268-b2f1-bff0c6c71acf',2,'started','{"attempt":1}',1794831398612000);
INSERT INTO "job_events" VALUES('01a1e449-b6c5-7268-b2f1-bff0c6c71acf',3,'progress','{"bound":0.04001758810242137,"elapsed_seconds":0.201007615,"epoch":1,"epochs":100000,"fraction":0.300006,"phase":"learning"}',1794831398831000);
INSERT INTO "job_events" VALUES('01a1e449-c000-7000-8000-000000000001',1,'queued','{}',1794831396606000);
INSERT INTO "job_events" VALUES('01a1e449-c000-7000-8000-000000000002',1,'queued','{}',1794831396606000);
CREATE TABLE job_policies (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    policy_id TEXT NOT NULL,
    PRIMARY KEY (job_id, policy_id)
);
INSERT INTO "job_policies" VALUES('01a1e449-aef0-77a4-b038-15c93a11b22f','01a1e449-aed7-75f4-8390-f03a6dd4dcaa');
INSERT INTO "job_policies" VALUES('01a1e449-af90-70dd-a2de-a313cd2061fc','01a1e449-aed7-75f4-8390-f03a6dd4dcaa');
INSERT INTO "job_policies" VALUES('01a1e449-b492-7115-b9fc-837566d366a5','01a1e449-b47c-74cd-878f-882ff59253dd');
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
, shown BIGINT NOT NULL DEFAULT 0, queued_at BIGINT);
INSERT INTO "jobs" VALUES('01a1e449-aef0-77a4-b038-15c93a11b22f','default',1,'01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'succeeded','{"kind":"evaluate","bound":"auto","delta":0.02,"family":{"delta":0.06,"looks":3},"tau":0.3333333333333333,"baseline":{"kind":"certified"},"candidates":[{"kind":"policy","policy_id":"01a1e449-aed7-75f4-8390-f03a6dd4dcaa"}],"independent_of_log":true,"min_improvement":0.0,"seed":0}','{}',1794831396606000,1794831396642000,1794831396742000,1,NULL,NULL,0,NULL,'{"decision":"deploy","reasons":[{"code":"improvement_guaranteed","message":"the guaranteed improvement 0.524294 exceeds the 0 that was asked for"}],"guaranteed_risk":-0.8019369044794568,"guaranteed_improvement":0.5242940832369869,"baseline_risk":{"kind":"certified","estimate":-0.34,"lower_bound":null},"confidence":0.98,"user_units":{"outcome":{"kind":"reward","min":0.0,"max":1.0},"guaranteed_outcome":0.8019369044794568,"guaranteed_improvement":0.5242940832369869,"baseline_outcome":0.34},"policy_id":null}',NULL,'{"key":"jobs/01a1e449-aef0-77a4-b038-15c93a11b22f/01a1e449-af22-72f1-b3d9-254527f86178/certificate.json","bytes":3329}','{"key":"jobs/01a1e449-aef0-77a4-b038-15c93a11b22f/01a1e449-af22-72f1-b3d9-254527f86178/evidence.json","bytes":2}',3,0,1794831396606000);
INSERT INTO "jobs" VALUES('01a1e449-af90-70dd-a2de-a313cd2061fc','default',2,'01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'succeeded','{"kind":"evaluate","bound":"auto","delta":0.02,"family":{"delta":0.06,"looks":3},"tau":0.3333333333333333,"baseline":{"kind":"certified"},"candidates":[{"kind":"policy","policy_id":"01a1e449-aed7-75f4-8390-f03a6dd4dcaa"}],"independent_of_log":true,"min_improvement":0.0,"seed":0}','{}',1794831396762000,1794831396771000,1794831396874000,1,NULL,NULL,0,NULL,'{"decision":"deploy","reasons":[{"code":"improvement_guaranteed","message":"the guaranteed improvement 0.524294 exceeds the 0 that was asked for"}],"guaranteed_risk":-0.8019369044794568,"guaranteed_improvement":0.5242940832369869,"baseline_risk":{"kind":"certified","estimate":-0.34,"lower_bound":null},"confidence":0.98,"user_units":{"outcome":{"kind":"reward","min":0.0,"max":1.0},"guaranteed_outcome":0.8019369044794568,"guaranteed_improvement":0.5242940832369869,"baseline_outcome":0.34},"policy_id":null}',NULL,'{"key":"jobs/01a1e449-af90-70dd-a2de-a313cd2061fc/01a1e449-afa3-76d9-9ae6-39ece3f2c678/certificate.json","bytes":3329}','{"key":"jobs/01a1e449-af90-70dd-a2de-a313cd2061fc/01a1e449-afa3-76d9-9ae6-39ece3f2c678/evidence.json","bytes":2}',3,0,1794831396762000);
INSERT INTO "jobs" VALUES('01a1e449-b016-7330-aaeb-86a5fb551fcf','default',3,'01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'succeeded','{"kind":"learn","bound":"betting","delta":0.05,"tau":0.3333333333333333,"policy_class":"lig","prior":{"kind":"zero","scale":1.0},"baseline":{"kind":"certified"},"min_improvement":0.0,"optimizer":{"preset":"fast","epochs":3},"seed":0}','{}',1794831396887000,1794831396900000,1794831398022000,1,NULL,NULL,0,'{"phase":"certifying","fraction":0.9,"epoch":null,"epochs":null,"bound":null,"elapsed_seconds":0.600702954}','{"decision":"deploy","reasons":[{"code":"improvement_guaranteed","message":"the guaranteed improvement 0.245200 exceeds the 0 that was asked for"}],"guaranteed_risk":-0.5431271168349786,"guaranteed_improvement":0.2452001957420189,"baseline_risk":{"kind":"certified","estimate":-0.34,"lower_bound":null},"confidence":0.95,"user_units":{"outcome":{"kind":"reward","min":0.0,"max":1.0},"guaranteed_outcome":0.5431271168349786,"guaranteed_improvement":0.2452001957420189,"baseline_outcome":0.34},"policy_id":"01a1e449-b47c-74cd-878f-882ff59253dd"}',NULL,'{"key":"jobs/01a1e449-b016-7330-aaeb-86a5fb551fcf/01a1e449-b025-756a-a13f-5a5e38c852ed/certificate.json","bytes":2901}','{"key":"jobs/01a1e449-b016-7330-aaeb-86a5fb551fcf/01a1e449-b025-756a-a13f-5a5e38c852ed/evidence.json","bytes":241}',5,0,1794831396887000);
INSERT INTO "jobs" VALUES('01a1e449-b492-7115-b9fc-837566d366a5','default',4,'01a1e449-aea2-71bd-b14b-1c8cf8061124',1,'succeeded','{"kind":"learn","bound":"betting","delta":0.05,"tau":0.3333333333333333,"policy_class":"lig","prior":{"kind":"policy","policy_id":"01a1e449-b47c-74cd-878f-882ff59253dd","scale":1.0},"baseline":{"kind":"certified"},"min_improvement":0.0,"optimizer":{"preset":"fast","epochs":3},"seed":0}','{}',1794831398043000,1794831398052000,1794831398570000,1,NULL,NULL,0,'{"phase":"certifying","fraction":0.9,"epoch":null,"epochs":null,"bound":null,"elapsed_seconds":0.403975344}','{"decision":"deploy","reasons":[{"code":"improvement_guaranteed","message":"the guaranteed improvement 0.382240 exceeds the 0 that was asked for"}],"guaranteed_risk":-0.6596601227738084,"guaranteed_improvement":0.38224013459140743,"baseline_risk":{"kind":"certified","estimate":-0.3,"lower_bound":null},"confidence":0.95,"user_units":{"outcome":{"kind":"reward","min":0.0,"max":1.0},"guaranteed_outcome":0.6596601227738084,"guaranteed_improvement":0.38224013459140743,"baseline_outcome":0.3},"policy_id":"01a1e449-b69a-7120-a316-b6ec88d85c47"}',NULL,'{"key":"jobs/01a1e449-b492-7115-b9fc-837566d366a5/01a1e449-b4a4-70e4-89f5-6de966760bed/certificate.json","bytes":2950}','{"key":"jobs/01a1e449-b492-7115-b9fc-837566d366a5/01a1e449-b4a4-70e4-89f5-6de966760bed/evidence.json","bytes":347}',5,0,1794831398043000);
INSERT INTO "jobs" VALUES('01a1e449-b6c5-7268-b2f1-bff0c6c71acf','default',5,'01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'running','{"kind":"learn","bound":"cbb","delta":0.05,"tau":0.3333333333333333,"xi":-0.5,"policy_class":"lig","prior":{"kind":"zero","scale":1.0},"baseline":{"kind":"certified"},"min_improvement":0.0,"optimizer":{"preset":"paper","epochs":100000,"max_seconds":3600.0},"seed":0}','{}',1794831398597000,1794831398612000,NULL,1,'01a1e449-b6d5-70d8-a31f-da9e99d8152a',1794831413831000,0,'{"phase":"learning","fraction":0.300006,"epoch":1,"epochs":100000,"bound":0.04001758810242137,"elapsed_seconds":0.201007615}',NULL,NULL,NULL,NULL,3,1,1794831398597000);
INSERT INTO "jobs" VALUES('01a1e449-c000-7000-8000-000000000001','default',6,'01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'queued','{"kind": "evaluate", "candidates": [{"kind": "policy", "policy_id": "01a1e449-aed7-75f4-8390-f03a6dd4dcaa"}], "independent_of_log": true, "bound": "london_sandler", "delta": 0.05, "tau": 0.3333333333333333, "baseline": {"kind": "certified"}, "min_improvement": 0.0, "seed": 0}','{}',1794831396606000,NULL,NULL,0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,1,0,1794831396606000);
INSERT INTO "jobs" VALUES('01a1e449-c000-7000-8000-000000000002','default',7,'01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'queued','{"kind": "learn", "bound": "auto", "policy_class": "lig", "prior": {"kind": "split", "fraction": 0.4, "scale": 1.0}, "optimizer": {"preset": "fast"}, "delta": 0.05, "tau": 0.3333333333333333, "baseline": {"kind": "certified"}, "min_improvement": 0.0, "seed": 0}','{}',1794831396606000,NULL,NULL,0,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,1,0,1794831396606000);
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
INSERT INTO "ledger" VALUES('01a1e449-ae56-72dd-b3f4-d58cf3d22810',1,'default','01a1e449-aef0-77a4-b038-15c93a11b22f',1,1794831396742000,'evaluate','auto',1,'deploy',0.02,0.02,'{"delta":0.06,"looks":3}','sha256:befc09564a89cbbeb4244d5a52637ca828fe55fb75d1a8381211b34cca540586','sha256:a9265ff2aedb683d0dd0f22aad5c6b786fae9a9c5490a14c9b25a6c5a55aeccd',NULL,1,'{"look": 1, "delta": 0.02, "cost": 0.02, "spent_before": 0.0, "spent": 0.02, "family_wise_confidence": 0.98, "family": {"delta": 0.06, "looks": 3, "taken": 1}, "statement": "Look 1 at these rows. It belongs to a family of 3 looks. All looks so far hold together with probability at least 98 %, as long as none was asked for because of what another had found."}','{"algorithm":"ed25519","key_id":"1987c2f8418f29c3","value":"cCNPr65AppGzLuDERki7jgVkO6TgVIo4tWdlZfCk0ZdLyytTkrYYgQEx8rXEH0X4QIJMWnTOQJ+jJDC0/nLSAw=="}');
INSERT INTO "ledger" VALUES('01a1e449-ae56-72dd-b3f4-d58cf3d22810',2,'default','01a1e449-af90-70dd-a2de-a313cd2061fc',1,1794831396874000,'evaluate','auto',1,'deploy',0.0,0.02,'{"delta":0.06,"looks":3}','sha256:befc09564a89cbbeb4244d5a52637ca828fe55fb75d1a8381211b34cca540586','sha256:a9265ff2aedb683d0dd0f22aad5c6b786fae9a9c5490a14c9b25a6c5a55aeccd',NULL,1,'{"look": 2, "delta": 0.02, "cost": 0.0, "shares": {"look": 1, "why": "repeat"}, "spent_before": 0.02, "spent": 0.02, "family_wise_confidence": 0.98, "family": {"delta": 0.06, "looks": 3, "taken": 1}, "statement": "Look 2 at these rows. It is the certificate of look 1 again and costs nothing. It belongs to a family of 3 looks. All looks so far hold together with probability at least 98 %, as long as none was asked for because of what another had found."}','{"algorithm":"ed25519","key_id":"1987c2f8418f29c3","value":"uNl3+DXKosiKFnyALHoTH97D/82Ym/9eekrufZTs8wu2fX9P2i7HIrEyGvv3Ga6HiRDMWIIdjNQXSEQ8DZ4wAA=="}');
INSERT INTO "ledger" VALUES('01a1e449-ae56-72dd-b3f4-d58cf3d22810',3,'default','01a1e449-b016-7330-aaeb-86a5fb551fcf',1,1794831398022000,'learn','betting',0,'deploy',0.05,0.07,NULL,'sha256:9880519fc1063e5bea251c937ce4a044a2d5a2d24bc5f6caec55dd0dd2b16d4a','sha256:9f5c6fe408838e393d77251bcb717989b1effcbc4931fdfda8906220008af1fe',NULL,1,'{"look": 3, "delta": 0.05, "cost": 0.05, "spent_before": 0.02, "spent": 0.07, "family_wise_confidence": 0.9299999999999999, "statement": "Look 3 at these rows. All looks so far hold together with probability at least 93 %, as long as none was asked for because of what another had found."}','{"algorithm":"ed25519","key_id":"1987c2f8418f29c3","value":"WAJWOxFuPhE7FbncOaHMct1mwmMt1Qs8Mw1sCumWjyLjablLh824AAPtk6vcYQnjAlUvhkQaXzLCgDZ8xedsCQ=="}');
INSERT INTO "ledger" VALUES('01a1e449-aea2-71bd-b14b-1c8cf8061124',1,'default','01a1e449-b492-7115-b9fc-837566d366a5',1,1794831398570000,'learn','betting',0,'deploy',0.05,0.05,NULL,'sha256:e7c5fdaa84ba2a45e23a2fa6a5309bb46d255ccb08c1338d3fb67cde12e26e3d','sha256:9d8161a6095461b249a673152108ae63b447a9c623a3411f33e8d828db314dd0',NULL,1,'{"look": 1, "delta": 0.05, "cost": 0.05, "spent_before": 0.0, "spent": 0.05, "family_wise_confidence": 0.95, "statement": "Look 1 at these rows. All looks so far hold together with probability at least 95 %, as long as none was asked for because of what another had found."}','{"algorithm":"ed25519","key_id":"1987c2f8418f29c3","value":"MatH529AERatEjcBbE0gZ+fqjF/kQ1CRYcblOdM24JtMwVcKPdhgWJZPzwrEN5h+AJOTeMrJ7xDQhrvD5DIKCw=="}');
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
, origins TEXT NOT NULL DEFAULT '[]');
INSERT INTO "policies" VALUES('01a1e449-aed7-75f4-8390-f03a6dd4dcaa','default',1794831396578000,1,'"softmax"',3,2,'sha256:d44ef7f766f84e3e3320feefcf04f39bdfe6be21ac20aeef914cdef93a5865fe',NULL,'{"key":"policies/01a1e449-aed7-75f4-8390-f03a6dd4dcaa.json","bytes":84}','[]');
INSERT INTO "policies" VALUES('01a1e449-b47c-74cd-878f-882ff59253dd','default',1794831398022000,1,'"lig"',3,2,'sha256:bf2fac75307e14203648c0941e8bbe3225d9f6696f55bed36aaf23ca848200df','01a1e449-b016-7330-aaeb-86a5fb551fcf','{"key":"policies/01a1e449-b47c-74cd-878f-882ff59253dd.json","bytes":171}','["01a1e449-ae56-72dd-b3f4-d58cf3d22810"]');
INSERT INTO "policies" VALUES('01a1e449-b69a-7120-a316-b6ec88d85c47','default',1794831398570000,1,'"lig"',3,2,'sha256:93215c23aaa96080f59cc33832d2c205d0d0e85d6be84401fbe58373ef69db3b','01a1e449-b492-7115-b9fc-837566d366a5','{"key":"policies/01a1e449-b69a-7120-a316-b6ec88d85c47.json","bytes":169}','["01a1e449-ae56-72dd-b3f4-d58cf3d22810","01a1e449-aea2-71bd-b14b-1c8cf8061124"]');
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
CREATE TABLE schema_version (version BIGINT NOT NULL);
INSERT INTO "schema_version" VALUES(1);
INSERT INTO "schema_version" VALUES(2);
INSERT INTO "schema_version" VALUES(3);
CREATE TABLE signing_keys (
    public_key TEXT PRIMARY KEY,
    first_used BIGINT NOT NULL
);
INSERT INTO "signing_keys" VALUES('QRX+2351rUmYCtqfuXXrhmKHJcIGswb53ecO3610PE4=',1794831372918000);
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    -- Counts up over all workspaces: the smallest was served least recently.
    last_served BIGINT NOT NULL
);
INSERT INTO "workspaces" VALUES('default',5);
CREATE INDEX policies_listed ON policies (workspace, created_at, id);
CREATE INDEX policies_learned ON policies (source_job_id);
CREATE INDEX datasets_listed ON datasets (workspace, created_at, id);
CREATE INDEX datasets_logged_by ON datasets (logging_policy_id);
CREATE INDEX jobs_listed ON jobs (workspace, created_at, id);
CREATE UNIQUE INDEX jobs_placed ON jobs (seq);
CREATE INDEX jobs_by_status ON jobs (status, workspace, seq);
CREATE INDEX jobs_by_dataset ON jobs (dataset_id, status);
CREATE INDEX jobs_ended ON jobs (finished_at);
CREATE INDEX job_policies_by_policy ON job_policies (policy_id);
CREATE INDEX requests_expiring ON requests (expires_at);
CREATE INDEX blobs_owned ON blobs (owner);
CREATE INDEX ledger_digests ON ledger (dataset_id, digest);
CREATE INDEX ledger_events ON ledger (dataset_id, event);
CREATE INDEX ledger_asked ON ledger (dataset_id, asked);
CREATE INDEX ledger_families ON ledger (dataset_id, family);
COMMIT;
