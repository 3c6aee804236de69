// Standing gates: what each would answer now, and a form for new ones.

import { html } from '../lib/html.js';
import { Button, Empty, Load, Name, Page, Pager, Section, Table, usePages } from '../lib/components.js';
import { useResource } from '../lib/events.js';
import { navigate, setQuery } from '../lib/router.js';
import { GateBadge, gateWhy } from '../lib/gate_answer.js';
import * as format from '../lib/format.js';
import { GateForm } from './gate_form.js';

/** All standing gates. */
export function Gates({ query }) {
  const gates = usePages('/v1/gates', { every: 15_000 });
  const add = html`<${Button} kind="primary" icon="plus" onClick=${() => setQuery({ new: 'yes' })}>New gate</${Button}>`;
  const empty = html`<${Empty} title="There are no standing gates yet" icon="gate" actions=${add}>A standing gate is a URL that never changes. Rollout tools ask it, and it answers 200 only if the newest certificate allows the rollout.</${Empty}>`;
  return html`<${Page} title="Gates" lead="Each standing gate asks about the newest job that it selects. It is open only if the certificate says deploy and meets every requirement." actions=${query.new ? null : add}>
    ${query.new && html`<${Section} title="New gate"><${GateForm} initial=${{ dataset_id: query.dataset_id }} onDone=${(gate) => navigate(`/gates/${gate.name}`)} onCancel=${() => setQuery({ new: '', dataset_id: '' })} /></${Section}>`}
    <${Section}><${Load} resource=${gates}>${(page) => html`<${Table} caption="Standing gates" columns=${COLUMNS} rows=${page.data} rowKey=${(gate) => gate.name} empty=${query.new ? html`<p class="muted">There are no standing gates yet.</p>` : empty} />
      <${Pager} page=${page} />`}</${Load}></${Section}>
  </${Page}>`;
}

/** Which jobs a gate asks about, in words. */
export function selects(gate) {
  const members = Object.entries(gate.selector).map(([name, value]) => `${name} = ${typeof value === 'string' ? value : JSON.stringify(value)}`);
  const dataset = gate.dataset_id ? [`dataset ${format.short(gate.dataset_id)}`] : [];
  return [...dataset, ...members].join(', ');
}

/** What a gate requires, in words. */
export function requires(gate) {
  const { min_improvement: least, min_confidence: confidence, min_family_confidence: family, max_age: age, version, baseline, candidate, policy_digest: digest, objective, guardrails = [], ...more } = gate.requirements;
  return [
    `δ at most ${format.number(gate.delta)}`,
    least !== undefined && `improvement above ${typeof least === 'number' ? format.number(least) : JSON.stringify(least)}`,
    confidence !== undefined && `confidence at least ${format.confidence(confidence)}`,
    family !== undefined && `all looks together at least ${format.confidence(family)}`,
    age && `not older than ${age}`,
    version && `${version} version of the dataset`,
    baseline && `${baseline} baseline`,
    candidate && `candidate ${candidate}`,
    digest && `policy ${digest.slice(7, 19)}`,
    objective && `objective ${objective}`,
    ...guardrails.map((each) => `loss in ${each.outcome} at most ${format.number(each.max_loss)}`),
    ...Object.entries(more).map(([name, value]) => `${format.words(name).toLowerCase()}: ${typeof value === 'object' ? JSON.stringify(value) : value}`),
  ].filter(Boolean);
}

const COLUMNS = [
  { id: 'name', label: 'Gate', render: (gate) => html`<${Name} href=${`/gates/${gate.name}`} text=${gate.name} />` },
  { id: 'selects', label: 'Asks about jobs with', render: (gate) => html`<${Name} text=${selects(gate)} />` },
  { id: 'requires', label: 'Requires', render: (gate) => html`<span class="small">${requires(gate).join('; ')}</span>` },
  { id: 'now', label: 'Now', wide: true, render: (gate) => html`<${Now} name=${gate.name} />` },
];

/** What a gate answers now. Each row asks its own gate, as a rollout tool would. */
function Now({ name }) {
  const answer = useResource(`/v1/gates/${name}`, { every: 15_000 });
  return html`<span class="stack-tight now"><span><${GateBadge} resource=${answer} /></span><span class="small muted">${gateWhy(answer)}</span></span>`;
}
