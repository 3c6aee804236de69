// The versions of a dataset, and what is stated and known about it.

import { html } from '../lib/html.js';
import { Facts, Load, Pager, Section, Table, Time, usePages } from '../lib/components.js';
import { CodeBlock, CopyButton } from '../lib/code.js';
import { useResource } from '../lib/events.js';
import * as format from '../lib/format.js';

const VERSION_COLUMNS = [
  { id: 'version', label: 'Version', render: (each) => `Version ${each.version}` },
  { id: 'time', label: 'When', render: (each) => html`<${Time} at=${each.created_at} />` },
  { id: 'rows', label: 'Rows', align: 'right', render: (each) => format.count(each.rows) },
  { id: 'added', label: 'Added', align: 'right', render: (each) => (each.added === 0 ? 'candidates' : each.added === null ? '' : format.count(each.added)) },
  { id: 'digest', label: 'Digest of the rows', render: (each) => html`<span class="inline-copy"><code>${format.short(each.digest)}</code><${CopyButton} compact text=${each.digest} label="Copy the digest" /></span>` },
];

/** The versions, newest first. */
export function Versions({ dataset }) {
  const page = usePages(`/v1/datasets/${dataset.id}/versions`, { limit: 50 });
  const withAdded = (list) => list.map((each, i) => ({ ...each, added: list[i + 1] ? each.rows - list[i + 1].rows : each.version === 1 ? each.rows : null }));
  return html`<${Section} title="Versions" note="Appending rows or candidates makes a new version. A certificate names the version that it was computed from.">
    <${Load} resource=${page}>${(data) => html`<${Table} caption="Versions, newest first" columns=${VERSION_COLUMNS} rows=${withAdded(data.data)} rowKey=${(each) => each.version} param="none" /><${Pager} page=${data} />`}</${Load}></${Section}>`;
}

const MOST_OBJECTS = 100;
const OBJECT_COLUMNS = [
  { id: 'uri', label: 'Object', wide: true, render: (each) => html`<code class="wrap-any">${each.uri}</code>` },
  { id: 'bytes', label: 'Size', align: 'right', render: (each) => html`<span class="nowrap">${format.bytes(each.bytes)}</span>` },
  { id: 'version', label: 'Version or ETag', render: (each) => html`<code class="wrap-any">${each.version || each.etag || '–'}</code>` },
  { id: 'sha256', label: 'SHA-256', render: (each) => html`<span class="inline-copy"><code>${format.short(each.sha256)}</code><${CopyButton} compact text=${each.sha256} label="Copy the SHA-256" /></span>` },
];

/** The objects that are pinned. */
function Objects({ dataset }) {
  const resource = useResource(`/v1/imports/${dataset.id}/objects`);
  return html`<${Section} title="Pinned objects" note="What the rows are read from. A job fails if one of them is not the same anymore.">
    <${Load} resource=${resource}>${({ data }) => html`<${Table} caption="Pinned objects" columns=${OBJECT_COLUMNS} rows=${data.slice(0, MOST_OBJECTS)} rowKey=${(each) => each.uri} param="none" />
      ${data.length > MOST_OBJECTS && html`<p class="muted">These are the first ${MOST_OBJECTS} of ${format.count(data.length)}. <code>/v1/imports/${dataset.id}/objects</code> has all of them.</p>`}`}</${Load}></${Section}>`;
}

const yes = (value) => (value ? 'yes' : 'no');

function precision({ decimals, significant, single } = {}) {
  if (decimals != null) return `rounded to ${format.plural(decimals, 'decimal')}`;
  if (significant != null) return `rounded to ${format.plural(significant, 'significant digit')}`;
  return single ? 'single precision' : 'full';
}

/** What is stated and known. */
export function About({ dataset }) {
  const { capabilities: can, outcome } = dataset;
  const named = can.outcomes || [];
  return html`
    <${Section} title="The log"><${Facts} items=${[
      ['Uploaded', html`<${Time} at=${dataset.created_at} />`],
      ['Outcome', named.length ? named.map((each) => `${each.name} (${each.kind}, ${format.number(each.min)} to ${format.number(each.max)})`).join('; ') : `${outcome.kind}, ${format.number(outcome.min)} to ${format.number(outcome.max)}`],
      ['Contexts', format.count(dataset.contexts)],
      ['Features', format.count(dataset.dim)],
      ['Logged by', dataset.logging === 'fixed' ? 'one fixed policy, as its uploader states' : 'any policy, which may have changed'],
      ['Rows with the same context', dataset.repetitions === 'designed' ? 'repeated by design' : 'decisions of their own'],
      ['Logging policy', dataset.logging_policy_id && html`<a href=${`/policies/${dataset.logging_policy_id}`}>${format.short(dataset.logging_policy_id)}</a>`],
      ['Size', dataset.pinned ? 'the rows are in pinned objects' : format.bytes(dataset.bytes)],
    ]} /></${Section}>
    ${dataset.pinned && html`<${Objects} dataset=${dataset} />`}
    <${Section} title="What it supports" note="Jobs are checked against this before they run."><${Facts} items=${[
      ['Learning a policy', can.features ? 'yes, rows have features' : 'no, rows have no features'],
      ['Propensities of all actions', yes(can.full_propensities || can.uniform)],
      ['Written precision', precision(can.precision)],
      ['Timestamps', yes(can.timestamps)],
      ['Own actions per row', yes(can.action_sets)],
      ['Candidates in the log', can.candidates.length ? can.candidates.join(', ') : 'none'],
    ]} /></${Section}>
    <${Section} title="Digest" note="The same rows have the same digest, whatever format they were uploaded in."><${CodeBlock} label="SHA-256" text=${dataset.digest} wrap /></${Section}>
    <${Section} title="The same as a script"><${CodeBlock} label="curl" text=${`curl ${window.location.origin}/v1/datasets/${dataset.id}`} wrap /></${Section}>`;
}
