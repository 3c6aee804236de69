// What a job does while it waits, runs and learns, live over its event stream.

import { html } from '../lib/html.js';
import { Alert, Facts, ProblemAlert, ProgressBar, Section, Table, Time } from '../lib/components.js';
import { TimeSeries } from '../lib/charts/index.js';
import { useResource } from '../lib/events.js';
import * as format from '../lib/format.js';

const PHASES = { preparing: 'Reads the log', learning: 'Learns a policy', certifying: 'Computes the guarantee', done: 'Done' };

/** The newest report of progress: that of the stream, or the one that was read with the job if the stream has none. */
function newest(job, live) {
  const reports = live.events.filter((event) => event.event === 'progress');
  return reports[reports.length - 1]?.data || job.progress;
}

/** A job that waits or runs. */
export function Waiting({ job, live }) {
  if (job.status === 'queued') return html`<${Queued} job=${job} />`;
  const report = newest(job, live);
  const share = report?.fraction ?? 0;
  const asked = live.events.some((event) => event.event === 'cancel_requested');
  const facts = [
    ['Running for', format.duration(report?.elapsed_seconds)],
    report?.epoch && ['Epoch', `${format.count(report.epoch)}${report.epochs ? ` of at most ${format.count(report.epochs)}` : ''}`],
    report?.bound != null && ['Bound so far', format.number(report.bound, 6)],
    job.attempt > 1 && ['Attempt', job.attempt],
  ];
  return html`<${Section} title=${asked ? 'Is being canceled…' : `${PHASES[report?.phase] || 'Runs'}…`} tone=${undefined}>
    <div class="running"><${ProgressBar} value=${share} label="Progress of the job" /><span class="strong">${format.percent(share, 0)}</span></div>
    <${Facts} items=${facts.filter(Boolean)} />
  </${Section}>`;
}

function Queued({ job }) {
  const health = useResource('/healthz', { every: 3000 });
  const { queued_jobs: queued, running_jobs: running } = health.data || {};
  return html`<${Alert} title="The job waits for a worker.">
    <p>It was submitted <${Time} at=${job.created_at} relative />.${queued !== undefined && ` ${format.plural(queued, 'job')} ${queued === 1 ? 'is' : 'are'} queued, and ${running} ${running === 1 ? 'is' : 'are'} running.`}</p></${Alert}>`;
}

/** The curve of the bound, or of the progress, and every event. */
export function Progress({ job, live }) {
  const reports = live.events.filter((event) => event.event === 'progress').map((event) => event.data);
  const bounds = reports.filter((report) => report.bound !== null && report.bound !== undefined);
  const milestones = live.events.filter((event) => event.event !== 'progress');
  return html`${live.problem && html`<${ProblemAlert} problem=${live.problem} title="The events cannot be followed" />`}
    ${bounds.length > 1 ? html`<${Bound} reports=${bounds} />` : reports.length > 1 && html`<${Share} reports=${reports} running=${job.status === 'running'} />`}
    <${Section} title="Events"><${Table} caption="Events" columns=${COLUMNS} rows=${milestones} param="none"
      empty=${html`<p class="muted">No event yet.</p>`} /></${Section}>`;
}

const COLUMNS = [
  { id: 'event', label: 'Event', render: (event) => format.words(event.event) },
  { id: 'at', label: 'Time', render: (event) => html`<${Time} at=${event.created_at} />` },
  { id: 'data', label: 'Details', render: (event) => html`<span class="small">${details(event.data)}</span>` },
];

const details = (data) =>
  Object.entries(data || {}).filter(([, value]) => typeof value !== 'object').map(([name, value]) => `${format.words(name)}: ${typeof value === 'number' ? format.number(value) : value}`).join(', ') || '–';

/** The bound as it falls. It is on the risk, so lower is better. */
function Bound({ reports }) {
  const [x, values] = [reports.map((report) => report.elapsed_seconds), reports.map((report) => report.bound)];
  const [first, last] = [values[0], values[values.length - 1]].map((value) => format.number(value, 5));
  const when = `between ${format.duration(x[0])} and ${format.duration(x[x.length - 1])} after the start`;
  const summary = first === last ? `The bound is ${last} and did not change ${when}.` : `The bound fell from ${first} to ${last} ${when}.`;
  return html`<${Section} title="The bound while learning" note="The upper bound on the policy's risk, best so far. Lower is better. It is no guarantee before the certificate.">
    <${TimeSeries} summary=${summary} x=${x} series=${[{ label: 'bound on the risk', values }]} xLabel="seconds" yText=${(value) => format.number(value, 5)} />
    <p class="small muted">${summary}</p></${Section}>`;
}

/** Kinds of learning that look at no certified row have no bound to show before the end. */
function Share({ reports, running }) {
  const [x, values] = [reports.map((report) => report.elapsed_seconds), reports.map((report) => report.fraction)];
  const summary = `${format.percent(values[values.length - 1], 0)} ${running ? 'is' : 'was'} done after ${format.duration(x[x.length - 1])}.`;
  return html`<${Section} title="Progress" note="This job learns without a look at the rows that it certifies, so there is no bound to show before the certificate.">
    <${TimeSeries} summary=${summary} x=${x} series=${[{ label: 'done', values }]} xLabel="seconds" yRange=${[0, 1]} yText=${(value) => format.percent(value, 0)} />
    <p class="small muted">${summary}</p></${Section}>`;
}
