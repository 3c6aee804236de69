// Webhooks: where the server sends word of jobs that end, and how that goes.

import { html } from '../lib/html.js';
import { Badge, Details, Empty, Load, Name, Page, Pager, Section, Table, Time, usePages } from '../lib/components.js';
import { CodeBlock } from '../lib/code.js';
import { curl } from '../lib/snippets.js';
import * as format from '../lib/format.js';

export const STATES = { active: ['good', 'check', 'Active'], failing: ['bad', 'warn', 'Failing'], disabled: ['neutral', 'dash', 'Disabled'] };

/** A state as a badge. */
export const Word = ({ of, name }) => {
  const [tone, icon, text] = of[name] || ['neutral', null, format.words(name)];
  return html`<${Badge} tone=${tone} icon=${icon}>${text}</${Badge}>`;
};

const EXAMPLE = { url: 'https://example.com/hooks/guarantor', events: ['job.succeeded', 'job.failed'] };

/** All webhooks. */
export function Webhooks() {
  const webhooks = usePages('/v1/webhooks', { every: 15_000 });
  const create = html`<${CodeBlock} label="curl" text=${curl('POST', '/v1/webhooks', EXAMPLE)} />`;
  const empty = html`<${Empty} title="There are no webhooks yet" icon="link">A webhook is told when a job ends, so that nobody has to ask. Create one with the command below; its secret is shown once.</${Empty}>`;
  return html`<${Page} title="Webhooks" lead="The server tells these addresses when a job ends.">
    <${Section}><${Load} resource=${webhooks}>${(page) => html`<${Table} caption="Webhooks" columns=${COLUMNS} rows=${page.data} empty=${empty} /><${Pager} page=${page} />`}</${Load}></${Section}>
    <${Section}><${Details} summary="Create a webhook">${create}</${Details}></${Section}>
  </${Page}>`;
}

const COLUMNS = [
  { id: 'name', label: 'Webhook', render: (webhook) => html`<${Name} href=${`/webhooks/${webhook.id}`} text=${webhook.name || format.short(webhook.id)} />` },
  { id: 'state', label: 'State', render: (webhook) => html`<${Word} of=${STATES} name=${webhook.status} />` },
  { id: 'url', label: 'Address', render: (webhook) => html`<code><${Name} text=${webhook.url} /></code>` },
  { id: 'events', label: 'Told of', render: (webhook) => html`<span class="small">${webhook.events.join(', ')}</span>` },
  { id: 'last', label: 'Last received', align: 'right', render: (webhook) => html`<${Time} at=${webhook.last_success_at} relative />` },
];
