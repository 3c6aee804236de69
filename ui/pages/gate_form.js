// The form of a standing gate, to create or to change one.

import { html, useState } from '../lib/html.js';
import { Button, Details, ProblemAlert } from '../lib/components.js';
import { CodeBlock } from '../lib/code.js';
import { onceKey, post, put } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { Check, JsonField, SelectField, TextField, allShown, datasetOptions, faultOf, toNumber, toObject, useForm } from '../lib/form.js';
import { curl } from '../lib/snippets.js';

const ALLOWANCES = [
  ['accepted_checks', 'Checks that failed and were accepted', 'The submitter of the job accepted a failed check of the log.'],
  ['known_baseline', 'A known baseline', 'The submitter stated how good the deployed policy is.'],
  ['point_estimate_baseline', 'A baseline without a guarantee', 'The deployed policy is compared by its average in the log.'],
  ['fixed_logging', 'A log of one fixed policy', 'The uploader stated that one policy logged every row.'],
  ['merged_certificates', 'Merged certificates', 'Their sums were merged from partials, which this server did not recompute.'],
];
const FIELDS = ['name', 'dataset_id', 'selector', 'delta', 'allow', 'requirements.min_improvement', 'requirements.min_confidence', 'requirements.min_family_confidence', 'requirements.max_age', 'requirements.candidate', 'requirements.policy_digest', 'requirements.objective', 'requirements.guardrails'];

/** Guardrails as they are typed: complaint=0.01, return=0.02. Those of an outcome with a comma in its name cannot be, and stay as they are. */
const typed = (guardrails = []) => guardrails.every((each) => !each.outcome.includes(','));
const guardrailText = (guardrails = []) => (typed(guardrails) ? guardrails.map((each) => `${each.outcome}=${each.max_loss}`).join(', ') : '');

const KNOWN = ['min_improvement', 'min_confidence', 'min_family_confidence', 'max_age', 'version', 'baseline', 'candidate', 'policy_digest', 'objective', 'guardrails'];
const unknown = (requirements = {}) => Object.fromEntries(Object.entries(requirements).filter(([name, value]) => !KNOWN.includes(name) || (name === 'guardrails' && !typed(value))));

const initialOf = (gate) => ({
  name: gate.name || '', dataset_id: gate.dataset_id || '', selector: gate.selector && Object.keys(gate.selector).length > 0 ? JSON.stringify(gate.selector) : '',
  delta: gate.delta ?? '', allow: gate.allow || [], ...(gate.requirements || {}), guardrails: guardrailText(gate.requirements?.guardrails), others: unknown(gate.requirements),
});

/** The body that the form describes. */
function bodyOf(form, selector, changed) {
  const { min_improvement: least, min_confidence: confidence, min_family_confidence: family, max_age: age, version, baseline, candidate, policy_digest: digest, objective, guardrails } = form;
  const requirements = {
    // What this form does not know stays as it is: a change must never make a gate weaker by the way.
    ...form.others,
    min_improvement: typeof least === 'object' ? least : toNumber(least), min_confidence: toNumber(confidence), min_family_confidence: toNumber(family),
    max_age: age?.trim() || undefined, version: version || undefined, baseline: baseline || undefined, candidate: candidate?.trim() || undefined, policy_digest: digest?.trim() || undefined,
    objective: objective?.trim() || undefined, guardrails: guardrails?.split(',').map((each) => each.trim()).join(',') || form.others.guardrails,
  };
  const given = Object.values(requirements).some((value) => value !== undefined);
  return JSON.parse(JSON.stringify({
    name: changed ? undefined : form.name.trim(), dataset_id: form.dataset_id || undefined, selector, delta: toNumber(form.delta),
    requirements: given ? requirements : undefined, allow: form.allow.length > 0 ? form.allow : undefined,
  }));
}

