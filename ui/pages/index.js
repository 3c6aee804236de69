// The pages and their paths. The first pattern that fits is taken, so `/jobs/new` comes before `/jobs/:id`.

import { Home } from './home.js';
import { Upload } from './upload.js';
import { Datasets } from './datasets.js';
import { Dataset } from './dataset.js';
import { Jobs } from './jobs.js';
import { NewJob } from './new_job.js';
import { Job } from './job.js';
import { Policies } from './policies.js';
import { Policy } from './policy.js';
import { Gates } from './gates.js';
import { Gate } from './gate.js';
import { Webhook, Webhooks } from './webhooks.js';

export const ROUTES = [
  ['/', Home],
  ['/upload', Upload],
  ['/datasets', Datasets],
  ['/datasets/:id', Dataset],
  ['/jobs', Jobs],
  ['/jobs/new', NewJob],
  ['/jobs/:id', Job],
  ['/policies', Policies],
  ['/policies/:id', Policy],
  ['/gates', Gates],
  ['/gates/:name', Gate],
  ['/webhooks', Webhooks],
  ['/webhooks/:id', Webhook],
];
