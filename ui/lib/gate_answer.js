// What a gate answers now, and why.

import { html } from './html.js';
import { Badge, Details, Facts, Loading, ProblemAlert } from './components.js';
import * as format from './format.js';

/** Answers of a gate that say something about it; all other problems are faults. */
const CLOSED = new Set([403, 409, 424]);

/** The state of a gate as a badge. `resource` is that of `useResource` on the gate. */
export function GateBadge({ resource }) {
  if (resource.problem) {
    if (resource.problem.code === 'job_unfinished') return html`<${Badge} tone="info" icon="clock">Waits</${Badge}>`;
    return CLOSED.has(resource.problem.status) ? html`<${Badge} tone="warn" icon="hold">Closed</${Badge}>` : html`<${Badge} tone="bad" icon="warn">No answer</${Badge}>`;
  }
  if (!resource.data) return html`<span class="muted">…</span>`;
  return html`<${Badge} tone="good" icon="check">Open</${Badge}>`;
}

/** Why a gate is open or closed, as one sentence. */
export function gateWhy(resource) {
  if (resource.problem) return resource.problem.detail || resource.problem.message;
  if (!resource.data) return '';
  return `The certificate of job ${format.short(resource.data.job_id)} says deploy, and every requirement is met.`;
}

/** The answer in full. */
export function GateAnswer({ resource }) {
  if (resource.loading) return html`<${Loading} label="Asking the gate…" />`;
  const { problem } = resource;
  if (problem && !CLOSED.has(problem.status)) return html`<${ProblemAlert} problem=${problem} onRetry=${resource.refresh} />`;
  const answer = problem ? problem.members : resource.data;
  const facts = [
    ['Status', problem ? `${problem.status} ${problem.code}` : '200'],
    answer.requirement && ['Requirement', format.words(answer.requirement)],
    answer.required !== undefined && ['Required', value(answer.required)],
    answer.actual !== undefined && ['Actual', value(answer.actual)],
    answer.job_id && ['Job', html`<a class="mono" href=${`/jobs/${answer.job_id}`}>${format.short(answer.job_id)}</a>`],
    answer.decision && ['Decision', format.words(answer.decision)],
    answer.guaranteed_improvement !== undefined && ['Guaranteed improvement', format.signed(answer.guaranteed_improvement, 4)],
    answer.confidence !== undefined && ['Confidence', format.confidence(answer.confidence)],
    answer.family_wise_confidence !== undefined && ['All looks together', format.confidence(answer.family_wise_confidence)],
    answer.issued_at && ['Issued', format.time(answer.issued_at)],
  ];
  return html`<p class="gate-answer"><${GateBadge} resource=${resource} /> <span>${gateWhy(resource)}</span></p>
    <${Facts} items=${facts.filter(Boolean)} />
    <${Details} summary="The answer as rollout tools get it"><pre class="answer" tabindex="0" aria-label="The answer of the gate"><code>${JSON.stringify(shown(answer), null, 2)}</code></pre></${Details}>`;
}

/** A requirement, or what the certificate has instead, in words. */
function value(given) {
  if (typeof given === 'number') return format.number(given);
  if (given === null) return 'none';
  if (Array.isArray(given)) return given.map(value).join(', ') || 'none';
  if (typeof given !== 'object') return String(given);
  const loss = given.max_loss ?? given.guaranteed_loss;
  return given.outcome === undefined ? JSON.stringify(given) : `a loss in ${given.outcome} of at most ${format.number(loss)}`;
}

/** Without what this page added to the answer itself. */
function shown({ requestId, retryAfter, ...answer }) {
  return answer;
}
