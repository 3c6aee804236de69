BEGIN TRANSACTION;
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
INSERT INTO "api_keys" VALUES('01a1e2cc-fd42-708f-b7a2-f3dd3116c9f9','ranking','ci','d588a08dacd38ebc6ef8526a4cb5638e42426e3e2fb78001b648684991b01f14',1794806447426000,NULL);
CREATE TABLE blobs (
    key TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    bytes BIGINT NOT NULL
);
INSERT INTO "blobs" VALUES('policies/01a1e2cc-fd56-74f9-9647-95aaa09f2b92.json','01a1e2cc-fd56-74f9-9647-95aaa09f2b92',83);
INSERT INTO "blobs" VALUES('datasets/01a1e2cc-fd6d-73b7-80be-496181867f1e/01a1e2cc-fd74-77ef-883d-046ede4345c9.parquet','01a1e2cc-fd6d-73b7-80be-496181867f1e',3995);
INSERT INTO "blobs" VALUES('datasets/01a1e2cc-fd6d-73b7-80be-496181867f1e/01a1e2cc-fda5-72f3-8980-512aafd0c81f.parquet','01a1e2cc-fd6d-73b7-80be-496181867f1e',2360);
INSERT INTO "blobs" VALUES('policies/01a1e2cc-fea3-75f9-a185-8da89e909c8f.json','01a1e2cc-fea3-75f9-a185-8da89e909c8f',12819);
INSERT INTO "blobs" VALUES('jobs/01a1e2cc-fda9-7487-8cab-4f92c2441cab/01a1e2cc-fdad-7572-bf32-bc9f7313f907/certificate.json','01a1e2cc-fda9-7487-8cab-4f92c2441cab',4350);
INSERT INTO "blobs" VALUES('jobs/01a1e2cc-fda9-7487-8cab-4f92c2441cab/01a1e2cc-fdad-7572-bf32-bc9f7313f907/evidence.json','01a1e2cc-fda9-7487-8cab-4f92c2441cab',34295);
INSERT INTO "blobs" VALUES('jobs/01a1e2cc-febb-7708-a379-3cb7a0d6e3a1/01a1e2cc-fed9-7560-a9b8-91fa758a812e/certificate.json','01a1e2cc-febb-7708-a379-3cb7a0d6e3a1',3379);
INSERT INTO "blobs" VALUES('jobs/01a1e2cc-febb-7708-a379-3cb7a0d6e3a1/01a1e2cc-fed9-7560-a9b8-91fa758a812e/evidence.json','01a1e2cc-febb-7708-a379-3cb7a0d6e3a1',2);
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
INSERT INTO "dataset_versions" VALUES('01a1e2cc-fd6d-73b7-80be-496181867f1e',1,1794806447516000,300,300,3,2,'{"kind":"reward","min":0.0,"max":1.0}','sha256:04f1d24cfe86e2635d83115dde110e5ae2bb870dbd1b4cfbb38f42ddfdc52388','{"features":true,"full_propensities":true,"multiple_interactions":false,"candidates":[]}','{"action_counts":[102,105,93],"actions_never_logged":[],"effective_sample_size":300.0,"inverse_propensity_mean":{"expected":3.0,"observed":3.0,"ok":true,"z":null},"max_weight":3.0,"min_propensity":0.3333333333333333,"near_deterministic_share":0.0,"warnings":[],"worst_action_count":{"action":2,"expected":99.99999999999966,"observed":93.0,"ok":true,"z":-0.8573214099740715}}','[{"key":"datasets/01a1e2cc-fd6d-73b7-80be-496181867f1e/01a1e2cc-fd74-77ef-883d-046ede4345c9.parquet","bytes":3995}]');
INSERT INTO "dataset_versions" VALUES('01a1e2cc-fd6d-73b7-80be-496181867f1e',2,1794806447527000,400,400,3,2,'{"kind":"reward","min":0.0,"max":1.0}','sha256:b8481bead49b3a7a3e78a1c9ebd93a788c82f26bddf53bc5c841538503d68a24','{"features":true,"full_propensities":true,"multiple_interactions":false,"candidates":[]}','{"action_counts":[142,143,115],"actions_never_logged":[],"effective_sample_size":400.0,"inverse_propensity_mean":{"expected":3.0,"observed":3.0,"ok":true,"z":null},"max_weight":3.0,"min_propensity":0.3333333333333333,"near_deterministic_share":0.0,"warnings":[],"worst_action_count":{"action":2,"expected":133.33333333333275,"observed":115.0,"ok":true,"z":-1.944543648262938}}','[{"key":"datasets/01a1e2cc-fd6d-73b7-80be-496181867f1e/01a1e2cc-fd74-77ef-883d-046ede4345c9.parquet","bytes":3995},{"key":"datasets/01a1e2cc-fd6d-73b7-80be-496181867f1e/01a1e2cc-fda5-72f3-8980-512aafd0c81f.parquet","bytes":2360}]');
CREATE TABLE datasets (
    id TEXT PRIMARY KEY,
    workspace TEXT NOT NULL,
    name TEXT,
    logging_policy_id TEXT REFERENCES policies (id),
    created_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
INSERT INTO "datasets" VALUES('01a1e2cc-fd6d-73b7-80be-496181867f1e','ranking','v1',NULL,1794806447516000,2,2);
CREATE TABLE job_events (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (job_id, id)
);
INSERT INTO "job_events" VALUES('01a1e2cc-fda9-7487-8cab-4f92c2441cab',1,'queued','{}',1794806447530000);
INSERT INTO "job_events" VALUES('01a1e2cc-fda9-7487-8cab-4f92c2441cab',2,'started','{"attempt":1}',1794806447533000);
INSERT INTO "job_events" VALUES('01a1e2cc-fda9-7487-8cab-4f92c2441cab',3,'progress','{"bound":null,"elapsed_seconds":0.208817543,"epoch":null,"epochs":null,"fraction":0.6626666666666667,"phase":"learning"}',1794806447750000);
INSERT INTO "job_events" VALUES('01a1e2cc-fda9-7487-8cab-4f92c2441cab',4,'succeeded','{"decision":"deploy","guaranteed_improvement":0.6049465490568857}',1794806447789000);
INSERT INTO "job_events" VALUES('01a1e2cc-febb-7708-a379-3cb7a0d6e3a1',1,'queued','{}',1794806447805000);
INSERT INTO "job_events" VALUES('01a1e2cc-febb-7708-a379-3cb7a0d6e3a1',2,'started','{"attempt":1}',1794806447832000);
INSERT INTO "job_events" VALUES('01a1e2cc-febb-7708-a379-3cb7a0d6e3a1',3,'succeeded','{"decision":"keep","guaranteed_improvement":-0.03290725783427799}',1794806447864000);
CREATE TABLE job_policies (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    policy_id TEXT NOT NULL,
    PRIMARY KEY (job_id, policy_id)
);
INSERT INTO "job_policies" VALUES('01a1e2cc-febb-7708-a379-3cb7a0d6e3a1','01a1e2cc-fd56-74f9-9647-95aaa09f2b92');
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
INSERT INTO "jobs" VALUES('01a1e2cc-fda9-7487-8cab-4f92c2441cab','ranking',1,'01a1e2cc-fd6d-73b7-80be-496181867f1e',2,'succeeded','{"kind":"learn","bound":"auto","delta":0.05,"tau":0.3333333333333333,"policy_class":"lig","prior":{"kind":"split","fraction":0.4,"scale":1.0},"baseline":{"kind":"certified"},"min_improvement":0.0,"optimizer":{"preset":"fast"},"seed":0}','{"team":"ranking"}',1794806447530000,1794806447533000,1794806447789000,1,NULL,NULL,0,'{"phase":"learning","fraction":0.6626666666666667,"epoch":null,"epochs":null,"bound":null,"elapsed_seconds":0.208817543}','{"decision":"deploy","reasons":[{"code":"improvement_guaranteed","message":"the guaranteed improvement 0.604947 exceeds the 0 that was asked for"}],"guaranteed_risk":-0.9099662091629911,"guaranteed_improvement":0.6049465490568857,"baseline_risk":{"kind":"certified","estimate":-0.32,"lower_bound":null},"confidence":0.95,"user_units":{"outcome":{"kind":"reward","min":0.0,"max":1.0},"guaranteed_outcome":0.9099662091629911,"guaranteed_improvement":0.6049465490568857,"baseline_outcome":0.32},"policy_id":"01a1e2cc-fea3-75f9-a185-8da89e909c8f"}',NULL,'{"key":"jobs/01a1e2cc-fda9-7487-8cab-4f92c2441cab/01a1e2cc-fdad-7572-bf32-bc9f7313f907/certificate.json","bytes":4350}','{"key":"jobs/01a1e2cc-fda9-7487-8cab-4f92c2441cab/01a1e2cc-fdad-7572-bf32-bc9f7313f907/evidence.json","bytes":34295}',4);
INSERT INTO "jobs" VALUES('01a1e2cc-febb-7708-a379-3cb7a0d6e3a1','ranking',2,'01a1e2cc-fd6d-73b7-80be-496181867f1e',2,'succeeded','{"kind":"evaluate","bound":"auto","delta":0.05,"tau":0.3333333333333333,"baseline":{"kind":"certified"},"candidates":[{"kind":"policy","policy_id":"01a1e2cc-fd56-74f9-9647-95aaa09f2b92"}],"independent_of_log":true,"min_improvement":0.5,"seed":0}','{}',1794806447805000,1794806447832000,1794806447864000,1,NULL,NULL,0,NULL,'{"decision":"keep","reasons":[{"code":"improvement_not_guaranteed","message":"no improvement can be guaranteed from this log: its bound is -0.032907; more rows help"}],"guaranteed_risk":-0.21972466819159714,"guaranteed_improvement":-0.03290725783427799,"baseline_risk":{"kind":"certified","estimate":-0.32,"lower_bound":null},"confidence":0.95,"user_units":{"outcome":{"kind":"reward","min":0.0,"max":1.0},"guaranteed_outcome":0.21972466819159714,"guaranteed_improvement":-0.03290725783427799,"baseline_outcome":0.32},"policy_id":null}',NULL,'{"key":"jobs/01a1e2cc-febb-7708-a379-3cb7a0d6e3a1/01a1e2cc-fed9-7560-a9b8-91fa758a812e/certificate.json","bytes":3379}','{"key":"jobs/01a1e2cc-febb-7708-a379-3cb7a0d6e3a1/01a1e2cc-fed9-7560-a9b8-91fa758a812e/evidence.json","bytes":2}',3);
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
INSERT INTO "policies" VALUES('01a1e2cc-fd56-74f9-9647-95aaa09f2b92','ranking',1794806447448000,1,'"softmax"',3,2,'sha256:70a3f01b01e327668d75873497857c66c2e6c8c6748b3ab2fbeb65c666326c6e',NULL,'{"key":"policies/01a1e2cc-fd56-74f9-9647-95aaa09f2b92.json","bytes":83}');
INSERT INTO "policies" VALUES('01a1e2cc-fea3-75f9-a185-8da89e909c8f','ranking',1794806447789000,1,'"lig"',3,2,'sha256:0085d12caaeb31f51503cb1ee9e98fccecc7fa59dcec6c30b9ad5de3e3f752d1','01a1e2cc-fda9-7487-8cab-4f92c2441cab','{"key":"policies/01a1e2cc-fea3-75f9-a185-8da89e909c8f.json","bytes":12819}');
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
INSERT INTO "requests" VALUES('ranking','first-upload','7d210bb521885a3548129cafc2e2e82e2b32dd87582ba47055a474ad608a0a0c','01a1e2cc-fd6d-73b7-80be-496181867f1e',201,'[["content-type","application/json"],["location","/v1/datasets/01a1e2cc-fd6d-73b7-80be-496181867f1e"],["guarantor-body-digest","f20cbd0517b503ef26e754bb7fe9ae84fc6ffa6368f48fb7bdd7a1c89e7679a3"]]',X'7B226964223A2230316131653263632D666436642D373362372D383062652D343936313831383637663165222C226E616D65223A227631222C22637265617465645F6174223A22323032362D31312D31365430353A32303A34372E3531365A222C2276657273696F6E223A312C22726F7773223A3330302C22636F6E7465787473223A3330302C226E5F616374696F6E73223A332C2264696D223A322C226F7574636F6D65223A7B226B696E64223A22726577617264222C226D696E223A302E302C226D6178223A312E307D2C22646967657374223A227368613235363A30346631643234636665383665323633356438333131356464653131306535616532626238373064626431623463666262333866343264646664633532333838222C226279746573223A333939352C226C6F6767696E675F706F6C6963795F6964223A6E756C6C2C226361706162696C6974696573223A7B226665617475726573223A747275652C2266756C6C5F70726F70656E736974696573223A747275652C226D756C7469706C655F696E746572616374696F6E73223A66616C73652C2263616E64696461746573223A5B5D7D2C226865616C7468223A7B22616374696F6E5F636F756E7473223A5B3130322C3130352C39335D2C22616374696F6E735F6E657665725F6C6F67676564223A5B5D2C226566666563746976655F73616D706C655F73697A65223A3330302E302C22696E76657273655F70726F70656E736974795F6D65616E223A7B226578706563746564223A332E302C226F62736572766564223A332E302C226F6B223A747275652C227A223A6E756C6C7D2C226D61785F776569676874223A332E302C226D696E5F70726F70656E73697479223A302E333333333333333333333333333333332C226E6561725F64657465726D696E69737469635F7368617265223A302E302C227761726E696E6773223A5B5D2C22776F7273745F616374696F6E5F636F756E74223A7B22616374696F6E223A322C226578706563746564223A39392E39393939393939393939393936362C226F62736572766564223A39332E302C226F6B223A747275652C227A223A2D302E383537333231343039393734303731357D7D7D',1794810047469000,1794892847469000);
CREATE TABLE schema_version (version BIGINT NOT NULL);
INSERT INTO "schema_version" VALUES(1);
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    -- Counts up over all workspaces: the smallest was served least recently.
    last_served BIGINT NOT NULL
);
INSERT INTO "workspaces" VALUES('ranking',2);
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
COMMIT;
