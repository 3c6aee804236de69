// The gate of a job, and how rollout tools ask it.

import { html } from '../lib/html.js';
import { Button, Section } from '../lib/components.js';
import { CodeBlock, CopyButton } from '../lib/code.js';
import { Tabs } from '../lib/tabs.js';
import { useResource } from '../lib/events.js';
import { GateAnswer } from '../lib/gate_answer.js';
import { argo, flagger, gateCurl, origin } from '../lib/snippets.js';
import { href } from '../lib/router.js';

/** The gate of one job. */
export function Rollout({ job, certificate }) {
  const path = `/v1/jobs/${job.id}/gate`;
  const gate = useResource(path);
  const digest = certificate.policy?.digest || certificate.candidates.find((each) => each.candidate === certificate.candidate)?.policy_digest;
  const asked = digest ? `${path}?policy_digest=${digest}` : path;
  const url = origin() + path;
  return html`<${Section} title="What the gate answers now" actions=${html`<${Button} onClick=${gate.refresh}>Ask again</${Button}>`}
      note="200 means deploy, and nothing else does.">
      <p><span class="inline-copy"><code>${url}</code><${CopyButton} compact text=${url} label="Copy the URL" /></span></p>
      <${GateAnswer} resource=${gate} />
      ${certificate.merged && html`<p class="hint">The certificate was merged from partials. If you trust whoever computed them, add <code>accept_merged=true</code> to the address; otherwise the gate stays closed.</p>`}</${Section}>
    <${Section} title="In a rollout" note="This URL is about this one job. For rollouts that repeat, use a standing gate: its URL stays the same, and it asks about the newest job."
      actions=${html`<${Button} icon="gate" href=${href('/gates', { new: 'yes', dataset_id: job.spec.dataset_id })}>New standing gate</${Button}>`}>
      <${Snippets} path=${asked} /></${Section}>`;
}

/** Snippets for all tools. `token` is the URL of a token, if there is one. */
export function Snippets({ path, token }) {
  const tabs = [
    { id: 'curl', label: 'curl', render: () => html`<${CodeBlock} label="curl" wrap text=${gateCurl(path)} /><p class="hint">It exits with 0 only if the gate is open.</p>` },
    { id: 'argo', label: 'Argo Rollouts', render: () => html`<${CodeBlock} label="AnalysisTemplate" text=${argo(path)} />` },
    {
      id: 'flagger', label: 'Flagger',
      render: () => html`<${CodeBlock} label="Canary" text=${flagger(token)} />${!token && html`<p class="hint">Flagger sends no headers, so it needs a token of a standing gate. <a href="/gates">Create one</a>, and put its URL here.</p>`}`,
    },
  ];
  return html`<${Tabs} label="Tools" param="tool" tabs=${tabs} />`;
}
