// A new job: the specification as a form, what the dataset supports, and the same as a curl command, live.

import { html, useEffect, useState } from '../lib/html.js';
import { Alert, Button, Details, Facts, Loading, Page, ProblemAlert, Section } from '../lib/components.js';
import { CodeBlock } from '../lib/code.js';
import { onceKey, post } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { navigate, setQuery } from '../lib/router.js';
import { JsonField, SelectField, TextField, allShown, datasetOptions, faultOf, toObject, useForm } from '../lib/form.js';
import { EMPTY, OWN, acceptsUnits, bodyOf, formOf, furtherFields, outcomeOf } from '../lib/spec.js';
import { isMerged } from '../lib/health.js';
import { curl } from '../lib/snippets.js';
import * as format from '../lib/format.js';
import { Candidates, Guardrails } from './new_job_parts.js';

/** A new job, empty or like another one (`?from=`). */
export function NewJob({ query }) {
  const other = useResource(query.from ? `/v1/jobs/${encodeURIComponent(query.from)}` : null);
  const ready = !query.from || other.data || other.problem;
  return html`<${Page} title="New job" crumbs=${[['Jobs', '/jobs']]} lead="What a job should learn or check, and how much better is worth a rollout. Fields that you leave empty have defaults.">
    ${other.problem && html`<${ProblemAlert} problem=${other.problem} title="The other job cannot be read" />`}
    ${ready ? html`<${Form} key=${query.from} start=${other.data ? formOf(other.data) : { ...EMPTY, dataset_id: query.dataset_id || '' }} />` : html`<${Loading} />`}
  </${Page}>`;
}

function Form({ start }) {
  const [form, set] = useForm(start);
  const [state, setState] = useState({});
  const datasets = useResource('/v1/datasets?limit=100');
  const dataset = useResource(form.dataset_id ? `/v1/datasets/${encodeURIComponent(form.dataset_id)}` : null);
  const document = useResource('/openapi.json');
  const chosen = dataset.data;
  const units = acceptsUnits(document.data);
  const [metadata, more] = [toObject(form.metadata), toObject(form.more)];
  const body = bodyOf(form, { dataset: chosen, units, metadata: metadata.value, more: more.value });
  // One dataset needs no choice.
  const only = datasets.data?.data.length === 1 ? datasets.data.data[0].id : '';
  useEffect(() => {
    if (only && !form.dataset_id) set({ dataset_id: only });
  }, [only]);
  const fields = furtherFields(document.data);
  const submit = async (event) => {
    event.preventDefault();
    if (metadata.fault || more.fault) return setState({ metadata: metadata.fault, more: more.fault });
    setState({ busy: true });
    try {
      const job = await post('/v1/jobs', body, { once: onceKey() });
      return navigate(`/jobs/${job.id}`);
    } catch (problem) {
      return setState({ problem });
    }
  };
  useEffect(() => {
    if (state.problem) window.document.querySelector('[aria-invalid], .alert-bad')?.focus?.();
  }, [state.problem]);
  const error = (name) => faultOf(state.problem, name);
  const hidden = state.problem && !allShown(state.problem, [...OWN, ...fields.map((field) => field.name)]);
  const choose = (id) => {
    set({ dataset_id: id, logged: [], objective: '', guardrails: [] });
    setQuery({ dataset_id: id, from: '' });
  };
  if (datasets.data?.data.length === 0 && !form.dataset_id) {
    return html`<${Alert} title="A job needs a log." actions=${html`<${Button} kind="primary" icon="upload" href="/upload">Upload a log</${Button}>`}>There are no datasets yet.</${Alert}>`;
  }
  return html`<form class="new-job" onSubmit=${submit} novalidate><div class="stack">
      ${hidden && html`<${ProblemAlert} problem=${state.problem} />`}
      <${Section} title="What"><div class="stack">
        <${SelectField} label="Dataset" error=${error('dataset_id')} value=${form.dataset_id} onChange=${choose} options=${[['', 'Choose one…'], ...datasetOptions(datasets.data?.data || [], form.dataset_id)]} />
        <${Kind} form=${form} set=${set} dataset=${chosen} error=${error('kind')} />
        ${form.kind === 'evaluate' && html`<${Candidates} form=${form} set=${set} dataset=${chosen} error=${error('candidates') || error('independent_of_log')} />`}
      </div></${Section}>
      <${Section} title="How much better"><${Required} form=${form} set=${set} dataset=${chosen} error=${error} />
        ${(chosen?.capabilities.outcomes?.length > 1) && html`<${Guardrails} form=${form} set=${set} dataset=${chosen} error=${error('guardrails')} />`}</${Section}>
      <${Section} title="Further fields"><div class="stack">
        <${JsonField} label="Metadata" rows=${2} optional hint=${'Labels of your own, such as {"app": "recommender"}. Standing gates select jobs by them.'} error=${error('metadata') || state.metadata} value=${form.metadata} onChange=${(value) => set({ metadata: value })} />
        <${Further} form=${form} set=${set} fields=${fields} error=${error} fault=${state.more} open=${Boolean(form.more) || fields.some((field) => error(field.name))} />
      </div></${Section}>
      <p class="actions"><${Button} kind="primary" type="submit" busy=${state.busy}>Start the job</${Button}></p>
    </div>
    <div class="stack aside"><${Section} title="The same as a command" note="It changes with the form. What it answers is what the button does."><${CodeBlock} label="curl" wrap text=${curl('POST', '/v1/jobs', body)} /></${Section}>
      ${chosen && html`<${Supports} dataset=${chosen} />`}</div>
  </form>`;
}

