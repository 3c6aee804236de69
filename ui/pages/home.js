// The first page. An empty server explains itself; otherwise the newest decisions, the queue and what was spent.

import { html, useState } from '../lib/html.js';
import { Alert, Button, DecisionBadge, Improvement, Load, Name, Page, ProblemAlert, Section, Stat, Stats, StatusBadge, Table, Time } from '../lib/components.js';
import { BudgetBar } from '../lib/charts/interval.js';
import { Dropzone } from '../lib/dropzone.js';
import { useResource } from '../lib/events.js';
import { HOME } from '../lib/paths.js';
import { leave } from '../lib/pending.js';
import { navigate } from '../lib/router.js';
import { loadDemo } from '../lib/demo.js';
import * as format from '../lib/format.js';

const FRESH = 4000;

/** The first page. */
export function Home() {
  const datasets = useResource(HOME.datasets, { every: FRESH * 3 });
  const jobs = useResource(HOME.jobs, { every: FRESH });
  const empty = datasets.data?.data.length === 0 && jobs.data?.data.length === 0;
  if (empty) return html`<${Welcome} />`;
  const actions = html`<${Button} icon="upload" href="/upload">Upload a log</${Button}><${Button} kind="primary" icon="plus" href="/jobs/new">New job</${Button}>`;
  return html`<${Page} title="Home" lead="What was decided lately, what is running, and how much of each log's budget is spent." actions=${actions}>
    <${Now} />
    <${Section} title="Newest jobs" actions=${html`<a href="/jobs">All jobs</a>`}><${Load} resource=${jobs}>${(page) => html`<${Decisions} jobs=${page.data} datasets=${datasets.data?.data || []} />`}</${Load}></${Section}>
    <${Section} title="Spent δ" actions=${html`<a href="/datasets">All datasets</a>`}
      note="Every certificate may be wrong with a small probability, δ. The ledger of a dataset adds up the δ of all certificates that were drawn from its rows.">
      <${Load} resource=${datasets}>${(page) => html`<${Spent} datasets=${page.data} />`}</${Load}></${Section}>
  </${Page}>`;
}

function Welcome() {
  const [demo, setDemo] = useState({});
  const start = async () => {
    setDemo({ step: 'Starting…' });
    try {
      const job = await loadDemo((step) => setDemo({ step }));
      navigate(`/jobs/${job.id}`);
    } catch (problem) {
      setDemo({ problem });
    }
  };
  const onFile = (file) => {
    leave(file);
    navigate('/upload');
  };
  return html`<${Page} title="Home" heading="Roll out a policy only if it is guaranteed to be better"
    lead="Guarantor reads the log of a policy that is deployed, learns or checks a new one, and says with a stated confidence how much better it is at least. This server has no logs yet.">
    <${Dropzone} title="Drop a log here" onFile=${onFile}>
      <p>One row per decision: its context, the action that was taken, the probability that it had, and what came of it. NDJSON, CSV, Parquet, Arrow, DSJSON or the Open Bandit Dataset, also compressed.</p>
    </${Dropzone}>
    <${Section} title="Or load the demo" actions=${html`<${Button} kind="primary" busy=${Boolean(demo.step)} onClick=${start}>${demo.step || 'Load the demo'}</${Button}>`}>
      <p>A made-up log of 20,000 visitors, each of whom was shown one of four teasers. It is drawn in this browser, uploaded, and a policy is learned from it. It takes a few seconds.</p>
      ${demo.problem && html`<${ProblemAlert} problem=${demo.problem} />`}
    </${Section}>
    <${Section} title="How it goes">
      <ol class="steps">
        <li><strong>Upload a log.</strong> Its health is checked at once: are the probabilities plausible, is every action tried?</li>
        <li><strong>Start a job.</strong> It learns a policy from the log, or checks policies that you have.</li>
        <li><strong>Read the certificate.</strong> It says deploy or keep, and why.</li>
        <li><strong>Ask the gate.</strong> Your rollout tool asks before it goes on.</li>
      </ol>
    </${Section}>
  </${Page}>`;
}

