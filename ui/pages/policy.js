// One policy.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** One policy. */
export function Policy() {
  return html`<${Page} title="Policy"><${Empty} title="Not built yet" /></${Page}>`;
}
