// The result of a job: the numbers, the way from the estimate to the guarantee, the reasons and the plan.

import { html } from '../lib/html.js';
import { Alert, Badge, Button, DecisionBadge, Details, Facts, Section, Stat, Stats, Table } from '../lib/components.js';
import { ForestPlot, IntervalPlot, Numbers, Waterfall } from '../lib/charts/index.js';
import { breakdownOf, candidateName, candidatePolicy, standsInTheWay, unitsOf } from '../lib/certificate.js';
import { href } from '../lib/router.js';
import * as format from '../lib/format.js';

/** The result of a finished job. */
export function Result({ job, certificate }) {
  const units = unitsOf(certificate.user_units?.outcome);
  const breakdown = breakdownOf(certificate);
  return html`<${Headline} certificate=${certificate} units=${units} breakdown=${breakdown} />
    <div class="columns"><div class="stack"><${Interval} certificate=${certificate} units=${units} breakdown=${breakdown} /><${Reasons} reasons=${certificate.reasons} /></div>
      <div class="stack">${breakdown && html`<${Way} certificate=${certificate} units=${units} breakdown=${breakdown} />`}
        ${certificate.decision === 'keep' && html`<${Plan} job=${job} certificate=${certificate} />`}</div></div>
    ${certificate.guardrails?.length > 0 && html`<${Guardrails} guardrails=${certificate.guardrails} />`}
    ${certificate.candidates.length > 0 && html`<${Candidates} certificate=${certificate} units=${units} />`}
    <${Policy} job=${job} certificate=${certificate} />`;
}

function Headline({ certificate, units, breakdown }) {
  const outcome = certificate.user_units?.outcome;
  const blocked = standsInTheWay(certificate);
  const enough = certificate.guaranteed_improvement > certificate.min_improvement && blocked?.reliable !== false;
  const meaning = blocked?.reliable === false ? 'not to be relied on' : certificate.guaranteed_improvement < 0 ? 'it may be worse by so much' : 'at least so much better';
  const inUnits = (value) => (units.plain ? null : `${units.text(units.of(value))} of ${units.name}`);
  const both = (value, help) => [inUnits(value), help].filter(Boolean).join('; ');
  return html`<${Stats}>
    <${Stat} label="Guaranteed improvement" value=${format.signed(certificate.guaranteed_improvement, 4)} tone=${enough ? 'good' : 'warn'} help=${both(certificate.guaranteed_improvement, meaning)} />
    <${Stat} label="Required" value=${`> ${format.number(certificate.min_improvement)}`} help=${both(certificate.min_improvement, 'min_improvement of the job')} />
    ${breakdown && html`<${Stat} label="Estimate" value=${format.signed(breakdown.estimate, 4)} help=${both(breakdown.estimate, 'without a guarantee')} />`}
    <${Stat} label="Confidence" value=${format.confidence(certificate.confidence)} help="that all of the certificate is true" />
    ${outcome && html`<${Stat} label=${`Guaranteed ${outcome.kind}`} value=${format.number(certificate.user_units.guaranteed_outcome)} help=${`${outcome.kind === 'reward' ? 'at least' : 'at most'}; now ${format.number(certificate.user_units.baseline_outcome)} in the log`} />`}
  </${Stats}>`;
}

/** One picture: what is deployed, the estimate, the guarantee, what is required. */
function Interval({ certificate, units, breakdown }) {
  const { of, text } = units;
  const enough = certificate.guaranteed_improvement > certificate.min_improvement;
  const low = of(certificate.guaranteed_improvement);
  const need = of(certificate.min_improvement);
  const rows = [
    { label: 'deployed', point: 0, tone: 6 },
    { label: 'this policy', low, point: breakdown ? of(breakdown.estimate) : undefined, tone: enough && certificate.decision === 'deploy' ? 'good' : 'warn' },
  ];
  const blocked = standsInTheWay(certificate);
  const found = low < 0 ? `No improvement is guaranteed: the policy may be worse than the deployed one by ${text(-low).replace('+', '')}.` : `The policy is better than the deployed one by at least ${text(low)}.`;
  const verdict = !enough ? 'not enough' : blocked ? `enough by itself, but ${blocked.why}` : 'enough';
  const summary = blocked?.reliable === false ? format.sentence(blocked.why) : `${found} Required is more than ${text(need)}, so this is ${verdict}.`;
  return html`<${Section} title="Is it enough?" note=${summary}>
    <${IntervalPlot} summary=${summary} rows=${rows} marks=${[{ value: need, label: 'required' }]} text=${text} label=${`improvement of the expected ${units.name}`} />
    ${blocked?.reliable !== false && html`<p class="small muted">The thick line is the guarantee: the policy is right of it with ${format.confidence(certificate.confidence)} confidence. The dot is the estimate.</p>`}
  </${Section}>`;
}

