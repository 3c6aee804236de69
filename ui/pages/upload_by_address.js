// Creates a dataset from objects that the server reads where they lie, and follows their import to the dataset or to what is wrong.

import { html, useEffect, useState } from '../lib/html.js';
import { Alert, Button, Details, Facts, Field, Load, Page, ProblemAlert, ProgressBar, Section, StatusBadge } from '../lib/components.js';
import { RowFaults } from '../lib/row_faults.js';
import { OutcomeFields } from '../lib/outcome_fields.js';
import { Attestations, optionsOf, start } from '../lib/upload_options.js';
import { FORMATS } from '../lib/guess.js';
import { JsonField, SelectField, TextField, allShown, faultOf, toNumber, toObject } from '../lib/form.js';
import { onceKey, post } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { href, navigate, setQuery } from '../lib/router.js';
import * as format from '../lib/format.js';

const POLL = 1000;
const runs = (found) => found?.status === 'queued' || found?.status === 'running';
const BLANK = { name: '', format: '', encoding: '', outcome: 'reward', outcomes: [], seen: null };
const AT_FIELDS = ['name', 'format', 'source', 'outcome', 'outcome_min', 'outcome_max', 'outcomes', 'n_actions', 'hash_dims', 'logging_policy_id'];

/** The form, or with `?import=ID` the import that it started. What was typed stays for another try. */
export function ByAddress({ query }) {
  const [form, setForm] = useState(() => ({ ...start(BLANK), uris: '', materialize: true, named: '' }));
  const set = (changes) => setForm((old) => ({ ...old, ...changes }));
  const change = (found) => {
    // After a reload the import itself knows what was typed, as far as it says.
    if (!form.uris) set({ uris: found.uris.join('\n'), materialize: found.materialize, name: found.name || '', format: found.format });
    setQuery({ import: '' });
  };
  return html`<${Page} title="Read a log where it lies" crumbs=${[['Datasets', '/datasets'], ['Upload a log', '/upload']]}
    lead="The server reads the objects, row by row. If a row is wrong, nothing is stored.">
    ${query.import ? html`<${Following} key=${query.import} id=${query.import} onChange=${change} />` : html`<${Form} form=${form} set=${set} />`}
  </${Page}>`;
}

const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);

/** The request that the form describes. Numbers are sent as numbers. */
function request(form, outcomes) {
  const { n_actions: actions, hash_dims: dims, exact_propensities: exact, ...texts } = optionsOf(form);
  const one = { outcome: form.outcome, outcome_min: toNumber(form.min), outcome_max: toNumber(form.max) };
  const body = { ...texts, format: form.format, n_actions: toNumber(actions), hash_dims: toNumber(dims), exact_propensities: exact ? true : '', ...(outcomes ? { outcomes } : one) };
  const given = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== '' && value !== undefined));
  return { source: { uris: linesOf(form.uris), materialize: form.materialize }, ...given };
}

/** The fault of the addresses, with the number of the line in place of that of the member. */
function faultOfAddresses(problem) {
  const fault = problem && faultOf(problem, 'source');
  const [, index, message] = /^source\.uris\[(\d+)\]: (.*)$/s.exec(fault || '') || [];
  return index === undefined ? fault : `Address ${Number(index) + 1}: ${message}`;
}

function Form({ form, set }) {
  const [state, setState] = useState({});
  const named = toObject(form.named);
  const submit = async (event) => {
    event.preventDefault();
    if (named.fault) return;
    setState({ busy: true });
    try {
      const queued = await post('/v1/datasets', request(form, named.value), { once: onceKey() });
      navigate(href('/upload', { from: 'addresses', import: queued.id }));
    } catch (problem) {
      setState({ problem });
    }
  };
  const { busy, problem } = state;
  const shown = problem && allShown(problem, AT_FIELDS);
  return html`<form class="stack" onSubmit=${submit} aria-label="Read a log where it lies"><fieldset disabled=${busy} class="stack"><legend class="offscreen">Options</legend>
    <${Section} title="Where it is">
      <div class="stack">
        <${JsonField} label="Addresses, one per line" rows=${4} value=${form.uris} onChange=${(uris) => set({ uris })} error=${faultOfAddresses(problem)}
          hint="s3://bucket/key or file:///path, in the order of the log. * and ? stand for characters of one segment: s3://logs/2026-11-*.parquet" />
        <fieldset class="stack"><legend>The rows</legend>
          <${Choice} form=${form} set=${set} value=${true} title="Copy them into the service." text="After that the objects may change or go, and rows can be added." />
          <${Choice} form=${form} set=${set} value=${false} title="Leave them where they are, and pin the objects." text="Nothing is stored twice. Every job reads the objects again, and fails if one was changed. No rows can be added." />
        </fieldset>
        <div class="form-grid">
          <${TextField} label="Name" optional maxlength="200" value=${form.name} onChange=${(name) => set({ name })} error=${problem?.field?.('name')} />
          <${SelectField} label="Format" value=${form.format} onChange=${(id) => set({ format: id })} error=${problem?.field?.('format')} hint="Names that end with .gz or .zst are decompressed."
            options=${[['', 'As the names say'], ...FORMATS.map((each) => [each.id, each.title])]} />
        </div>
        ${!form.named.trim() && html`<${OutcomeFields} form=${form} set=${set} found=${BLANK} problem=${problem} />`}
        <${Details} summary="Rows have several outcomes with names" open=${Boolean(form.named)}>
          <${JsonField} label="Outcomes" optional value=${form.named} onChange=${(text) => set({ named: text })} error=${named.fault || (problem && faultOf(problem, 'outcomes'))}
            hint=${'The kind and the range of each, the primary one first: {"revenue": {"kind": "reward", "min": 0, "max": 100}, "complaint": {"kind": "cost"}}'} /></${Details}>
        <${Attestations} form=${form} set=${set} problem=${problem} />
      </div>
    </${Section}></fieldset>
    ${problem && !shown && html`<${ProblemAlert} problem=${problem} />`}
    ${shown && html`<${Alert} tone="bad" live title="Something above is wrong. Nothing was read." />`}
    <div class="actions"><button type="submit" class="button button-primary" disabled=${busy}>Read the log</button><a class="button button-plain" href="/upload">Upload a file instead</a></div>
  </form>`;
}

