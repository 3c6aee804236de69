// All jobs: only the page that is shown is read, and the server filters and sorts.

import { html } from '../lib/html.js';
import { Button, DecisionBadge, Empty, Field, Improvement, Load, Name, Page, Pager, ProgressBar, Section, StatusBadge, Table, Time } from '../lib/components.js';
import { IntervalBar } from '../lib/charts/interval.js';
import { extent } from '../lib/charts/frame.js';
import { useResource } from '../lib/events.js';
import { jobsPath } from '../lib/paths.js';
import { setQuery, useLocation } from '../lib/router.js';
import * as format from '../lib/format.js';

const BUSY = 2000;
const QUIET = 10_000;
const unfinished = (job) => job.status === 'queued' || job.status === 'running';

/** All jobs. */
export function Jobs() {
  const { query } = useLocation();
  const { status, decision, dataset_id: dataset, order } = query;
  const jobs = useResource(jobsPath(query), { every: (page) => (page?.data.some(unfinished) ? BUSY : QUIET) });
  const filtered = Boolean(status || decision || dataset);
  const oldest = order === 'oldest';
  return html`<${Page} title="Jobs" lead="A job learns a policy from a log, or checks policies that you have, and ends with a certificate."
    actions=${html`<${Button} kind="primary" icon="plus" href="/jobs/new">New job</${Button}>`}>
    <${Section}>
      <${Filters} ...${{ status, decision, dataset, filtered }} />
      <${Load} resource=${jobs}>${(page) => html`<${List} page=${page} filtered=${filtered} oldest=${oldest} />
        <${Pager} page=${page} first=${oldest ? 'Oldest' : 'Newest'} next=${oldest ? 'Newer' : 'Older'} />`}</${Load}>
    </${Section}>
  </${Page}>`;
}

const STATUSES = [['', 'All'], ['queued', 'Queued'], ['running', 'Running'], ['succeeded', 'Finished'], ['failed', 'Failed'], ['cancelled', 'Canceled']];
const DECISIONS = [['', 'All'], ['deploy', 'Deploy'], ['keep', 'Keep']];

/** A change of a filter leads to the first page. */
const change = (name) => (event) => setQuery({ [name]: event.target.value.trim(), after: '' });

const Choice = ({ label, name, value = '', options }) => html`<${Field} label=${label}>${(attributes) => html`<select ...${attributes} value=${value} onChange=${change(name)}>
  ${options.map(([id, text]) => html`<option value=${id} selected=${id === value}>${text}</option>`)}</select>`}</${Field}>`;

function Filters({ status, decision, dataset, filtered }) {
  return html`<form class="filters no-print" onSubmit=${(event) => event.preventDefault()} aria-label="Filters">
    <${Choice} label="Status" name="status" value=${status} options=${STATUSES} />
    <${Choice} label="Decision" name="decision" value=${decision} options=${DECISIONS} />
    <${Field} label="Dataset">${(attributes) => html`<input ...${attributes} type="text" value=${dataset || ''} placeholder="any" spellcheck="false" autocomplete="off" onChange=${change('dataset_id')} />`}</${Field}>
    ${filtered && html`<div class="filters-clear"><${Button} icon="cross" onClick=${() => setQuery({ status: '', decision: '', dataset_id: '', after: '' })}>Show all</${Button}></div>`}
  </form>`;
}

function List({ page, filtered, oldest }) {
  const jobs = page.data;
  const results = jobs.filter((job) => job.result).flatMap((job) => [job.result.guaranteed_improvement, required(job)]);
  const range = extent([...results, 0], 0.1);
  const empty = filtered
    ? html`<${Empty} title="No job is like that" icon="jobs">Change the filters, or show all jobs.</${Empty}>`
    : html`<${Empty} title="There are no jobs yet" icon="jobs" actions=${html`<${Button} kind="primary" icon="plus" href="/jobs/new">New job</${Button}>`}>A job needs a log. <a href="/upload">Upload one</a> if you have not yet.</${Empty}>`;
  const columns = [
    { id: 'job', label: 'Job', render: (job) => html`<${Title} job=${job} />` },
    { id: 'status', label: 'Status', render: (job) => html`<${State} job=${job} />` },
    { id: 'decision', label: 'Decision', render: (job) => html`<${DecisionBadge} decision=${job.result?.decision} />` },
    { id: 'guarantee', label: 'Guaranteed improvement', render: (job) => html`<${Guarantee} job=${job} range=${range} />` },
    { id: 'dataset', label: 'Dataset', render: (job) => html`<a class="mono" href=${`/datasets/${job.spec.dataset_id}`}>${format.short(job.spec.dataset_id)}</a>` },
    {
      id: 'age', label: 'Submitted', align: 'right', sorted: oldest ? 'ascending' : 'descending',
      onSort: () => setQuery({ order: oldest ? '' : 'oldest', after: '' }), render: (job) => html`<${Time} at=${job.created_at} relative />`,
    },
  ];
  return html`<${Table} caption=${`Jobs, ${oldest ? 'oldest' : 'newest'} first`} columns=${columns} rows=${jobs} empty=${empty} />`;
}

/** The improvement that the spec requires, in the paper's units. */
const required = (job) => job.spec.min_improvement ?? 0;

function Title({ job }) {
  const labels = Object.entries(job.spec.metadata || {}).filter(([, value]) => typeof value !== 'object').slice(0, 3);
  return html`<span class="stack-tight"><span><a class="mono" href=${`/jobs/${job.id}`}>${format.short(job.id)}</a> <span class="muted">${job.kind}</span></span>
    ${labels.length > 0 && html`<span class="muted small"><${Name} text=${labels.map(([name, value]) => `${name}: ${value}`).join(', ')} /></span>`}</span>`;
}

function State({ job }) {
  const share = job.status === 'running' ? job.progress?.fraction ?? 0 : null;
  return html`<span class="state"><${StatusBadge} status=${job.status} />${share !== null && html`<${ProgressBar} value=${share} label=${`Progress of job ${format.short(job.id)}`} />`}</span>`;
}

/** The guarantee in numbers, and as a bar against what is required. */
function Guarantee({ job, range }) {
  if (!job.result) return html`<span class="muted">–</span>`;
  const guaranteed = job.result.guaranteed_improvement;
  const need = required(job);
  return html`<span class="guarantee"><${IntervalBar} guaranteed=${guaranteed} required=${need} enough=${job.result.decision === 'deploy'} range=${range} />
    <${Improvement} result=${job.result}><span class="muted small nowrap">needs more than ${format.number(need)}</span></${Improvement}></span>`;
}