/** The waterfall from the estimate to the guarantee. */
function Way({ certificate, units, breakdown }) {
  const { of, text } = units;
  const steps = breakdown.steps.map((step) => ({ ...step, change: of(step.change) }));
  const most = steps.reduce((worst, step) => (step.change < (worst?.change ?? 0) ? step : worst), null);
  const gap = certificate.min_improvement - certificate.guaranteed_improvement;
  const price = most ? ` The largest step is “${most.label}”: ${text(most.change)}.` : '';
  const missing = gap >= 0 && standsInTheWay(certificate)?.reliable !== false ? ` ${units.text(of(gap)).replace('+', '')} is missing to what is required.` : '';
  const summary = `From the estimate ${text(of(breakdown.estimate))} to the guarantee ${text(of(breakdown.guaranteed))}.${price}${missing}`;
  return html`<${Section} title=${gap >= 0 ? 'Why keep?' : 'What the guarantee costs'} note=${summary}>
    <${Waterfall} summary=${summary} start=${{ label: 'Estimate', value: of(breakdown.estimate) }} steps=${steps} end=${{ label: 'Guaranteed', value: of(breakdown.guaranteed) }}
      required=${of(certificate.min_improvement)} text=${text} label=${`improvement of the expected ${units.name}`} />
    ${steps.some((step) => step.what) && html`<ul class="small muted">${steps.map((step) => step.what && html`<li><strong>${step.label}.</strong> ${step.what}</li>`)}</ul>`}
  </${Section}>`;
}

const Reasons = ({ reasons }) => html`<${Section} title="Reasons"><ul class="reasons">${reasons.map((reason) => html`<${Reason} reason=${reason} />`)}</ul></${Section}>`;

function Reason({ reason }) {
  const numbers = Object.entries(reason.numbers || {});
  const outcome = reason.outcome;
  return html`<li><p><strong>${format.words(reason.code.replace(':', ': '))}</strong>${outcome && html` <${Badge}>${outcome}</${Badge}>`}</p><p>${format.sentence(reason.message)}</p>
    ${numbers.length > 0 && html`<${Details} summary="Numbers"><${Numbers} caption=${`Numbers of ${reason.code}`} head=${['', 'value']} rows=${numbers.map(([name, value]) => [format.words(name), format.number(value, 6)])} /></${Details}>`}</li>`;
}

/** How much longer: what would be enough for a deploy. */
function Plan({ job, certificate }) {
  const { plan } = certificate;
  if (!plan) {
    return html`<${Section} title="How much longer?"><p>This certificate has no plan: an earlier release issued it. <a href=${href('/jobs/new', { from: job.id })}>Submit the job again</a> to get one.</p></${Section}>`;
  }
  const way = (found, name) => found && [name, format.count(found.rows)];
  const facts = [
    way(plan.fresh, 'Rows, if they are certified alone'),
    way(plan.pooled, 'Rows, if they are added to these'),
    plan.rows_per_day && ['Rows per day now', format.count(plan.rows_per_day)],
    plan.days && ['Days at that rate', format.number(plan.days, 2)],
    ['For an improvement of more than', plan.min_improvement === 0 ? '0' : format.bothUnits(plan.min_improvement, certificate.user_units?.outcome)],
    ['Chance that it is then enough', format.percent(plan.power, 0)],
  ];
  const exploration = plan.exploration || [];
  return html`<${Section} title="How much longer?" tone=${plan.possible ? undefined : 'warn'}>
    <p class="plan-rows">${plan.possible && plan.rows ? `About ${format.count(Number(plan.rows.toPrecision(2)))} more rows` : 'More rows alone will not do'}</p>
    <p>${plan.message}</p>
    ${plan.possible && html`<${Facts} items=${facts.filter(Boolean)} />`}
    ${exploration.length > 0 && html`<${Details} summary="With more exploration"><${Numbers} caption="Rows by exploration" head=${['share of exploration', 'rows']} rows=${exploration.map((each) => [format.percent(each.share), format.count(each.rows)])} /></${Details}>`}
    ${plan.possible && html`<p class="actions"><${Button} icon="upload" href=${href('/upload', { to: job.spec.dataset_id })}>Add rows</${Button}></p>`}
  </${Section}>`;
}

/** A loss in the paper's units and, if they are others, in those of its outcome. */
function Loss({ row, name }) {
  const own = row.user_units?.[name];
  const { outcome } = row.user_units || {};
  return html`<span class="stack-tight"><span>${format.fixed(row[name], 4)}</span>${outcome && outcome.max - outcome.min !== 1 && html`<span class="muted small">${format.number(own)} of ${outcome.kind}</span>`}</span>`;
}

