// The health of a dataset as pictures, each with its numbers.

import { html } from '../lib/html.js';
import { Alert, CheckBadge, Details, Section } from '../lib/components.js';
import { ExpectedCounts, Histogram, Numbers, TimeSeries } from '../lib/charts/index.js';
import { CHECKS, isMerged } from '../lib/health.js';
import * as format from '../lib/format.js';

/** Warnings, checks and pictures. */
export function Health({ dataset }) {
  const { health } = dataset;
  return html`
    ${health.warnings.map((warning) => html`<${Alert} key=${warning.code} tone="warn" title=${format.words(warning.code)}>${format.sentence(warning.message)}</${Alert}>`)}
    <${Checks} checks=${health.checks || []} />
    <div class="columns">
      <${Weights} dataset=${dataset} />
      <div class="stack"><${Counts} dataset=${dataset} /><${Smallest} health=${health} /></div>
    </div>
    <${OverTime} dataset=${dataset} />`;
}

function Checks({ checks }) {
  if (checks.length === 0) return null;
  const item = (check) => {
    const [title, what] = CHECKS[check.name] || [format.words(check.name), ''];
    return html`<li key=${`${check.name}-${check.subject}`}><${CheckBadge} ok=${check.ok} /><div>
      <p class="strong">${title}${check.subject ? `: ${check.subject}` : ''}</p><p class="muted">${what}</p><p>${format.sentence(check.message)}</p>
      ${check.ok !== null && check.ok !== undefined && html`<p class="small muted">Observed ${format.number(check.observed)}, expected ${format.number(check.expected)}; evidence against the log ${format.number(check.evidence, 3)}, fails from ${format.number(1 / check.level, 3)} on; ${format.plural(check.rows, 'row')}.</p>`}</div></li>`;
  };
  return html`<${Section} title="Checks" note="The guarantee rests on these assumptions. A failed check does not change the log; it tells what to fix in the logging."><ul class="check-list">${checks.map(item)}</ul></${Section}>`;
}

const Old = ({ dataset }) => isMerged(dataset) ? html`<p class="muted">The dataset was merged from partials. Their sums do not tell how the weights are spread.</p>` : html`<p class="muted">This report was made by an earlier release, which did not count this. Append rows, or upload the log again, to get it.</p>`;

function Weights({ dataset }) {
  const { health } = dataset;
  const fit = health.inverse_propensity_mean;
  const classes = (health.weights || []).map(({ from, to, rows }) => ({ from, to, count: rows }));
  return html`<${Section} title="Weights" note="A row counts with the weight one over its propensity. A few rows with huge weights make every estimate uncertain.">
    ${classes.length === 0 ? html`<${Old} dataset=${dataset} />` : html`<div class="stack"><${Histogram} classes=${classes} label="weight of a row"
      summary=${`Histogram of the weights of ${format.count(dataset.rows)} rows: from ${format.number(classes[0].from, 3)} to ${format.number(health.max_weight, 3)}, on average ${format.number(fit.observed, 3)}.`}
      marks=${[{ value: fit.observed, label: `mean ${format.number(fit.observed, 3)}` }]} />
      <p>The mean weight is ${format.number(fit.observed)}; ${format.number(fit.expected)} is expected${fit.z != null && `, which is ${format.number(Math.abs(fit.z), 2)} standard errors away`}.
        ${' '}The log is worth ${format.count(health.effective_sample_size)} rows of a uniform one.${health.near_deterministic_share > 0 ? ` In ${format.percent(health.near_deterministic_share)} of the rows one action was nearly certain.` : ''}</p></div>`}
  </${Section}>`;
}

const HEAD = ['propensity', 'weight', 'rows'];
const SHOWN_SMALLEST = 5;

