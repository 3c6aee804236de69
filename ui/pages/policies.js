// All policies: learned by jobs, or uploaded.

import { html } from '../lib/html.js';
import { Details, Empty, Load, Page, Pager, Section, Table, Time, usePages } from '../lib/components.js';
import { CodeBlock } from '../lib/code.js';
import { curl } from '../lib/snippets.js';
import * as format from '../lib/format.js';

const UPLOAD = { kind: 'softmax', mean: [[0.4, -0.1, 0], [0, 0.3, -0.2]], inverse_temperature: 1 };

/** All policies. */
export function Policies() {
  const policies = usePages('/v1/policies', { every: 15_000 });
  const empty = html`<${Empty} title="There are no policies yet" icon="policy">Every job of the kind learn stores the policy that it learned. You can also upload the parameters of your own.</${Empty}>`;
  return html`<${Page} title="Policies" lead="A policy gives each action a probability. Jobs learn policies, and check those that you upload.">
    <${Section}><${Load} resource=${policies}>${(page) => html`<${Table} caption="Policies, newest first" columns=${COLUMNS} rows=${page.data} empty=${empty} />
      <${Pager} page=${page} />`}</${Load}></${Section}>
    <${Section}><${Details} summary="Upload a policy of your own"><${CodeBlock} label="curl" text=${curl('POST', '/v1/policies', UPLOAD)} /></${Details}></${Section}>
  </${Page}>`;
}

/** The size of a policy in words. */
export const shape = (policy) => (policy.n_actions > 0 ? `${format.plural(policy.n_actions, 'action')}, ${format.plural(policy.dim, 'feature')}` : 'any set of actions');

/** Where a policy comes from. */
export const Origin = ({ policy }) => (policy.source_job_id
  ? html`learned by <a class="mono" href=${`/jobs/${policy.source_job_id}`}>job ${format.short(policy.source_job_id)}</a>` : html`uploaded`);

const COLUMNS = [
  { id: 'policy', label: 'Policy', render: (policy) => html`<a class="mono" href=${`/policies/${policy.id}`}>${format.short(policy.id)}</a>` },
  { id: 'kind', label: 'Form', render: (policy) => format.words(policy.kind) },
  { id: 'shape', label: 'For', render: shape },
  { id: 'origin', label: 'Origin', render: (policy) => html`<${Origin} policy=${policy} />` },
  { id: 'digest', label: 'Digest', render: (policy) => html`<code title=${policy.digest}>${policy.digest.replace('sha256:', '').slice(0, 12)}</code>` },
  { id: 'age', label: 'Stored', align: 'right', render: (policy) => html`<${Time} at=${policy.created_at} relative />` },
];
