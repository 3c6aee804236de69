// Webhooks: where the server sends word of jobs that end, and how that goes.

import { html, useState } from '../lib/html.js';
import { Badge, Button, CodeBlock, Details, Empty, Facts, Load, Page, Pager, ProblemAlert, Section, Table, Time, usePages } from '../lib/components.js';
import { post } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { curl } from '../lib/snippets.js';
import * as format from '../lib/format.js';

const STATES = { active: ['good', 'check', 'Active'], failing: ['bad', 'warn', 'Failing'], disabled: ['neutral', 'dash', 'Disabled'] };
const RESULTS = { delivered: ['good', 'check', 'Delivered'], pending: ['info', 'clock', 'Waits'], failed: ['bad', 'cross', 'Failed'] };

const Word = ({ of, name }) => {
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
  { id: 'name', label: 'Webhook', render: (webhook) => html`<a href=${`/webhooks/${webhook.id}`}>${webhook.name || format.short(webhook.id)}</a>` },
  { id: 'state', label: 'State', render: (webhook) => html`<${Word} of=${STATES} name=${webhook.status} />` },
  { id: 'url', label: 'Address', render: (webhook) => html`<code>${webhook.url}</code>` },
  { id: 'events', label: 'Told of', render: (webhook) => html`<span class="small">${webhook.events.join(', ')}</span>` },
  { id: 'last', label: 'Last received', align: 'right', render: (webhook) => html`<${Time} at=${webhook.last_success_at} relative />` },
];

/** One webhook and its last deliveries. */
export function Webhook({ id }) {
  const path = `/v1/webhooks/${encodeURIComponent(id)}`;
  const webhook = useResource(path, { every: 10_000 });
  const deliveries = usePages(`${path}/deliveries`, { every: (page) => (page?.data.some((each) => each.status === 'pending') ? 2000 : 10_000) });
  const [problem, setProblem] = useState(null);
  const act = (where) => () => post(where).then(() => { setProblem(null); deliveries.refresh(); }, setProblem);
  const name = webhook.data?.name || `Webhook ${format.short(id)}`;
  return html`<${Page} title=${name} crumbs=${[['Webhooks', '/webhooks']]} actions=${webhook.data && html`<${Button} onClick=${act(`${path}/test`)}>Send a test</${Button}>`}>
    <${ProblemAlert} problem=${problem} />
    <${Load} resource=${webhook}>${(data) => html`<${Section} title="State"><${Facts} items=${about(data)} /></${Section}>`}</${Load}>
    <${Section} title="Last deliveries" note="Deliveries that have ended are kept for 7 days.">
      <${Load} resource=${deliveries}>${(page) => html`<${Table} caption="Deliveries, newest first" columns=${columns(path, act)} rows=${page.data} param="none" empty=${html`<p class="muted">Nothing was sent yet.</p>`} /><${Pager} page=${page} />`}</${Load}></${Section}>
  </${Page}>`;
}

const about = (webhook) => [
  ['State', html`<${Word} of=${STATES} name=${webhook.status} />`],
  ['Address', html`<code>${webhook.url}</code>`],
  ['Told of', webhook.events.join(', ')],
  ['Only dataset', webhook.dataset_id && html`<a href=${`/datasets/${webhook.dataset_id}`}>${format.short(webhook.dataset_id)}</a>`],
  ['Only decision', webhook.decision && format.words(webhook.decision)],
  ['Last received', html`<${Time} at=${webhook.last_success_at} relative />`],
  webhook.failing_since && ['Failing since', html`<${Time} at=${webhook.failing_since} />`],
  webhook.dropped_events > 0 && ['Events dropped', format.count(webhook.dropped_events)],
  ['Created', html`<${Time} at=${webhook.created_at} /> by ${webhook.created_by}`],
];

const jobOf = (delivery) => delivery.data?.job_id || delivery.data?.id;

const columns = (path, act) => [
  { id: 'type', label: 'Event', render: (each) => html`<span class="stack-tight"><span>${each.type}</span>${jobOf(each) && html`<a class="mono" href=${`/jobs/${jobOf(each)}`}>job ${format.short(jobOf(each))}</a>`}</span>` },
  { id: 'status', label: 'Status', render: (each) => html`<${Word} of=${RESULTS} name=${each.status} />` },
  { id: 'answer', label: 'Answer', render: (each) => html`<span class="small">${each.last_error || each.last_status || '–'}</span>` },
  { id: 'attempts', label: 'Attempts', align: 'right', render: (each) => each.attempts },
  { id: 'at', label: 'When', align: 'right', render: (each) => html`<${Time} at=${each.created_at} relative />` },
  { id: 'again', label: 'Again', align: 'right', render: (each) => html`<${Button} aria-label=${`Send ${each.type} again`} disabled=${each.status === 'pending'} onClick=${act(`${path}/deliveries/${each.id}/redeliver`)}>Send again</${Button}>` },
];
