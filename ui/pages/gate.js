// One gate.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** One gate. */
export function Gate() {
  return html`<${Page} title="Gate"><${Empty} title="Not built yet" /></${Page}>`;
}
