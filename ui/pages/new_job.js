// Submits a job.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** Submits a job. */
export function NewJob() {
  return html`<${Page} title="New job"><${Empty} title="Not built yet" /></${Page}>`;
}
