// Uploads a log: a file, the guessed options, progress, and row errors with what to fix.

import { html, useEffect, useRef, useState } from '../lib/html.js';
import { Alert, Button, Field, Page, ProblemAlert, ProgressBar, Section } from '../lib/components.js';
import { Dropzone } from '../lib/dropzone.js';
import { RowFaults } from '../lib/row_faults.js';
import { OutcomeFields, outcomeQuery } from '../lib/outcome_fields.js';
import { Attestations, optionsOf, start } from '../lib/upload_options.js';
import { ENCODINGS, FORMATS, guess } from '../lib/guess.js';
import { onceKey, upload } from '../lib/api.js';
import { href, navigate } from '../lib/router.js';
import { take } from '../lib/pending.js';
import * as format from '../lib/format.js';
import { ByAddress } from './upload_by_address.js';

/** The page that creates a dataset: from a file, or with `?from=addresses` from objects that the server reads. With `?to=ID` it appends. */
export function Upload({ query }) {
  return query.from === 'addresses' ? html`<${ByAddress} query=${query} />` : html`<${FromFile} query=${query} />`;
}

function FromFile({ query }) {
  const [chosen, setChosen] = useState(null);
  const [failed, setFailed] = useState(null);
  const choose = async (file) => {
    setFailed(null);
    try {
      const found = await guess(file);
      setChosen({ file, found });
    } catch (error) {
      setFailed(`The file cannot be read: ${error.message}`);
    }
  };
  useEffect(() => {
    const file = take();
    if (file) choose(file);
  }, []);
  const append = query.to;
  const crumbs = append ? [['Datasets', '/datasets'], ['Dataset', `/datasets/${append}`]] : [['Datasets', '/datasets']];
  const lead = append
    ? 'The new rows become the next version of the dataset. Everything but the format is taken from the dataset.'
    : 'One row per decision. The file is checked row by row; if a row is wrong, nothing is stored.';
  return html`<${Page} title=${append ? 'Append rows' : 'Upload a log'} crumbs=${crumbs} lead=${lead}>
    ${failed && html`<${Alert} tone="bad" live title=${failed} />`}
    ${chosen
      ? html`<${Form} key=${`${chosen.file.name}-${chosen.file.lastModified}-${chosen.file.size}`} file=${chosen.file} found=${chosen.found} append=${append} onOther=${() => setChosen(null)} />`
      : html`<${Dropzone} title="Drop a log here" onFile=${choose}><p>NDJSON, CSV, Parquet, Arrow stream, DSJSON or the Open Bandit Dataset; also compressed with gzip or Zstandard.</p></${Dropzone}>`}
    ${!chosen && !append && html`<${Section} title="The log is in a bucket?" actions=${html`<${Button} icon="link" href=${href('/upload', { from: 'addresses' })}>Name its addresses</${Button}>`}>
      <p>The server can read it where it lies, if its operator allows the place. Nothing passes through this browser, so the log may be of any size.</p></${Section}>`}
    ${!chosen && html`<${Section} title="What a row has"><${RowHelp} /></${Section}>`}
  </${Page}>`;
}

const RowHelp = () => html`<div class="columns"><dl class="facts facts-wide">
    <div><dt><code>x</code></dt><dd>The context, as a list of numbers. A policy can be learned only if it is there.</dd></div>
    <div><dt><code>action</code></dt><dd>The action that was taken, counted from 0.</dd></div>
    <div><dt><code>propensity</code> or <code>propensities</code></dt><dd>The probability that the deployed policy gave to this action, or to all actions. It must be the one that the action was drawn with.</dd></div>
    <div><dt><code>reward</code> or <code>cost</code></dt><dd>What came of it.</dd></div>
  </dl>
  <figure class="code"><figcaption><span>One row of NDJSON</span></figcaption><pre tabindex="0" aria-label="One row of NDJSON"><code>${'{"x": [0.4, -1.2], "action": 2,\n "propensities": [0.1, 0.2, 0.7],\n "reward": 1}'}</code></pre></figure></div>`;

/** The query of the upload that the form describes. */
function request(form, append) {
  const kind = FORMATS.find((each) => each.id === form.format);
  const headers = { 'content-type': kind.type, ...(form.encoding ? { 'content-encoding': form.encoding } : {}) };
  const named = kind.named ? form.format : '';
  if (append) return { path: href(`/v1/datasets/${append}/rows`, { format: named }), headers };
  return { path: href('/v1/datasets', { format: named, ...optionsOf(form), ...outcomeQuery(form) }), headers };
}

