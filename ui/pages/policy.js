// One policy: where it comes from, its parameters, and what it would do.

import { html, useState } from '../lib/html.js';
import { Alert, Button, Details, Facts, Field, Load, Page, ProblemAlert, Section, Time } from '../lib/components.js';
import { CodeBlock, CopyButton } from '../lib/code.js';
import { Confirm } from '../lib/dialog.js';
import { ProbabilityBars } from '../lib/charts/index.js';
import { del, download, post } from '../lib/api.js';
import { useResource } from '../lib/events.js';
import { navigate } from '../lib/router.js';
import { curl } from '../lib/snippets.js';
import * as format from '../lib/format.js';
import { Origin, shape } from './policies.js';

/** One policy. */
export function Policy({ id }) {
  const resource = useResource(`/v1/policies/${encodeURIComponent(id)}`);
  const name = `Policy ${format.short(id)}`;
  return html`<${Page} title=${name} crumbs=${[['Policies', '/policies']]} actions=${resource.data && html`<${Actions} policy=${resource.data} />`}
    lead=${html`<span class="inline-copy"><code>${id}</code><${CopyButton} compact text=${id} label="Copy the id" /></span>`}>
    <${Load} resource=${resource}>${(policy) => html`<${About} policy=${policy} /><${TryIt} policy=${policy} /><${Fetch} policy=${policy} />`}</${Load}>
  </${Page}>`;
}

function Actions({ policy }) {
  const [asked, setAsked] = useState(false);
  const [problem, setProblem] = useState(null);
  const path = `/v1/policies/${policy.id}`;
  const save = () => download(`${path}/parameters`, `policy-${policy.id}.json`).catch(setProblem);
  const remove = () => del(path).then(() => navigate('/policies'), setProblem);
  return html`<${Button} icon="download" onClick=${save}>Download</${Button}><${Button} kind="danger" icon="trash" onClick=${() => setAsked(true)}>Delete</${Button}>
    ${problem && !asked && html`<${ProblemAlert} problem=${problem} />`}
    ${asked && html`<${Confirm} title="Delete this policy?" action="Delete" onConfirm=${remove} onClose=${() => { setAsked(false); setProblem(null); }}>
      <p>It cannot be undone. Certificates about it stay, but their gates close, because there is nothing to roll out.</p><${ProblemAlert} problem=${problem} /></${Confirm}>`}`;
}

const About = ({ policy }) => html`<${Section} title="About"><${Facts} items=${[
  ['Form', format.words(policy.kind)],
  ['For', shape(policy)],
  ['Origin', html`<${Origin} policy=${policy} />`],
  ['Stored', html`<${Time} at=${policy.created_at} />`],
]} /><p class="digest"><span class="muted small">Digest of the parameters</span><br /><span class="inline-copy"><code>${policy.digest}</code><${CopyButton} compact text=${policy.digest} label="Copy the digest" /></span></p></${Section}>`;

/** A context to begin with: one that fits the policy. */
function example(policy) {
  if (policy.n_actions === 0) return '{\n  "x": {"hour": 14},\n  "actions": [\n    {"id": "a", "x": {"price": 3}},\n    {"id": "b", "x": {"price": 5}}\n  ]\n}';
  return JSON.stringify(Array.from({ length: policy.dim }, (_, i) => (i === 0 ? 1 : 0)));
}

const names = (context, count) => Array.from({ length: count }, (_, i) => {
  const own = context?.actions?.[i];
  return own?.id !== undefined ? String(own.id) : `action ${i}`;
});

/** Shows the probabilities of all actions in a context that the reader pastes. */
function TryIt({ policy }) {
  const [text, setText] = useState(() => example(policy));
  const [state, setState] = useState({});
  let context;
  let fault = null;
  try {
    context = JSON.parse(text);
  } catch (error) {
    fault = `This is not JSON: ${error.message}`;
  }
  const path = `/v1/policies/${policy.id}/propensities`;
  const ask = async (event) => {
    event.preventDefault();
    if (fault) return setState({ fault });
    setState({ busy: true });
    try {
      const answer = await post(path, { contexts: [context] });
      return setState({ context, probabilities: answer.propensities[0] });
    } catch (problem) {
      return setState({ problem });
    }
  };
  const wrong = state.fault || state.problem?.errors[0]?.message;
  const hint = policy.n_actions === 0 ? 'A request: its features x, and the actions that are available, each with an id and features.' : `A context: a list of ${format.plural(policy.dim, 'number')}.`;
  return html`<${Section} title="Try it" note="What would the policy do? Paste a context, and see the probability of each action.">
    <div class="columns"><form class="stack" onSubmit=${ask}>
      <${Field} label="Context (JSON)" hint=${hint} error=${wrong}>${(attributes) => html`<textarea ...${attributes} rows="7" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>`}</${Field}>
      ${state.problem && !wrong && html`<${ProblemAlert} problem=${state.problem} />`}
      <p class="actions"><${Button} kind="primary" type="submit" busy=${state.busy}>Show probabilities</${Button}></p>
      ${!fault && html`<${Details} summary="As curl"><${CodeBlock} label="curl" text=${curl('POST', path, { contexts: [context] })} /></${Details}>`}
    </form><div aria-live="polite">${state.probabilities ? html`<${Answer} ...${state} />` : html`<p class="muted">The probabilities appear here.</p>`}</div></div></${Section}>`;
}

function Answer({ context, probabilities }) {
  if (probabilities.length === 0) return html`<${Alert}>There are no actions.</${Alert}>`;
  const labels = names(context, probabilities.length);
  const rows = probabilities.map((value, i) => ({ label: labels[i], value }));
  const best = rows.reduce((most, row) => (row.value > most.value ? row : most));
  const summary = `The most likely is ${best.label} with ${format.percent(best.value)}.`;
  return html`<p>${summary}</p><${ProbabilityBars} summary=${summary} rows=${rows} />`;
}

const Fetch = ({ policy }) => html`<${Section} title="Use it" note="Draw an action, and log it with its propensity: then the next log can be certified again.">
  <div class="stack"><${CodeBlock} label="Fetch the parameters" text=${curl('GET', `/v1/policies/${policy.id}/parameters`)} />
  <${CodeBlock} label="Draw an action" text=${curl('POST', `/v1/policies/${policy.id}/actions`, { contexts: [JSON.parse(example(policy))] })} /></div></${Section}>`;
