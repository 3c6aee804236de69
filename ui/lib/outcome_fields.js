// The part of the upload form about outcomes: one unnamed outcome, or several named ones.

import { html } from './html.js';
import { Alert, Field, Table } from './components.js';
import * as format from './format.js';

const DEFAULTS = { reward: [0, 1], cost: [-1, 0] };

/** The options of the API for what the form says about outcomes. */
export function outcomeQuery(form) {
  if (form.outcomes.length === 0) return { outcome: form.outcome, outcome_min: form.min, outcome_max: form.max };
  const number = (text) => (String(text).trim() === '' ? undefined : Number(text));
  const entries = form.outcomes.map(({ name, kind, min, max, cap }) => [name, { kind, min: number(min), max: number(max), cap: number(cap) }]);
  return { outcomes: JSON.stringify(Object.fromEntries(entries)) };
}

/** Asks for the kind and the range of the outcomes, with what the first rows show. */
export function OutcomeFields({ form, set, found, problem }) {
  if (form.outcomes.length > 0) return html`<${NamedOutcomes} form=${form} set=${set} found=${found} />`;
  const [least, most] = DEFAULTS[form.outcome];
  const [min, max] = [form.min === '' ? least : Number(form.min), form.max === '' ? most : Number(form.max)];
  const outside = found.seen && (found.seen.least < min || found.seen.most > max);
  return html`<fieldset class="stack"><legend>Outcome</legend>
    <div class="form-grid">
      <${Field} label="Rows have" hint=${form.outcome === 'reward' ? 'More is better.' : 'Less is better.'}>${(a) => html`<select ...${a} value=${form.outcome} onChange=${(e) => set({ outcome: e.target.value, min: '', max: '' })}>
        <option value="reward" selected=${form.outcome === 'reward'}>a reward</option><option value="cost" selected=${form.outcome === 'cost'}>a cost</option></select>`}</${Field}>
      <${Field} label="Smallest possible" error=${problem?.field?.('outcome_min')}>${(a) => html`<input ...${a} inputmode="decimal" placeholder=${String(least)} value=${form.min} onInput=${(e) => set({ min: e.target.value })} />`}</${Field}>
      <${Field} label="Largest possible" error=${problem?.field?.('outcome_max')}>${(a) => html`<input ...${a} inputmode="decimal" placeholder=${String(most)} value=${form.max} onInput=${(e) => set({ max: e.target.value })} />`}</${Field}>
    </div>
    ${outside && html`<${Alert} tone="warn" title=${`The first rows have a ${form.outcome} from ${format.number(found.seen.least)} to ${format.number(found.seen.most)}.`}>
      <p>Say what the smallest and the largest possible ${form.outcome} are, not only those that were seen: the guarantee covers every outcome in this range. A narrower true range gives a sharper guarantee.</p></${Alert}>`}
  </fieldset>`;
}

function NamedOutcomes({ form, set, found }) {
  const change = (i, changes) => set({ outcomes: form.outcomes.map((each, j) => (i === j ? { ...each, ...changes } : each)) });
  const first = (i) => set({ outcomes: [form.outcomes[i], ...form.outcomes.filter((_, j) => j !== i)] });
  const input = (name, label) => ({ id: name, label, render: (row) => html`<input aria-label=${`${label} of ${row.name}`} inputmode="decimal" value=${row[name]} onInput=${(e) => change(form.outcomes.indexOf(row), { [name]: e.target.value })} />` });
  const seen = (row) => found.outcomes.find((each) => each.name === row.name)?.seen;
  const columns = [
    { id: 'name', label: 'Outcome', render: (row) => html`<code>${row.name}</code>` },
    { id: 'kind', label: 'Kind', render: (row) => html`<select aria-label=${`Kind of ${row.name}`} value=${row.kind} onChange=${(e) => change(form.outcomes.indexOf(row), { kind: e.target.value })}><option value="reward" selected=${row.kind === 'reward'}>reward</option><option value="cost" selected=${row.kind === 'cost'}>cost</option></select>` },
    input('min', 'Smallest possible'), input('max', 'Largest possible'), input('cap', 'Cap'),
    { id: 'seen', label: 'In the first rows', align: 'right', render: (row) => (seen(row) ? `${format.number(seen(row).least)} to ${format.number(seen(row).most)}` : '–') },
    { id: 'first', label: 'Primary', render: (row) => (row === form.outcomes[0] ? 'yes' : html`<button type="button" class="link-button" onClick=${() => first(form.outcomes.indexOf(row))}>make primary</button>`) },
  ];
  return html`<fieldset class="stack"><legend>Outcomes</legend>
    <p class="hint">The log names its outcomes. The primary one is what jobs improve unless they say otherwise; the others can be guardrails. A cap cuts extreme values, and the guarantee is then about the capped outcome.</p>
    <${Table} caption="Outcomes" columns=${columns} rows=${form.outcomes} rowKey=${(row) => row.name} param="none" /></fieldset>`;
}