/** `existing` is the definition to change; without it a gate is created. */
export function GateForm({ existing, initial = {}, onDone, onCancel }) {
  const [form, set] = useForm(() => initialOf(existing || initial));
  const [state, setState] = useState({});
  const datasets = useResource('/v1/datasets?limit=100');
  const selector = toObject(form.selector);
  const body = bodyOf(form, selector.value, existing);
  const { problem } = state;
  const error = (name) => faultOf(problem, name);
  const path = existing ? `/v1/gates/${existing.name}` : '/v1/gates';
  const submit = async (event) => {
    event.preventDefault();
    if (selector.fault) return setState({ selector: selector.fault });
    setState({ busy: true });
    try {
      return onDone(await (existing ? put(path, body) : post(path, body, { once: onceKey() })));
    } catch (failed) {
      return setState({ problem: failed });
    }
  };
  const text = (name, label, hint, more) => html`<${TextField} label=${label} hint=${hint} optional error=${error(`requirements.${name}`)} value=${form[name]} onChange=${(value) => set({ [name]: value })} ...${more} />`;
  const allow = (name) => (on) => set({ allow: on ? [...form.allow, name] : form.allow.filter((each) => each !== name) });
  return html`<form class="stack" onSubmit=${submit} novalidate>
    ${problem && !allShown(problem, FIELDS) && html`<${ProblemAlert} problem=${problem} />`}
    <div class="form-grid">
      ${!existing && html`<${TextField} label="Name" hint="a-z, 0-9, - and _. It is in the URL." error=${error('name')} value=${form.name} onChange=${(name) => set({ name })} />`}
      <${SelectField} label="Dataset" optional hint="Only jobs on this dataset." error=${error('dataset_id')} value=${form.dataset_id} onChange=${(id) => set({ dataset_id: id })} options=${[['', 'Any dataset'], ...datasetOptions(datasets.data?.data || [], form.dataset_id)]} />
      <${JsonField} label="Selector" rows=${1} optional hint=${'Only jobs whose metadata has these members, such as {"app": "recommender"}.'} error=${error('selector') || state.selector} value=${form.selector} onChange=${(value) => set({ selector: value })} />
      <${TextField} label="Greatest δ" optional hint="0.05 unless it is set." inputmode="decimal" error=${error('delta')} value=${form.delta} onChange=${(delta) => set({ delta })} />
    </div>
    <fieldset class="stack"><legend>Requirements</legend><div class="form-grid">
      ${text('min_improvement', 'Improvement above', 'In the units of the certificate, 0 to 1.', { inputmode: 'decimal' })}
      ${text('max_age', 'Not older than', 'Such as 12h or 7d.')}
      ${text('min_confidence', 'Confidence at least', 'Such as 0.95.', { inputmode: 'decimal' })}
      ${text('min_family_confidence', 'Confidence of all looks at least', '1 − δ unless it is set.', { inputmode: 'decimal' })}
      <${SelectField} label="Version" value=${form.version} onChange=${(version) => set({ version })} options=${[['', 'Any version of the dataset'], ['newest', 'The newest version']]} />
      <${SelectField} label="Baseline" value=${form.baseline} onChange=${(baseline) => set({ baseline })} options=${[['', 'Any that is allowed below'], ['certified', 'Certified']]} />
      ${text('candidate', 'Candidate', 'Such as logged:b, policy:ID or learned.')}
      ${text('policy_digest', 'Policy digest', 'sha256: and 64 hex digits.')}
      ${text('objective', 'Objective', 'If outcomes have names: the one that must improve. The first one unless it is set.')}
      ${text('guardrails', 'Guardrails', 'Losses that must be guaranteed, such as complaint=0.01, return=0.02.')}
    </div></fieldset>
    <fieldset class="stack"><legend>Open also to</legend><div class="form-grid">${ALLOWANCES.map(([name, label, hint]) => html`<${Check} key=${name} label=${label} hint=${hint} checked=${form.allow.includes(name)} onChange=${allow(name)} />`)}</div></fieldset>
    <p class="actions"><${Button} kind="primary" type="submit" busy=${state.busy}>${existing ? 'Change the gate' : 'Create the gate'}</${Button}>${onCancel && html`<${Button} onClick=${onCancel}>Cancel</${Button}>`}</p>
    <${Details} summary="As curl"><${CodeBlock} label="curl" text=${curl(existing ? 'PUT' : 'POST', path, body)} /></${Details}>
  </form>`;
}
