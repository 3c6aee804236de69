// The certificate as a document: to read, to print, to download, to verify.

import { html, useState } from '../lib/html.js';
import { Alert, Badge, Button, CheckBadge, DecisionBadge, Details, Facts, ProblemAlert, Section } from '../lib/components.js';
import { CodeBlock, CopyButton } from '../lib/code.js';
import { Numbers } from '../lib/charts/index.js';
import { download, post } from '../lib/api.js';
import { candidateName } from '../lib/certificate.js';
import { curl } from '../lib/snippets.js';
import * as format from '../lib/format.js';

/** The certificate of a job. */
export function Certificate({ job, certificate }) {
  const [problem, setProblem] = useState(null);
  const path = `/v1/jobs/${job.id}/certificate`;
  const save = () => download(path, `certificate-${job.id}.json`).catch(setProblem);
  const actions = html`<${Button} icon="download" onClick=${save}>Download</${Button}><${Button} icon="print" onClick=${() => window.print()}>Print</${Button}>`;
  return html`<${Section} title="Certificate" actions=${html`<span class="no-print actions">${actions}</span>`}>
      <${ProblemAlert} problem=${problem} />
      <${Facts} items=${summary(certificate)} /></${Section}>
    <${Signature} certificate=${certificate} />
    ${certificate.merged && html`<${Merged} merged=${certificate.merged} />`}
    <div class="columns"><${Lines} title="It assumes" note="What the service cannot check in full." lines=${certificate.assumptions} /><${Lines} title="The caller states" lines=${certificate.attestations} none="Nothing that the guarantee depends on." /></div>
    <${Section} title="How δ is spent"><${Numbers} caption="Shares of δ" head=${['event', 'share', 'what holds']} rows=${certificate.delta_accounting.map((each) => [each.event, format.number(each.share), each.what])} />
      ${certificate.ledger && html`<p>${certificate.ledger.statement}</p>`}</${Section}>
    <${Section} title="The document"><div class="no-print"><${CodeBlock} label="Fetch it" text=${curl('GET', path)} /></div>
      <div class="no-print"><${Details} summary="Show the JSON"><${CodeBlock} label="certificate.json" text=${JSON.stringify(certificate, null, 2)} /></${Details}></div>
      <div class="digest">${digests(certificate).map(([name, value]) => value && html`<p><span class="muted small">${name}</span><br />${value}</p>`)}</div></${Section}>`;
}

const summary = (certificate) => [
  ['Decision', html`<${DecisionBadge} decision=${certificate.decision} />`],
  ['About', candidateName(certificate.candidate)],
  ['Guaranteed improvement', format.bothUnits(certificate.guaranteed_improvement, certificate.user_units?.outcome)],
  ['Required', format.bothUnits(certificate.min_improvement, certificate.user_units?.outcome)],
  ['Guaranteed risk', format.number(certificate.guaranteed_risk, 6)],
  ['Confidence', format.confidence(certificate.confidence)],
  ['Rows', `${format.count(certificate.certified?.rows ?? certificate.dataset.rows)} certified of ${format.count(certificate.dataset.rows)}`],
  ['Issued', certificate.issued?.finished_at && format.timeFull(certificate.issued.finished_at)],
  ['Submitted by', certificate.issued?.submitted_by],
  ['Method', `${certificate.method ?? 1}, engine ${certificate.engine_version}`],
  ['Look', certificate.ledger && `${certificate.ledger.look}; all looks hold together with ${format.confidence(certificate.ledger.family_wise_confidence)}`],
];

/** What the certificate was merged from. Nobody here has seen the rows. */
const Merged = ({ merged }) => html`<${Section} title="Merged from partials" note=${merged.note}>
  <${Facts} items=${[
    ['Partials', format.count(merged.partials.count)],
    ['Recipe frozen on', format.plural(merged.frozen_on_rows, 'row')],
    ['Snapshot', merged.snapshot],
  ]} />
  <div class="digest">${[['Digest of the recipe', merged.recipe], ['Digest of the log that it was frozen on', merged.frozen_on], ['Digest of the list of partials', merged.partials.digest]]
    .map(([name, value]) => html`<p><span class="muted small">${name}</span><br />${copied(value)}</p>`)}</div>
  ${merged.partials.manifest?.length > 0 && html`<${Details} summary="Every partial"><${Numbers} caption="Partials" head=${['partition', 'rows', 'digest']} rows=${merged.partials.manifest.map((each) => [each.partition, format.count(each.rows), html`<code title=${each.digest}>${each.digest.replace('sha256:', '').slice(0, 12)}</code>`])} /></${Details}>`}
</${Section}>`;

const copied = (text) => text && html`<span class="inline-copy"><code>${text}</code><${CopyButton} compact text=${text} label="Copy" /></span>`;

const digests = (certificate) => [
  ['Digest of the certificate', copied(certificate.digest)],
  ['Digest of the dataset', copied(certificate.dataset.digest)],
  ['Digest of the policy', copied(certificate.policy?.digest)],
];

const Lines = ({ title, note, lines = [], none }) => html`<${Section} title=${title} note=${note}>
  ${lines.length > 0 ? html`<ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>` : html`<p class="muted">${none}</p>`}</${Section}>`;

/** Whether the signature is there, and what the server finds if it is asked to verify everything again. */
function Signature({ certificate }) {
  const [state, setState] = useState({});
  const { signature } = certificate;
  const verify = async () => {
    setState({ busy: true });
    try {
      setState({ found: await post('/v1/certificates/verify', certificate) });
    } catch (problem) {
      setState({ problem });
    }
  };
  const actions = html`<span class="no-print"><${Button} icon="check" busy=${state.busy} onClick=${verify}>Verify now</${Button}></span>`;
  return html`<${Section} title="Signature" actions=${actions} note=${`Verifying checks the digest and the signature, and ${certificate.merged ? 'merges the stored partials again' : 'computes the certificate again from the stored log'}.`}>
    ${signature ? html`<${Facts} items=${[['Signed with key', html`<code>${signature.key_id}</code>`], ['Algorithm', signature.algorithm], ['Signature', html`<code class="small">${signature.value}</code>`]]} />`
      : html`<${Alert} tone="warn" title="The certificate is not signed.">An earlier release issued it. No gate opens for it.</${Alert}>`}
    <div aria-live="polite"><${ProblemAlert} problem=${state.problem} />${state.found && html`<${Verified} found=${state.found} />`}</div></${Section}>`;
}

function Verified({ found }) {
  const list = (checks) => html`<ul class="check-list">${checks.map((check) => html`<li><${CheckBadge} ok=${check.ok} /><div><p><strong>${format.words(check.name)}</strong></p><p>${format.sentence(check.detail)}</p></div></li>`)}</ul>`;
  const [passed, failed] = [found.checks.filter((check) => check.ok), found.checks.filter((check) => !check.ok)];
  return html`<p class="verified"><${Badge} tone=${found.valid ? 'good' : 'bad'} icon=${found.valid ? 'check' : 'cross'}>${found.valid ? 'Valid' : 'Not valid'}</${Badge}>
      <span>${found.valid ? 'Every check passed.' : 'Do not rely on this certificate.'}</span></p>
    ${failed.length > 0 && list(failed)}
    ${passed.length > 0 && html`<${Details} summary=${`${format.plural(passed.length, 'check')} passed`}>${list(passed)}</${Details}>`}`;
}