function Guardrails({ guardrails }) {
  const columns = [
    { id: 'outcome', label: 'Outcome', render: (row) => html`<span class="wrap-any">${row.outcome}</span>` },
    { id: 'ok', label: 'Guaranteed', render: (row) => (row.ok ? html`<${Badge} tone="good" icon="check">Yes</${Badge}>` : html`<${Badge} tone="warn" icon="hold">No</${Badge}>`) },
    { id: 'guaranteed', label: 'Loss is at most', align: 'right', render: (row) => html`<${Loss} row=${row} name="guaranteed_loss" />` },
    { id: 'max', label: 'Allowed', align: 'right', render: (row) => html`<${Loss} row=${row} name="max_loss" />` },
    { id: 'estimated', label: 'Estimated', align: 'right', render: (row) => html`<${Loss} row=${row} name="estimated_loss" />` },
  ];
  return html`<${Section} title="Guardrails" note="Each of these outcomes may get worse by no more than is allowed. The decision is deploy only if that is guaranteed for all of them.">
    <${Table} caption="Guardrails" columns=${columns} rows=${guardrails} rowKey=${(row) => row.outcome} param="none" /></${Section}>`;
}

function Candidates({ certificate, units }) {
  const { of, text } = units;
  const estimate = (row) => row.estimated_improvement ?? certificate.baseline_risk.estimate - row.estimated_risk;
  const rows = certificate.candidates.map((row) => ({
    label: candidateName(row.candidate), estimate: of(estimate(row)), guaranteed: of(row.guaranteed_improvement), ok: row.decision === 'deploy',
  }));
  const good = rows.filter((row) => row.ok).length;
  const summary = `${good} of ${format.plural(rows.length, 'candidate')} can be deployed. All statements hold together with ${format.confidence(certificate.confidence)} confidence.`;
  const columns = [
    { id: 'candidate', label: 'Candidate', render: (row) => html`<${CandidateLink} candidate=${row.candidate} />` },
    { id: 'decision', label: 'Decision', render: (row) => html`<${DecisionBadge} decision=${row.decision} />` },
    { id: 'guaranteed', label: 'Guaranteed', align: 'right', sort: (row) => row.guaranteed_improvement, render: (row) => format.signed(row.guaranteed_improvement, 4) },
    { id: 'estimate', label: 'Estimate', align: 'right', sort: estimate, render: (row) => format.signed(estimate(row), 4) },
    { id: 'why', label: 'Why', render: (row) => html`<span class="small">${(row.reasons || []).map((reason) => format.sentence(reason.message)).join(' ') || '–'}</span>` },
  ].filter((column) => column.id !== 'why' || certificate.candidates.some((row) => row.reasons?.length > 0));
  return html`<${Section} title="Candidates" note=${summary}>
    <${ForestPlot} summary=${summary} rows=${rows} required=${of(certificate.min_improvement)} text=${text} />
    <${Table} caption="Candidates" columns=${columns} rows=${certificate.candidates} rowKey=${(row) => row.candidate} param="candidates" /></${Section}>`;
}

/** A candidate, with a link if it is a stored policy. */
export function CandidateLink({ candidate }) {
  const id = candidatePolicy(candidate);
  return id ? html`<a href=${`/policies/${id}`}>${candidateName(candidate)}</a>` : html`<span class="wrap-any">${candidateName(candidate)}</span>`;
}

function Policy({ job, certificate }) {
  const { exploration, policy, learning } = certificate;
  const id = job.result?.policy_id || candidatePolicy(certificate.candidate);
  const facts = [
    id && ['Policy', html`<a class="mono" href=${`/policies/${id}`}>${format.short(id)}</a>`],
    certificate.candidate && ['The numbers above are about', candidateName(certificate.candidate)],
    policy && ['Form', `${format.words(policy.kind)}, ${format.plural(policy.n_actions, 'action')}, ${format.plural(policy.dim, 'feature')}`],
    certificate.certified && ['Certified on', format.plural(certificate.certified.rows, 'row')],
    ['Dataset', html`<a href=${`/datasets/${job.spec.dataset_id}`}>version ${job.spec.dataset_version}</a>, ${format.plural(certificate.dataset.rows, 'row')}`],
    exploration && ['Exploration', `${format.percent(exploration.share)} ${exploration.with}, which costs about ${format.number(exploration.estimated_cost, 2)}`],
    certificate.objective && ['Objective', certificate.objective],
  ];
  return html`<${Section} title="What was certified"><${Facts} items=${facts.filter(Boolean)} />
    ${learning?.choices?.length > 0 && html`<${Details} summary="What learning chose"><ul>${learning.choices.map((choice) => html`<li>${format.sentence(choice)}</li>`)}</ul></${Details}>`}
    ${exploration?.share === 0 && html`<${Alert} tone="warn" title="The policy does not explore.">${exploration.note}</${Alert}>`}</${Section}>`;
}
