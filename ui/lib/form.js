// What forms share: values in one object, errors of the server at their fields, JSON in a text area.

import { html, useState } from './html.js';
import { Field } from './components.js';

/** The message of a problem about a field or a part of it: `candidates` also has that of `candidates[0].policy_id`. */
export function faultOf(problem, name) {
  const own = problem?.errors.find(({ field }) => field === name || field?.startsWith(`${name}.`) || field?.startsWith(`${name}[`));
  return own && (own.field === name ? own.message : `${own.field}: ${own.message}`);
}

/** Whether every fault of a problem is shown at one of these fields. */
export const allShown = (problem, names) => problem.errors.length > 0 && problem.errors.every((error) => names.some((name) => faultOf({ errors: [error] }, name)));

/** The values of a form, and a function that changes some of them. */
export function useForm(initial) {
  const [values, setValues] = useState(initial);
  return [values, (changes) => setValues((old) => ({ ...old, ...changes })), setValues];
}

/** A number as it is sent: undefined if the field is empty, the text itself if it is no number, so that the server says what is wrong. */
export function toNumber(text) {
  const given = String(text ?? '').trim();
  if (given === '') return undefined;
  const value = Number(given);
  return Number.isFinite(value) ? value : given;
}

/** A JSON object from a text: `{ value }` or `{ fault }`. Empty is no object. */
export function toObject(text) {
  if (!text?.trim()) return {};
  try {
    const value = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return { fault: 'must be an object: {"name": "value"}' };
    return { value };
  } catch (error) {
    return { fault: `is not JSON: ${error.message}` };
  }
}

/** A field with one line of text. */
export const TextField = ({ label, hint, error, optional, value, onChange, ...rest }) => html`<${Field} label=${label} hint=${hint} error=${error} optional=${optional}>
  ${(attributes) => html`<input type="text" autocomplete="off" spellcheck="false" ...${attributes} ...${rest} value=${value ?? ''} onInput=${(event) => onChange(event.target.value)} />`}</${Field}>`;

/** A field with a choice: `options` are `[value, text]`. */
export const SelectField = ({ label, hint, error, optional, value = '', options, onChange }) => html`<${Field} label=${label} hint=${hint} error=${error} optional=${optional}>
  ${(attributes) => html`<select ...${attributes} value=${value} onChange=${(event) => onChange(event.target.value)}>${options.map(([id, text]) => html`<option value=${id} selected=${id === value}>${text}</option>`)}</select>`}</${Field}>`;

/** A field with several lines, for JSON. */
export const JsonField = ({ label, hint, error, optional, value, onChange, rows = 3 }) => html`<${Field} label=${label} hint=${hint} error=${error} optional=${optional}>
  ${(attributes) => html`<textarea ...${attributes} rows=${rows} spellcheck="false" value=${value ?? ''} onInput=${(event) => onChange(event.target.value)}></textarea>`}</${Field}>`;

/** A box to tick with what it means. */
export const Check = ({ label, hint, checked, onChange, disabled }) => html`<label class="check"><input type="checkbox" checked=${checked} disabled=${disabled} onChange=${(event) => onChange(event.target.checked)} />
  <span>${label}${hint && html`<br /><span class="hint">${hint}</span>`}</span></label>`;

/** A choice of datasets: the newest, and whichever is chosen. */
export function datasetOptions(datasets, chosen) {
  const name = (dataset) => `${dataset.name || 'unnamed'} (${dataset.id.slice(-8)}, ${dataset.rows.toLocaleString('en-US')} rows)`;
  const known = datasets.map((dataset) => [dataset.id, name(dataset)]);
  return chosen && !known.some(([id]) => id === chosen) ? [[chosen, chosen], ...known] : known;
}
