// Parts of the form of a new job: which policies to check, and which outcomes may not get worse.

import { html } from '../lib/html.js';
import { Button, Icon } from '../lib/components.js';
import { useResource } from '../lib/events.js';
import { Check, SelectField, TextField } from '../lib/form.js';
import * as format from '../lib/format.js';

const toggled = (list, item, on) => (on ? [...list, item] : list.filter((each) => each !== item));

/** The candidates: those that the log carries, and stored policies of the same shape. */
export function Candidates({ form, set, dataset, error }) {
  const policies = useResource('/v1/policies?limit=100');
  const logged = dataset?.capabilities.candidates || [];
  const sets = Boolean(dataset?.capabilities.action_sets);
  const fits = (policy) => !dataset || (sets ? policy.n_actions === 0 : policy.n_actions === dataset.n_actions && policy.dim === dataset.dim);
  const stored = (policies.data?.data || []).filter((policy) => fits(policy) || form.policies.includes(policy.id));
  const label = (policy) => html`policy <span class="mono">${format.short(policy.id)}</span>, ${format.words(policy.kind).toLowerCase()}${policy.source_job_id ? `, learned by job ${format.short(policy.source_job_id)}` : ', uploaded'}`;
  return html`<fieldset class=${error ? 'stack field-bad' : 'stack'}><legend>Candidates</legend>
    ${logged.map((name) => html`<${Check} key=${name} label=${html`<strong>${name}</strong>, from the log`} checked=${form.logged.includes(name)} onChange=${(on) => set({ logged: toggled(form.logged, name, on) })} />`)}
    ${stored.map((policy) => html`<${Check} key=${policy.id} label=${label(policy)} checked=${form.policies.includes(policy.id)} onChange=${(on) => set({ policies: toggled(form.policies, policy.id, on) })} />`)}
    ${logged.length + stored.length === 0 && html`<p class="hint">The log carries no candidates, and no stored policy has its shape. Learn a policy, or upload one.</p>`}
    ${error && html`<p class="field-error"><${Icon} name="warn" size=${14} /> ${error}</p>`}
    <${Check} label="No candidate was learned from these rows" hint="The guarantee depends on it. Policies that this server learned from the dataset are refused." checked=${form.independent} onChange=${(independent) => set({ independent })} />
  </fieldset>`;
}

/** Outcomes that may not get worse by more than an amount. */
export function Guardrails({ form, set, dataset, error }) {
  const outcomes = dataset.capabilities.outcomes.filter((each) => each.name !== (form.objective || dataset.capabilities.outcomes[0].name));
  const free = outcomes.filter((each) => !form.guardrails.some((rail) => rail.outcome === each.name));
  const change = (i, changes) => set({ guardrails: form.guardrails.map((each, at) => (at === i ? { ...each, ...changes } : each)) });
  return html`<fieldset class="stack guardrails"><legend>Guardrails</legend>
    <p class="hint">Outcomes that may get worse by no more than an amount. The decision is deploy only if that is guaranteed too.</p>
    ${form.guardrails.map((rail, i) => html`<div class="form-grid" key=${rail.outcome}>
      <${SelectField} label="Outcome" value=${rail.outcome} onChange=${(outcome) => change(i, { outcome })} options=${outcomes.filter((each) => each.name === rail.outcome || free.includes(each)).map((each) => [each.name, each.name])} />
      <${TextField} label="May lose at most" inputmode="decimal" value=${rail.amount} onChange=${(amount) => change(i, { amount })} />
      <${SelectField} label="Unit of the loss" value=${rail.unit} onChange=${(unit) => change(i, { unit })} options=${[['risk', 'of the range, 0 to 1'], ['outcome', 'in its own units']]} />
      <p class="actions"><${Button} icon="trash" onClick=${() => set({ guardrails: form.guardrails.filter((_, at) => at !== i) })}>Remove</${Button}></p></div>`)}
    ${error && html`<p class="field-error"><${Icon} name="warn" size=${14} /> ${error}</p>`}
    ${free.length > 0 && html`<p class="actions"><${Button} icon="plus" onClick=${() => set({ guardrails: [...form.guardrails, { outcome: free[0].name, amount: '0', unit: 'risk' }] })}>Add a guardrail</${Button}></p>`}
  </fieldset>`;
}