const KINDS = [
  ['learn', 'Learn a policy', 'Learns a policy from the log, and certifies it on rows that it did not learn from.'],
  ['evaluate', 'Check policies that you have', 'Certifies policies of the log or of this server against the deployed one.'],
];

function Kind({ form, set, dataset, error }) {
  const blind = dataset && !dataset.capabilities.features && !dataset.capabilities.action_sets;
  return html`<fieldset class="stack"><legend>Kind</legend>
    ${KINDS.map(([id, label, hint]) => html`<label class="check" key=${id}><input type="radio" name="kind" value=${id} checked=${form.kind === id} onChange=${() => set({ kind: id })} />
      <span>${label}<br /><span class="hint">${hint}${id === 'learn' && blind ? ' This log has no features, so there is nothing to learn from.' : ''}</span></span></label>`)}
    ${error && html`<p class="field-error">${error}</p>`}</fieldset>`;
}

/** δ, and the improvement in either unit. */
function Required({ form, set, dataset, error }) {
  const delta = form.delta === '' ? 0.05 : Number(form.delta);
  const named = dataset?.capabilities.outcomes || [];
  const outcome = outcomeOf(dataset, form.objective);
  const range = outcome ? outcome.max - outcome.min : 1;
  const value = Number(form.amount || 0);
  const other = form.unit === 'outcome' ? `${format.number(value / range)} of the range` : `${format.number(value * range)} of ${outcome?.kind}`;
  const both = outcome && range !== 1 && form.amount !== '' && Number.isFinite(value) ? ` That is ${other}.` : '';
  const options = [['risk', 'of the range, 0 to 1'], ['outcome', outcome ? `of ${outcome.kind}, in its own units` : 'in units of the outcome']];
  return html`<div class="form-grid">
    ${named.length > 0 && html`<${SelectField} label="Objective" hint="The outcome to improve." error=${error('objective')} value=${form.objective} onChange=${(objective) => set({ objective, guardrails: form.guardrails.filter((each) => each.outcome !== (objective || named[0].name)) })}
      options=${[['', `${named[0].name} (primary)`], ...named.slice(1).map((each) => [each.name, each.name])]} />`}
    <${TextField} label="Improve by more than" inputmode="decimal" hint=${`0 unless it is set.${both}`} error=${error('min_improvement')} value=${form.amount} onChange=${(amount) => set({ amount })} />
    <${SelectField} label="Unit of the improvement" value=${form.unit} onChange=${(unit) => set({ unit })} options=${options} />
    <${TextField} label="δ, the probability of being wrong" inputmode="decimal" hint=${`0.05 unless it is set. The confidence is ${delta > 0 && delta < 1 ? format.confidence(1 - delta) : '1 − δ'}.`} error=${error('delta')} value=${form.delta} onChange=${(value) => set({ delta: value })} />
  </div>`;
}

function Further({ form, set, fields, error, fault, open }) {
  const change = (name) => (value) => set({ further: { ...form.further, [name]: value } });
  const field = ({ name, hint, options }) => (options
    ? html`<${SelectField} key=${name} label=${format.words(name)} optional hint=${hint} error=${error(name)} value=${form.further[name] || ''} onChange=${change(name)} options=${[['', 'default'], ...options.map((each) => [each, each])]} />`
    : html`<${TextField} key=${name} label=${format.words(name)} optional hint=${hint} error=${error(name)} value=${form.further[name] || ''} onChange=${change(name)} />`);
  return html`<${Details} summary="How it is computed" open=${open}><div class="stack"><div class="form-grid">${fields.map(field)}</div>
    <${JsonField} label="Everything else" optional rows=${4} hint=${'Further fields of the specification as JSON: prior, baseline, optimizer, family, accept.'} error=${fault} value=${form.more} onChange=${(more) => set({ more })} /></div></${Details}>`;
}

/** What the dataset supports, before anybody is told that it does not. */
function Supports({ dataset }) {
  const { capabilities: can, outcome } = dataset;
  const ledger = useResource(`/v1/datasets/${dataset.id}/ledger?limit=1`).data;
  const outcomes = can.outcomes || [];
  return html`<${Section} title="What this dataset supports">${isMerged(dataset) && html`<${Alert} tone="warn" title="Nothing: its rows are elsewhere.">It was merged from partials. Choose another dataset, or merge other partials.</${Alert}>`}<${Facts} items=${[
    ['Rows', format.count(dataset.rows)],
    ['Outcome', outcomes.length > 0 ? outcomes.map((each) => `${each.name} (${each.kind})`).join(', ') : `${outcome.kind}, ${format.number(outcome.min)} to ${format.number(outcome.max)}`],
    ['Learning', can.features || can.action_sets ? 'yes, rows have features' : 'no, rows have no features'],
    ['Propensities of all actions', can.full_propensities || can.uniform ? 'yes, every bound can be used' : 'no, some bounds cannot be used'],
    ['Candidates in the log', can.candidates.length > 0 ? can.candidates.join(', ') : 'none'],
    ['Logged by', dataset.logging === 'fixed' ? 'one fixed policy, as stated' : 'a policy that may have changed'],
    ['Looks so far', ledger && (ledger.looks > 0 ? `${format.count(ledger.looks)}; together they hold with ${format.confidence(ledger.family_wise_confidence)}` : 'none')],
  ]} /><p><a href=${`/datasets/${dataset.id}`}>More about the dataset</a></p></${Section}>`;
}
