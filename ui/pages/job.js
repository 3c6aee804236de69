// One job: its verdict first, then why, then what to do with it.

import { html, useEffect, useRef, useState } from '../lib/html.js';
import { Alert, Badge, Button, DecisionBadge, Load, Loading, Page, ProblemAlert, Section, StatusBadge } from '../lib/components.js';
import { CopyButton } from '../lib/code.js';
import { Confirm } from '../lib/dialog.js';
import { Tabs } from '../lib/tabs.js';
import { post } from '../lib/api.js';
import { useJobEvents, useResource } from '../lib/events.js';
import { href } from '../lib/router.js';
import * as format from '../lib/format.js';
import { Result } from './job_result.js';
import { Checks } from './job_checks.js';
import { Rollout } from './job_rollout.js';
import { Certificate } from './job_certificate.js';
import { Progress, Waiting } from './job_progress.js';
import { Specification } from './job_spec.js';

const POLL = 2000;
const runs = (job) => job?.status === 'queued' || job?.status === 'running';

/** One job. */
export function Job({ id, query }) {
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  const resource = useResource(path, { every: (job) => (runs(job) ? POLL : 0) });
  const job = resource.data;
  // A job that has ended is followed only if somebody wants to see its history: then the stream repeats it and ends.
  const live = useJobEvents(id, { enabled: Boolean(job) && (runs(job) || query.tab === 'history') });
  useEndOf(live.events, resource.refresh);
  const name = `Job ${format.short(id)}`;
  return html`<${Page} title=${name} crumbs=${[['Jobs', '/jobs']]} actions=${job && html`<${Actions} job=${job} refresh=${resource.refresh} />`}
    heading=${html`<span class="title-row">${name} ${job && html`<${Verdict} job=${job} />`}</span>`}
    lead=${html`<span class="inline-copy"><code>${id}</code><${CopyButton} compact text=${id} label="Copy the id" /></span>`}>
    <${Load} resource=${resource}>${(data) => html`<${Shown} job=${data} live=${live} />`}</${Load}>
  </${Page}>`;
}

/** Reads the job again once the stream has told of its end, instead of waiting for the next poll. */
function useEndOf(events, refresh) {
  const last = events[events.length - 1]?.event;
  const told = useRef(last);
  useEffect(() => {
    const ended = last === 'succeeded' || last === 'failed' || last === 'cancelled' || last === 'started';
    if (ended && told.current !== last) refresh();
    told.current = last;
  }, [last]);
}

function Verdict({ job }) {
  if (job.result) return html`<${DecisionBadge} decision=${job.result.decision} />`;
  return html`<${StatusBadge} status=${job.status} />`;
}

function Actions({ job, refresh }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const cancel = async () => {
    setBusy(true);
    try {
      await post(`/v1/jobs/${job.id}/cancel`);
      setAsked(false);
      refresh();
    } catch (failed) {
      setProblem(failed);
    }
    setBusy(false);
  };
  return html`${runs(job) && html`<${Button} kind="danger" icon="cross" onClick=${() => setAsked(true)}>Cancel</${Button}>`}
    <${Button} icon="copy" href=${href('/jobs/new', { from: job.id })}>Start one like it</${Button}>
    ${asked && html`<${Confirm} title="Cancel this job?" action="Cancel the job" busy=${busy} onConfirm=${cancel} onClose=${() => setAsked(false)}>
      <p>It stops within a second. If it has already shown a bound on the certified rows, that look stays in the dataset's ledger.</p>
      <${ProblemAlert} problem=${problem} /></${Confirm}>`}`;
}

function Shown({ job, live }) {
  if (job.status === 'succeeded') return html`<${Finished} job=${job} live=${live} />`;
  const specification = { id: 'spec', label: 'Specification', render: () => html`<${Specification} job=${job} />` };
  const history = { id: 'history', label: 'History', render: () => html`<${Progress} job=${job} live=${live} />` };
  if (runs(job)) {
    return html`<${Waiting} job=${job} live=${live} />
      <${Tabs} label="About the job" tabs=${[{ ...history, id: 'live', label: 'Live' }, specification]} />`;
  }
  return html`<${Ended} job=${job} /><${Tabs} label="About the job" tabs=${[specification, history]} />`;
}

/** A job without a certificate: what happened, and what to do. */
function Ended({ job }) {
  const again = html`<${Button} href=${href('/jobs/new', { from: job.id })}>Start it again</${Button}>`;
  if (job.status === 'cancelled') {
    return html`<${Alert} title="The job was canceled." actions=${again}><p>There is no certificate, and its gate is closed. It was canceled ${format.time(job.finished_at)}.</p></${Alert}>`;
  }
  return html`<${Alert} tone="bad" title="The job failed." actions=${again}>
    <p>${format.sentence(job.error?.message) || 'No reason was recorded.'}</p>
    <p class="small">There is no certificate, and its gate is closed. ${job.error && html`Code <code>${job.error.code}</code>, `}attempt ${job.attempt}.</p></${Alert}>`;
}

function Finished({ job, live }) {
  const certificate = useResource(`/v1/jobs/${job.id}/certificate`);
  if (!certificate.data) return certificate.problem ? html`<${ProblemAlert} problem=${certificate.problem} onRetry=${certificate.refresh} />` : html`<${Loading} label="Reading the certificate…" />`;
  const document = certificate.data;
  const failed = (document.checks || []).filter((check) => check.ok === false).length;
  const tabs = [
    { id: 'result', label: 'Result', render: () => html`<${Result} job=${job} certificate=${document} />` },
    { id: 'checks', label: html`Checks${failed > 0 && html` <${Badge} tone="bad">${failed} failed</${Badge}>`}`, render: () => html`<${Checks} certificate=${document} />` },
    { id: 'rollout', label: 'Rollout', render: () => html`<${Rollout} job=${job} certificate=${document} />` },
    { id: 'certificate', label: 'Certificate', render: () => html`<${Certificate} job=${job} certificate=${document} />` },
    { id: 'spec', label: 'Specification', render: () => html`<${Specification} job=${job} />` },
    { id: 'history', label: 'History', render: () => html`<${Progress} job=${job} live=${live} />` },
  ];
  return html`<${Sentence} certificate=${document} /><${Tabs} label="About the job" tabs=${tabs} />`;
}

const HEADLINES = { deploy: 'Deploy the policy', keep: 'Keep what is deployed' };

/** The verdict as a sentence, before everything else. */
function Sentence({ certificate }) {
  const tone = certificate.decision === 'deploy' ? 'good' : 'warn';
  const actions = certificate.merged && html`<${Badge} tone="warn" icon="info">Merged from ${format.plural(certificate.merged.partials.count, 'partial')}</${Badge}>`;
  return html`<${Section} title=${HEADLINES[certificate.decision] || format.words(certificate.decision)} tone=${tone} actions=${actions}><p class="verdict">${certificate.statement}</p></${Section}>`;
}
