// The list of gates.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** The list of gates. */
export function Gates() {
  return html`<${Page} title="Gates"><${Empty} title="Not built yet" /></${Page}>`;
}
