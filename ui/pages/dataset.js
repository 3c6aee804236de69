// One dataset.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** One dataset. */
export function Dataset() {
  return html`<${Page} title="Dataset"><${Empty} title="Not built yet" /></${Page}>`;
}