const Choice = ({ form, set, value, title, text }) => html`<label class="check"><input type="radio" name="materialize" checked=${form.materialize === value} onChange=${() => set({ materialize: value })} />
  <span><strong>${title}</strong> <span class="muted">${text}</span></span></label>`;

/** An import until it ends; then its dataset, or why there is none. */
function Following({ id, onChange }) {
  const path = `/v1/imports/${encodeURIComponent(id)}`;
  const resource = useResource(path, { every: (found) => (runs(found) ? POLL : 0) });
  const found = resource.data;
  const done = found?.status === 'succeeded';
  useEffect(() => {
    if (done) navigate(href(`/datasets/${found.id}`, { uploaded: 1 }), { replace: true });
  }, [done]);
  const again = html`<${Button} onClick=${() => onChange(found)}>Change it and try again</${Button}>`;
  return html`<${Load} resource=${resource}>${(data) => html`
    ${runs(data) && html`<${Reading} found=${data} refresh=${resource.refresh} />`}
    ${data.status === 'cancelled' && html`<${Alert} live title="The import was canceled. Nothing was stored." actions=${again} />`}
    ${data.status === 'failed' && html`<${Failed} found=${data} again=${again} />`}
    <${About} found=${data} />`}</${Load}>`;
}

function Reading({ found, refresh }) {
  const [state, setState] = useState({});
  const cancel = async () => {
    setState({ busy: true });
    try {
      await post(`/v1/imports/${found.id}/cancel`);
    } catch (problem) {
      // If it has just ended, what became of it is shown next.
      if (problem.code !== 'import_finished') return void setState({ problem });
    }
    setState({ asked: true });
    return refresh();
  };
  const { objects = 0, bytes = 0, bytes_read: read = 0 } = found.progress || {};
  const told = state.asked ? 'It stops within a second…' : found.status === 'queued' ? 'It waits for a worker.'
    : objects === 0 ? 'Looking for the objects…' : `${format.bytes(read)} of ${format.bytes(bytes)} read, in ${format.plural(objects, 'object')}`;
  return html`<${Section} title=${found.status === 'queued' ? 'Waiting' : 'Reading'} actions=${html`<${Button} kind="danger" icon="cross" busy=${state.busy} disabled=${state.asked} onClick=${cancel}>Cancel</${Button}>`}>
    <div class="stack"><${ProgressBar} value=${bytes > 0 ? read / bytes : undefined} label="Import" /><p role="status">${told}</p>
      <p class="muted small">It goes on if this page is closed.</p><${ProblemAlert} problem=${state.problem} /></div></${Section}>`;
}

function Failed({ found, again }) {
  const error = found.error || { message: 'No reason was recorded.', errors: [] };
  const object = error.uri && html`<p class="wrap-any">Object: <code>${error.uri}</code></p>`;
  if (error.errors?.some((fault) => fault.row != null)) {
    const lines = found.format !== 'parquet' && found.format !== 'arrow_stream';
    return html`<${RowFaults} problem=${{ errors: error.errors, detail: error.message }} lines=${lines} actions=${again}>${object}</${RowFaults}>`;
  }
  return html`<${Alert} tone="bad" live title="The log was not read. Nothing was stored." actions=${again}>
    <p class="wrap-any">${error.message}</p>${object}<p class="muted small">Code <code>${error.code}</code></p></${Alert}>`;
}

const About = ({ found }) => html`<${Section} title="The import"><${Facts} items=${[
  ['State', html`<${StatusBadge} status=${found.status} />`],
  ['Addresses', html`<span class="wrap-any">${found.uris.map((uri) => html`<div><code>${uri}</code></div>`)}</span>`],
  ['Rows', found.materialize ? 'are copied' : 'stay in the objects, which are pinned'],
  ['Format', found.format],
  ['Name', found.name],
  ['Submitted by', found.submitted_by],
  ['Attempt', found.attempt > 1 ? format.count(found.attempt) : undefined],
]} /></${Section}>`;
