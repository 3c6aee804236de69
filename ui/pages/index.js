// The pages and their paths. The first pattern that fits is taken, so `/jobs/new` comes before `/jobs/:id`. A page is imported when it is
// needed; in the script that the server makes of all modules it is there already.

import { match } from '../lib/router.js';

const PAGES = [
  ['/', 'Home', () => import('./home.js')],
  ['/upload', 'Upload', () => import('./upload.js')],
  ['/datasets', 'Datasets', () => import('./datasets.js')],
  ['/datasets/:id', 'Dataset', () => import('./dataset.js')],
  ['/jobs', 'Jobs', () => import('./jobs.js')],
  ['/jobs/new', 'NewJob', () => import('./new_job.js')],
  ['/jobs/:id', 'Job', () => import('./job.js')],
  ['/policies', 'Policies', () => import('./policies.js')],
  ['/policies/:id', 'Policy', () => import('./policy.js')],
  ['/gates', 'Gates', () => import('./gates.js')],
  ['/gates/:name', 'Gate', () => import('./gate.js')],
  ['/webhooks', 'Webhooks', () => import('./webhooks.js')],
  ['/webhooks/:id', 'Webhook', () => import('./webhook.js')],
];

const loaded = new Map();

/** The page of a path: `{ name, parameters, Component }`, where the component is missing until `load` has loaded it. Null if there is none. */
export function pageOf(path) {
  for (const [pattern, name] of PAGES) {
    const parameters = match(pattern, path);
    if (parameters) return { name, parameters, Component: loaded.get(name) };
  }
  return null;
}

/** Loads the module of a page. */
export async function load(name) {
  const module = await PAGES.find((page) => page[1] === name)[2]();
  loaded.set(name, module[name]);
}

/** Loads all pages, one after the other, so that every link is followed at once and works while the server is away. */
export async function loadAll() {
  for (const [, name] of PAGES) await load(name);
}