function Form({ file, found, append, onOther }) {
  const [form, setForm] = useState(() => start(found));
  const [state, setState] = useState({});
  const control = useRef(null);
  const set = (changes) => setForm((old) => ({ ...old, ...changes }));
  useEffect(() => () => control.current?.abort(), []);
  const submit = async (event) => {
    event.preventDefault();
    const { path, headers } = request(form, append);
    control.current = new AbortController();
    setState({ sent: 0, total: file.size });
    try {
      const dataset = await upload(path, file, {
        headers: { ...headers, 'idempotency-key': onceKey() }, signal: control.current.signal, onProgress: (sent, total) => setState({ sent, total }),
      });
      navigate(href(`/datasets/${dataset.id}`, { uploaded: 1 }));
    } catch (problem) {
      setState(problem.code === 'aborted' ? { canceled: true } : { problem });
    }
  };
  useEffect(() => {
    // The form is long, and what is wrong is below it.
    if (state.problem) document.querySelector('#faults, form .alert-bad')?.scrollIntoView({ block: 'center' });
  }, [state.problem]);
  const busy = state.sent !== undefined;
  const problem = state.problem;
  return html`<form class="stack" onSubmit=${submit} aria-label="Upload">
    <${Section} title=${file.name} actions=${!busy && html`<${Button} onClick=${onOther}>Choose another file</${Button}>`}
      note=${`${format.bytes(file.size)}. ${found.why}${found.rows ? ` The first ${format.plural(found.rows, 'row')} ${found.rows === 1 ? 'has' : 'have'} the fields ${found.fields.join(', ')}.` : ''}`}>
      ${found.problem && html`<${Alert} tone="warn" title=${found.problem} />`}
      <fieldset disabled=${busy} class="stack"><legend class="offscreen">Options</legend>
        <div class="form-grid">
          ${!append && html`<${Field} label="Name" optional error=${problem?.field?.('name')}>${(a) => html`<input ...${a} value=${form.name} maxlength="200" onInput=${(e) => set({ name: e.target.value })} />`}</${Field}>`}
          <${Field} label="Format">${(a) => html`<select ...${a} value=${form.format} onChange=${(e) => set({ format: e.target.value })}>${FORMATS.map((each) => html`<option value=${each.id} selected=${form.format === each.id}>${each.title}</option>`)}</select>`}</${Field}>
          <${Field} label="Compression">${(a) => html`<select ...${a} value=${form.encoding} onChange=${(e) => set({ encoding: e.target.value })}>${ENCODINGS.map((each) => html`<option value=${each.id} selected=${form.encoding === each.id}>${each.title}</option>`)}</select>`}</${Field}>
        </div>
        ${!append && html`<${OutcomeFields} form=${form} set=${set} found=${found} problem=${problem} />`}
        ${!append && html`<${Attestations} form=${form} set=${set} problem=${problem} />`}
      </fieldset>
    </${Section}>
    ${busy && html`<${Sending} state=${state} onCancel=${() => control.current.abort()} />`}
    ${state.canceled && html`<${Alert} tone="info" live title="The upload was canceled. Nothing was stored." />`}
    ${problem && (problem.errors.some((error) => error.row != null) ? html`<${RowFaults} problem=${problem} file=${file} encoding=${form.encoding} />` : html`<${ProblemAlert} problem=${problem} />`)}
    ${!busy && html`<div class="actions"><button type="submit" class="button button-primary">${append ? 'Append the rows' : 'Upload'}</button></div>`}
  </form>`;
}

function Sending({ state, onCancel }) {
  const done = state.total > 0 && state.sent >= state.total;
  const text = done ? 'All bytes are sent. The server checks the rows…' : `${format.bytes(state.sent)} of ${format.bytes(state.total)} sent`;
  return html`<${Section} title=${done ? 'Checking' : 'Uploading'} actions=${html`<${Button} onClick=${onCancel}>Cancel</${Button}>`}>
    <div class="stack"><${ProgressBar} value=${done ? undefined : state.sent / (state.total || 1)} label="Upload" /><p role="status">${text}</p></div></${Section}>`;
}
