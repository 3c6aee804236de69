// One standing gate: its answer now, its requirements, its tokens and how tools ask it.

import { html, useState } from '../lib/html.js';
import { Alert, Button, Facts, Load, Page, ProblemAlert, Section, Table, Time } from '../lib/components.js';
import { CodeBlock, CopyButton } from '../lib/code.js';
import { Confirm } from '../lib/dialog.js';
import { del, post } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { navigate } from '../lib/router.js';
import { TextField } from '../lib/form.js';
import { GateAnswer } from '../lib/gate_answer.js';
import { origin } from '../lib/snippets.js';
import * as format from '../lib/format.js';
import { GateForm } from './gate_form.js';
import { requires, selects } from './gates.js';
import { Snippets } from './job_rollout.js';

/** One standing gate. */
export function Gate({ name }) {
  const path = `/v1/gates/${encodeURIComponent(name)}`;
  const definition = useResource(`${path}/definition`);
  const answer = useResource(path, { every: 15_000 });
  const [token, setToken] = useState(null);
  const url = origin() + path;
  return html`<${Page} title=${`Gate ${name}`} crumbs=${[['Gates', '/gates']]} actions=${definition.data && html`<${Remove} path=${path} />`}
    lead=${html`<span class="inline-copy"><code>${url}</code><${CopyButton} compact text=${url} label="Copy the URL" /></span>`}>
    <${Load} resource=${definition}>${(gate) => html`
      <${Section} title="What it answers now" actions=${html`<${Button} onClick=${answer.refresh}>Ask again</${Button}>`}><${GateAnswer} resource=${answer} /></${Section}>
      <${Definition} gate=${gate} onChange=${() => { definition.refresh(); answer.refresh(); }} />
      <${Section} title="In a rollout"><${Snippets} path=${path} token=${token && origin() + token.url} /></${Section}>
      <${Tokens} path=${path} fresh=${token} onFresh=${setToken} />`}</${Load}>
  </${Page}>`;
}

function Remove({ path }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState(null);
  const remove = () => del(path).then(() => navigate('/gates'), setProblem);
  return html`<${Button} kind="danger" icon="trash" onClick=${() => setAsked(true)}>Delete</${Button}>
    ${asked && html`<${Confirm} title="Delete this gate?" action="Delete" onConfirm=${remove} onClose=${() => setAsked(false)}>
      <p>Rollouts that ask it are then held back, and its tokens stop working.</p><${ProblemAlert} problem=${problem} /></${Confirm}>`}`;
}

function Definition({ gate, onChange }) {
  const [editing, setEditing] = useState(false);
  const done = () => {
    setEditing(false);
    onChange();
  };
  if (editing) return html`<${Section} title="Change the gate"><${GateForm} existing=${gate} onDone=${done} onCancel=${() => setEditing(false)} /></${Section}>`;
  return html`<${Section} title="What it requires" actions=${html`<${Button} onClick=${() => setEditing(true)}>Change</${Button}>`}>
    <${Facts} items=${[
      ['Asks about the newest job with', selects(gate)],
      ['Requires', html`<ul class="plain">${requires(gate).map((line) => html`<li>${line}</li>`)}</ul>`],
      ['Open also to', gate.allow.length > 0 ? gate.allow.map((each) => format.words(each).toLowerCase()).join(', ') : 'nothing more'],
      ['Created', html`<${Time} at=${gate.created_at} /> by ${gate.created_by}`],
      gate.changed_at !== gate.created_at && ['Changed', html`<${Time} at=${gate.changed_at} /> by ${gate.changed_by}`],
    ]} /></${Section}>`;
}

/** Tokens for callers that cannot send a key. The secret of a new one is shown once. */
function Tokens({ path, fresh, onFresh }) {
  const tokens = useResource(`${path}/tokens`);
  const [name, setName] = useState('');
  const [revoked, setRevoked] = useState(null);
  const [problem, setProblem] = useState(null);
  const create = async (event) => {
    event.preventDefault();
    try {
      onFresh(await post(`${path}/tokens`, { name }));
      setName('');
      setProblem(null);
      tokens.refresh();
    } catch (failed) {
      setProblem(failed);
    }
  };
  const revoke = async () => {
    try {
      await del(`${path}/tokens/${revoked.id}`);
      if (fresh?.id === revoked.id) onFresh(null);
      setRevoked(null);
      tokens.refresh();
    } catch (failed) {
      setProblem(failed);
    }
  };
  const columns = [
    { id: 'name', label: 'Token', render: (token) => token.name || html`<span class="muted">unnamed</span>` },
    { id: 'created', label: 'Created', render: (token) => html`<${Time} at=${token.created_at} relative /> by ${token.created_by}` },
    { id: 'revoke', label: 'Revoke', align: 'right', render: (token) => html`<${Button} kind="danger" icon="trash" aria-label=${`Revoke ${token.name || 'the token'}`} onClick=${() => setRevoked(token)}>Revoke</${Button}>` },
  ];
  const empty = html`<p class="muted">There are no tokens.</p>`;
  return html`<${Section} title="Tokens" note="A token is a URL for tools that send no headers, such as Flagger. It asks this gate and does nothing else.">
    <div class="stack">
    ${fresh && html`<${Alert} tone="good" live title="The token is shown this once. Copy its URL now."><${CodeBlock} label="URL" text=${origin() + fresh.url} wrap /></${Alert}>`}
    <${ProblemAlert} problem=${problem} />
    <form class="filters" onSubmit=${create}><${TextField} label="What it is for" optional value=${name} onChange=${setName} placeholder="flagger" /><${Button} type="submit" icon="key">New token</${Button}></form>
    <${Load} resource=${tokens}>${(page) => html`<${Table} caption="Tokens" columns=${columns} rows=${page.data} empty=${empty} param="none" />`}</${Load}>
    ${revoked && html`<${Confirm} title="Revoke this token?" action="Revoke" onConfirm=${revoke} onClose=${() => setRevoked(null)}><p>It stops working at once. Tools that use it are held back.</p></${Confirm}>`}
    </div></${Section}>`;
}
