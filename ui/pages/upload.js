// Uploads a log.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** Uploads a log. */
export function Upload() {
  return html`<${Page} title="Upload a log"><${Empty} title="Not built yet" /></${Page}>`;
}
