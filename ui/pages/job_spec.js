// What a job was asked to do, with every default filled in.

import { html } from '../lib/html.js';
import { Facts, Section, Time } from '../lib/components.js';
import { CodeBlock } from '../lib/code.js';
import * as format from '../lib/format.js';

/** The specification and the times of a job. */
export function Specification({ job }) {
  const { dataset_id: dataset, dataset_version: version } = job.spec;
  const facts = [
    ['Kind', format.words(job.kind)],
    ['Dataset', html`<a class="mono" href=${`/datasets/${dataset}`}>${format.short(dataset)}</a>, version ${version}`],
    ['Submitted', html`<${Time} at=${job.created_at} />`],
    ['Submitted by', job.submitted_by],
    ['Started', job.started_at && html`<${Time} at=${job.started_at} />`],
    ['Ended', job.finished_at && html`<${Time} at=${job.finished_at} />`],
    ['Took', job.finished_at && job.started_at && format.duration(format.between(job.started_at, job.finished_at))],
    ['Attempts', job.attempt],
  ];
  return html`<${Section} title="Times"><${Facts} items=${facts} /></${Section}>
    <${Section} title="Specification" note="With every default filled in."><${CodeBlock} label="spec" text=${JSON.stringify(job.spec, null, 2)} /></${Section}>`;
}
