// The list of policies.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** The list of policies. */
export function Policies() {
  return html`<${Page} title="Policies"><${Empty} title="Not built yet" /></${Page}>`;
}