function Smallest({ health }) {
  const small = health.smallest_propensities || [];
  if (small.length === 0) return null;
  const rows = small.map(({ propensity, rows: count }) => [format.number(propensity), format.number(1 / propensity, 3), format.count(count)]);
  return html`<${Section} title="Smallest propensities" note="Of the actions that were taken. The smaller, the more such a row weighs.">
    <${Numbers} caption="Smallest propensities" head=${HEAD} rows=${rows.slice(0, SHOWN_SMALLEST)} />
    ${rows.length > SHOWN_SMALLEST && html`<${Details} summary=${`The next ${rows.length - SHOWN_SMALLEST}`}><${Numbers} caption="Further small propensities" head=${HEAD} rows=${rows.slice(SHOWN_SMALLEST)} /></${Details}>`}</${Section}>`;
}

function Counts({ dataset }) {
  const { health } = dataset;
  const rows = (health.expected_counts || []).map((each) => ({ ...each, label: `Action ${each.action}`, ok: each.count >= each.low && each.count <= each.high }));
  const outside = rows.filter((row) => !row.ok).length;
  const never = health.actions_never_logged;
  return html`<${Section} title="Actions" note="How often each action was taken, against the sum of its propensities. In 999 of 1000 correct logs the count of an action lies in its interval.">
    ${rows.length > 0
      ? html`<${ExpectedCounts} rows=${rows} summary=${`${format.plural(rows.length, 'action')}; ${outside === 0 ? 'every count lies in its interval' : `${format.count(outside)} outside of the interval`}.`} />`
      : html`<${PlainCounts} dataset=${dataset} />`}
    ${dataset.n_actions > rows.length && rows.length > 0 && html`<p class="small muted">The ${rows.length} actions that are furthest from their expectation, of ${format.count(dataset.n_actions)}.</p>`}
    ${never.length > 0 && html`<p>Never logged: ${never.slice(0, 30).join(', ')}${never.length > 30 ? ' and others' : ''}. Nothing can be said about a policy that takes them often.</p>`}
  </${Section}>`;
}

function PlainCounts({ dataset }) {
  const counts = dataset.health.action_counts;
  const why = isMerged(dataset) ? 'Sums tell what to expect of the action that is furthest from it only; see the check above.' : 'Rows have the propensity of the logged action only, so what to expect of the others is not known.';
  const total = counts.reduce((sum, each) => sum + each, 0) || 1;
  const shown = counts.map((each, action) => [each, action]).sort((a, b) => b[0] - a[0]).slice(0, 30);
  return html`<div class="stack"><p class="muted">${why}</p>
    <${Numbers} caption="Counts of actions" head=${['action', 'rows', 'share']} rows=${shown.map(([each, action]) => [`Action ${action}`, format.count(each), format.percent(each / total)])} /></div>`;
}

const SHOWN_SHARES = 6;

function OverTime({ dataset }) {
  const { drift } = dataset.health;
  if (!drift || drift.slices.length < 2) return null;
  let end = 0;
  const x = drift.slices.map((slice) => (end += slice.rows));
  const kind = dataset.outcome.kind;
  const outcome = [{ label: `mean ${kind}`, values: drift.slices.map((slice) => format.toOutcome(slice.mean_cost, dataset.outcome)), tone: 1 }];
  const shares = drift.actions.slice(0, SHOWN_SHARES).map((action, i) => ({ label: `action ${action}`, values: drift.slices.map((slice) => slice.action_shares[i]) }));
  const change = drift.change;
  return html`<${Section} title="Over time" note=${dataset.capabilities.timestamps ? 'Rows in the order of their timestamps.' : 'Rows in the order of the file.'}>
    ${change && change.significant && html`<${Alert} tone="warn" title=${`The ${change.statistic} changes.`}>From row ${format.count(change.from_row)} to ${format.count(change.to_row)} its mean is ${format.number(change.observed)}, in the whole log ${format.number(change.expected)}.</${Alert}>`}
    <div class="columns">
      <${TimeSeries} title=${`Outcome: mean ${kind}`} summary=${`The mean ${kind} in ${x.length} slices of the log`} x=${x} xLabel="up to row" xText=${format.count} series=${outcome} />
      <${TimeSeries} title="Shares of the most frequent actions" summary=${`The shares of ${shares.length} actions in ${x.length} slices of the log`} x=${x} xLabel="up to row" xText=${format.count} yText=${(value) => format.percent(value)} series=${shares} />
    </div>
  </${Section}>`;
}
