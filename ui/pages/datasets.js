// The list of datasets.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** The list of datasets. */
export function Datasets() {
  return html`<${Page} title="Datasets"><${Empty} title="Not built yet" /></${Page}>`;
}
