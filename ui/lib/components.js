// Small components that all pages share. Larger ones have files of their own and are exported from here too.

import { html, classes, useEffect, useId, useRef, useState } from './html.js';
import { Icon } from './icons.js';
import * as format from './format.js';

export { Icon } from './icons.js';
export { Table, Pager, usePages } from './table.js';

/**
 * The frame of a page: its title is also that of the window, `crumbs` are `[text, href]` of the pages above, `lead` is a
 * sentence below the title, `actions` are buttons beside it.
 */
export function Page({ title, heading, crumbs = [], lead, actions, children }) {
  useEffect(() => {
    document.title = `${title} · Guarantor`;
  }, [title]);
  return html`<article class="page">
    ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Breadcrumb"><ol>
      ${crumbs.map(([text, to]) => html`<li><a href=${to}>${text}</a></li>`)}
    </ol></nav>`}
    <header class="page-head">
      <div class="page-title"><h1 tabindex="-1">${heading || title}</h1>${lead && html`<p class="lead">${lead}</p>`}</div>
      ${actions && html`<div class="actions no-print">${actions}</div>`}
    </header>
    ${children}
  </article>`;
}

/** A box with a heading. `id` makes it a target of links. */
export function Section({ title, id, note, actions, tone, children }) {
  const own = useId();
  const heading = `${id || own}-title`;
  return html`<section class=${classes('card', tone && `card-${tone}`)} id=${id} aria-labelledby=${title ? heading : undefined}>
    ${title && html`<header class="card-head"><h2 id=${heading}>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</header>`}
    ${note && html`<p class="note">${note}</p>`}
    ${children}
  </section>`;
}

/** A button, or with `href` a link that looks like one. `kind` is primary, plain, quiet or danger. */
export function Button({ kind = 'plain', icon, href, busy, children, ...rest }) {
  const content = html`${busy ? html`<${Icon} name="spin" />` : icon && html`<${Icon} name=${icon} />`}<span>${children}</span>`;
  const name = classes('button', `button-${kind}`);
  if (href) return html`<a class=${name} href=${href} ...${rest}>${content}</a>`;
  return html`<button type="button" class=${name} aria-busy=${busy ? 'true' : undefined} disabled=${busy || rest.disabled} ...${rest}>${content}</button>`;
}

/** A word in a colored box. Tones: good, warn, bad, info, neutral. The word carries the meaning, not the color. */
export const Badge = ({ tone = 'neutral', icon, children }) =>
  html`<span class=${`badge badge-${tone}`}>${icon && html`<${Icon} name=${icon} size=${14} />`}${children}</span>`;

const DECISIONS = { deploy: ['good', 'check', 'Deploy'], keep: ['warn', 'hold', 'Keep'] };

/** What a certificate recommends. */
export function DecisionBadge({ decision }) {
  if (!decision) return html`<span class="muted">–</span>`;
  const [tone, icon, text] = DECISIONS[decision] || ['neutral', null, format.words(decision)];
  return html`<${Badge} tone=${tone} icon=${icon}>${text}</${Badge}>`;
}

const STATUSES = {
  queued: ['neutral', 'clock', 'Queued'],
  running: ['info', 'spin', 'Running'],
  succeeded: ['good', 'check', 'Finished'],
  failed: ['bad', 'cross', 'Failed'],
  cancelled: ['neutral', 'dash', 'Canceled'],
};

/** The state of a job. */
export function StatusBadge({ status }) {
  const [tone, icon, text] = STATUSES[status] || ['neutral', null, format.words(status)];
  return html`<${Badge} tone=${tone} icon=${icon}>${text}</${Badge}>`;
}

/** The verdict of a check: true, false, or null if it was not made. */
export function CheckBadge({ ok }) {
  if (ok === true) return html`<${Badge} tone="good" icon="check">Passed</${Badge}>`;
  if (ok === false) return html`<${Badge} tone="bad" icon="cross">Failed</${Badge}>`;
  return html`<${Badge} tone="neutral" icon="dash">Not made</${Badge}>`;
}

const ALERT_ICONS = { good: 'check', warn: 'warn', bad: 'cross', info: 'info' };

/** A message in a box. `live` announces it to screen readers when it appears. */
export const Alert = ({ tone = 'info', title, live = false, actions, children }) =>
  html`<div class=${`alert alert-${tone}`} role=${live ? (tone === 'bad' ? 'alert' : 'status') : undefined}>
    <${Icon} name=${ALERT_ICONS[tone]} size=${20} />
    <div class="alert-body">${title && html`<p class="alert-title">${title}</p>`}${children && html`<div>${children}</div>`}</div>
    ${actions && html`<div class="actions">${actions}</div>`}
  </div>`;

/** A problem of the API: what happened, the fields or rows that are wrong, and the request id for the operator. */
export function ProblemAlert({ problem, title, onRetry }) {
  if (!problem) return null;
  const faults = problem.errors || [];
  return html`<${Alert} tone="bad" live title=${title || problem.title || 'That did not work'}
    actions=${onRetry && html`<${Button} onClick=${onRetry}>Try again</${Button}>`}>
    <p>${problem.detail || (problem.title ? 'Try again. If it stays so, tell the operator of the server.' : problem.message)}</p>
    ${faults.length > 0 && html`<ul class="faults">${faults.map((fault) => html`<li>
      ${fault.row != null && html`<strong>Row ${format.count(fault.row)}</strong>${' '}`}${fault.field && html`<code>${fault.field}</code>${' '}`}${fault.message}</li>`)}</ul>`}
    ${problem.requestId && html`<p class="muted small">Code <code>${problem.code}</code>, request <code>${problem.requestId}</code></p>`}
  </${Alert}>`;
}

/** Shown while something is read. It appears after a moment, so that quick answers do not flicker. */
export const Loading = ({ label = 'Loading…' }) =>
  html`<div class="loading" role="status"><${Icon} name="spin" size=${22} /><span>${label}</span></div>`;

/** Shown if there is nothing yet: what would be here, and how to get it. */
export const Empty = ({ title, icon = 'info', actions, children }) =>
  html`<div class="empty"><${Icon} name=${icon} size=${36} /><h2>${title}</h2><div class="empty-text">${children}</div>
    ${actions && html`<div class="actions">${actions}</div>`}</div>`;

/** The data of `useResource`, or its loading or error state. `children` is a function of the data. */
export function Load({ resource, label, children }) {
  if (resource.data !== undefined) {
    return html`${resource.problem && html`<${ProblemAlert} problem=${resource.problem} onRetry=${resource.refresh} />`}${children(resource.data)}`;
  }
  if (resource.problem) return html`<${ProblemAlert} problem=${resource.problem} onRetry=${resource.refresh} />`;
  return html`<${Loading} label=${label} />`;
}

/** Names and values: `items` are `[name, value]`; those without a value are left out. */
export const Facts = ({ items }) =>
  html`<dl class="facts">${items.filter((item) => item && item[1] !== undefined && item[1] !== null)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** One number with its name, large. `help` says in plain words what it means. */
export const Stat = ({ label, value, help, tone }) =>
  html`<div class=${classes('stat', tone && `stat-${tone}`)}><p class="stat-label">${label}</p><p class="stat-value">${value}</p>${help && html`<p class="stat-help">${help}</p>`}</div>`;

/** A name on one line; all of it is shown where the mouse rests, and on the page that it leads to. */
export const Name = ({ text, href, mono }) => (href
  ? html`<a class=${classes('name', mono && 'mono')} href=${href} title=${text}>${text}</a>` : html`<span class=${classes('name', mono && 'mono')} title=${text}>${text}</span>`);

/** An improvement of a job in the paper's units, and below it in those of the outcome if they are others. */
export function Improvement({ result, children }) {
  const { outcome, guaranteed_improvement: own } = result.user_units || {};
  const same = !outcome || outcome.max - outcome.min === 1;
  return html`<span class="stack-tight"><strong>${format.signed(result.guaranteed_improvement, 4)}</strong>
    ${!same && html`<span class="muted small nowrap">${format.signed(own, 3)} of ${outcome.kind}</span>`}${children}</span>`;
}

/** Several `Stat`s side by side. */
export const Stats = ({ children }) => html`<div class="stats">${children}</div>`;

/** A time in the reader's zone; `relative` says how long ago and keeps itself up to date. */
export function Time({ at, relative = false }) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!relative) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 30_000);
    return () => clearInterval(timer);
  }, [relative]);
  if (!at) return html`<span class="muted">–</span>`;
  return html`<time datetime=${at} title=${format.timeFull(at)}>${relative ? format.ago(at) : format.time(at)}</time>`;
}

