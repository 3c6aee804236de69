// One webhook: its state and its last deliveries.

import { html, useState } from '../lib/html.js';
import { Button, Facts, Load, Page, Pager, ProblemAlert, Section, Table, Time, usePages } from '../lib/components.js';
import { post } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import * as format from '../lib/format.js';
import { STATES, Word } from './webhooks.js';

const RESULTS = { delivered: ['good', 'check', 'Delivered'], pending: ['info', 'clock', 'Waits'], failed: ['bad', 'cross', 'Failed'] };

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
