// The first page.

import { html } from '../lib/html.js';
import { Empty, Page } from '../lib/components.js';

/** The first page. */
export function Home() {
  return html`<${Page} title="Home"><${Empty} title="Not built yet" /></${Page}>`;
}
