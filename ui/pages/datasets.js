// The list of datasets.

import { html } from '../lib/html.js';
import { Badge, Button, Empty, Load, Name, Page, Pager, Section, Table, Time, usePages } from '../lib/components.js';
import { verdict } from '../lib/health.js';
import * as format from '../lib/format.js';

const COLUMNS = [
  { id: 'name', label: 'Name', sort: (dataset) => dataset.name || dataset.id, render: (dataset) => html`<${Name} href=${`/datasets/${dataset.id}`} text=${dataset.name || format.short(dataset.id)} />` },
  { id: 'health', label: 'Health', sort: (dataset) => verdict(dataset.health).order, render: (dataset) => { const { tone, icon, text } = verdict(dataset.health); return html`<${Badge} tone=${tone} icon=${icon}>${text}</${Badge}>`; } },
  { id: 'rows', label: 'Rows', align: 'right', sort: (dataset) => dataset.rows, render: (dataset) => format.count(dataset.rows) },
  { id: 'worth', label: 'Effective sample size', align: 'right', sort: (dataset) => dataset.health.effective_sample_size, render: (dataset) => format.count(dataset.health.effective_sample_size) },
  { id: 'actions', label: 'Actions', align: 'right', sort: (dataset) => dataset.n_actions, render: (dataset) => format.count(dataset.n_actions) },
  { id: 'version', label: 'Version', align: 'right', sort: (dataset) => dataset.version, render: (dataset) => format.count(dataset.version) },
  { id: 'created', label: 'Uploaded', align: 'right', sort: (dataset) => Date.parse(dataset.created_at), render: (dataset) => html`<${Time} at=${dataset.created_at} relative />` },
];

/** The list of datasets. */
export function Datasets() {
  const page = usePages('/v1/datasets', { every: 10_000 });
  const upload = html`<${Button} kind="primary" icon="upload" href="/upload">Upload a log</${Button}>`;
  const none = html`<${Empty} title="There are no datasets" icon="data" actions=${upload}>A dataset is the log of a policy that is deployed: one row per decision. The <a href="/">first page</a> has a demo.</${Empty}>`;
  return html`<${Page} title="Datasets" lead="Logs of deployed policies. Each has a health report and a ledger of what was certified from it." actions=${upload}>
    <${Section}><${Load} resource=${page}>${(data) => html`<${Table} caption="Datasets, newest first" columns=${COLUMNS} rows=${data.data} empty=${none} /><${Pager} page=${data} />`}</${Load}></${Section}>
  </${Page}>`;
}