function Now() {
  const health = useResource('/healthz', { every: FRESH });
  if (!health.data) return null;
  const { queued_jobs: queued, running_jobs: running, status, version } = health.data;
  return html`<${Stats}>
    <${Stat} label="Running" value=${format.count(running)} help=${running === 1 ? 'job is being computed' : 'jobs are being computed'} />
    <${Stat} label="Queued" value=${format.count(queued)} help=${queued === 0 ? 'nothing waits' : 'waiting for a worker'} tone=${queued > 100 ? 'warn' : undefined} />
    <${Stat} label="Server" value=${status === 'ok' ? 'Ready' : 'Shutting down'} help=${`version ${version}`} tone=${status === 'ok' ? 'good' : 'warn'} />
  </${Stats}>`;
}

function Decisions({ jobs, datasets }) {
  const names = new Map(datasets.map((dataset) => [dataset.id, dataset.name]));
  const columns = [
    { id: 'job', label: 'Job', render: (job) => html`<a href=${`/jobs/${job.id}`} class="mono">${format.short(job.id)}</a>` },
    { id: 'dataset', label: 'Dataset', render: (job) => html`<${Name} href=${`/datasets/${job.spec.dataset_id}`} text=${names.get(job.spec.dataset_id) || format.short(job.spec.dataset_id)} />` },
    { id: 'status', label: 'Status', render: (job) => (job.result ? html`<${DecisionBadge} decision=${job.result.decision} />` : html`<${StatusBadge} status=${job.status} />`) },
    { id: 'gain', label: 'Guaranteed improvement', align: 'right', render: (job) => (job.result ? html`<${Improvement} result=${job.result} />` : '–') },
    { id: 'age', label: 'Submitted', align: 'right', render: (job) => html`<${Time} at=${job.created_at} relative />` },
  ];
  const none = html`<${Alert} title="There are no jobs yet.">A job learns a policy from a log, or checks policies that you have. <a href="/jobs/new">Start one.</a></${Alert}>`;
  return html`<${Table} caption="The newest jobs" columns=${columns} rows=${jobs} empty=${none} param="none" />`;
}

function Spent({ datasets }) {
  const columns = [
    { id: 'name', label: 'Dataset', render: (dataset) => html`<${Name} href=${`/datasets/${dataset.id}?tab=ledger`} text=${dataset.name || format.short(dataset.id)} />` },
    { id: 'rows', label: 'Rows', align: 'right', render: (dataset) => format.count(dataset.rows) },
    { id: 'spent', label: 'Spent δ', wide: true, render: (dataset) => html`<${SpentBar} id=${dataset.id} />` },
  ];
  const none = html`<p class="muted">There are no datasets. <a href="/upload">Upload a log.</a></p>`;
  return html`<${Table} caption="What was spent on each dataset" columns=${columns} rows=${datasets} empty=${none} param="none" />`;
}

function SpentBar({ id }) {
  const { data, problem } = useResource(`/v1/datasets/${id}/ledger?limit=100`, { every: FRESH * 3 });
  if (problem) return html`<span class="muted">not readable</span>`;
  if (!data) return html`<span class="muted">…</span>`;
  const text = data.looks === 0 ? 'no looks yet' : `${format.number(data.spent, 3)} in ${format.plural(data.looks, 'look')}; all hold together with a probability of ${format.confidence(data.family_wise_confidence)}`;
  const parts = [...data.data].reverse().filter((look) => look.cost > 0).map((look) => ({ value: look.cost, label: `Look ${look.look}: ${format.number(look.cost, 3)}` }));
  return html`<div class="spent">${data.looks > 0 && html`<${BudgetBar} parts=${parts} total=${1} label=${text} />`}<span class="small">${text}</span></div>`;
}
