// One dataset: its health as pictures, its versions, its ledger and what it supports.

import { html, useState } from '../lib/html.js';
import { Alert, Badge, Button, Load, Page, ProblemAlert, Stat, Stats } from '../lib/components.js';
import { CopyButton } from '../lib/code.js';
import { Confirm } from '../lib/dialog.js';
import { Tabs } from '../lib/tabs.js';
import { del } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { href, navigate } from '../lib/router.js';
import { isMerged, verdict } from '../lib/health.js';
import * as format from '../lib/format.js';
import { Health } from './dataset_health.js';
import { Ledger } from './dataset_ledger.js';
import { About, Versions } from './dataset_about.js';

/** One dataset. */
export function Dataset({ id, query }) {
  const resource = useResource(`/v1/datasets/${encodeURIComponent(id)}`, { every: 15_000 });
  const dataset = resource.data;
  const name = dataset ? dataset.name || `Dataset ${format.short(dataset.id)}` : 'Dataset';
  const actions = dataset && html`<${Actions} dataset=${dataset} />`;
  return html`<${Page} title=${name} crumbs=${[['Datasets', '/datasets']]} actions=${actions}
    lead=${dataset && html`<span class="inline-copy"><code>${dataset.id}</code><${CopyButton} compact text=${dataset.id} label="Copy the id" /></span>`}>
    <${Load} resource=${resource}>${(data) => html`<${Shown} dataset=${data} query=${query} />`}</${Load}>
  </${Page}>`;
}

function Shown({ dataset, query }) {
  const { tone, text, icon } = verdict(dataset.health);
  const share = dataset.health.effective_sample_size / Math.max(1, dataset.rows);
  const tabs = [
    { id: 'health', label: 'Health', render: () => html`<${Health} dataset=${dataset} />` },
    { id: 'ledger', label: 'Ledger', render: () => html`<${Ledger} dataset=${dataset} />` },
    { id: 'versions', label: 'Versions', render: () => html`<${Versions} dataset=${dataset} />` },
    { id: 'about', label: 'About', render: () => html`<${About} dataset=${dataset} />` },
  ];
  return html`
    ${query.uploaded && html`<${Alert} tone=${tone === 'bad' ? 'warn' : 'good'} live title=${`${format.plural(dataset.rows, 'row')} ${dataset.pinned ? 'read and pinned' : 'stored'}.`}
      actions=${html`<${Button} kind="primary" icon="plus" href=${href('/jobs/new', { dataset_id: dataset.id })}>Start a job</${Button}>`}>
      ${tone === 'bad' ? 'Some checks failed. Read why below before you certify anything from this log.' : tone === 'warn' ? 'Read the warnings below first.' : 'Nothing in this log looks wrong.'}</${Alert}>`}
    ${isMerged(dataset) && html`<${Alert} title="The rows are elsewhere.">The dataset was merged from partials: the server has the sums over its rows, and did not recompute them. Nothing else can be certified from it, and no rows can be added.</${Alert}>`}
    ${dataset.pinned && html`<${Alert} title="The rows are in pinned objects.">The server has their addresses and digests, and every job reads them again. It fails if an object was changed. No rows can be added. <a href=${href(`/datasets/${dataset.id}`, { tab: 'about' })}>Which objects</a></${Alert}>`}
    <${Stats}>
      <${Stat} label="Health" value=${html`<${Badge} tone=${tone} icon=${icon}>${text}</${Badge}>`} help=${tone === 'good' ? 'every check passed that could be made' : 'see below'} />
      <${Stat} label="Rows" value=${format.count(dataset.rows)} help=${`version ${dataset.version}, ${dataset.pinned ? 'in pinned objects' : format.bytes(dataset.bytes)}`} />
      <${Stat} label="Effective sample size" value=${format.count(dataset.health.effective_sample_size)} help=${`as good as so many rows of a uniform log (${format.percent(share, 0)})`} tone=${share < 0.1 ? 'warn' : undefined} />
      <${Stat} label="Actions" value=${format.count(dataset.n_actions)} help=${dataset.health.actions_never_logged.length ? `${format.count(dataset.health.actions_never_logged.length)} never logged` : 'every one was logged'} />
      <${Stat} label="Smallest propensity" value=${format.number(dataset.health.min_propensity, 3)} help=${`largest weight ${format.number(dataset.health.max_weight, 3)}`} />
    </${Stats}>
    <${Tabs} label="About the dataset" tabs=${tabs} />`;
}

function Actions({ dataset }) {
  const [asking, setAsking] = useState(false);
  const [state, setState] = useState({});
  const remove = async () => {
    setState({ busy: true });
    try {
      await del(`/v1/datasets/${dataset.id}`);
      navigate('/datasets');
    } catch (problem) {
      setState({ problem });
    }
  };
  return html`<${Button} kind="danger" icon="trash" onClick=${() => setAsking(true)}>Delete</${Button}>
    ${!isMerged(dataset) && !dataset.pinned && html`<${Button} icon="upload" href=${href('/upload', { to: dataset.id })}>Append rows</${Button}>`}
    ${!isMerged(dataset) && html`<${Button} kind="primary" icon="plus" href=${href('/jobs/new', { dataset_id: dataset.id })}>New job</${Button}>`}
    ${asking && html`<${Confirm} title="Delete this dataset?" action="Delete" busy=${state.busy} onConfirm=${remove} onClose=${() => setAsking(false)}>
      <p>Its rows are removed for good. Certificates that were computed from it remain, but can no longer be recomputed. Its ledger remains, so that the same rows cannot be uploaded to start afresh.</p>
      <${ProblemAlert} problem=${state.problem} /></${Confirm}>`}`;
}
