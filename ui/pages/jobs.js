// The list of jobs.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** The list of jobs. */
export function Jobs() {
  return html`<${Page} title="Jobs"><${Empty} title="Not built yet" /></${Page}>`;
}
