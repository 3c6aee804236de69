// One job.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** One job. */
export function Job() {
  return html`<${Page} title="Job"><${Empty} title="Not built yet" /></${Page}>`;
}