/** A form control with its label, hint and error. `children` is a function that gets the attributes of the control. */
export function Field({ label, hint, error, optional, children }) {
  const id = useId();
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ');
  const attributes = { id, 'aria-describedby': described || undefined, 'aria-invalid': error ? 'true' : undefined };
  return html`<div class=${classes('field', error && 'field-bad')}>
    <label for=${id}>${label}${optional && html`<span class="muted"> (optional)</span>`}</label>
    ${children(attributes)}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${error && html`<p class="field-error" id=${`${id}-error`}><${Icon} name="warn" size=${14} /> ${error}</p>`}
  </div>`;
}

/** A bar from 0 to 1; without a value it shows that work goes on. */
export function ProgressBar({ value, label }) {
  const known = typeof value === 'number';
  const width = useRef(null);
  useEffect(() => {
    if (width.current) width.current.style.width = `${known ? Math.min(1, Math.max(0, value)) * 100 : 100}%`;
  }, [value, known]);
  return html`<div class=${classes('progress', !known && 'progress-open')} role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax="100"
    aria-valuenow=${known ? Math.round(value * 100) : undefined}><div ref=${width}></div></div>`;
}

/** Text that can be unfolded. */
export const Details = ({ summary, open, children }) =>
  html`<details class="details" open=${open}><summary><${Icon} name="right" size=${14} />${summary}</summary><div>${children}</div></details>`;
