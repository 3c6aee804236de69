// The checks of the log against the assumptions of the guarantee.

import { html } from '../lib/html.js';
import { Alert, CheckBadge, Empty, Section } from '../lib/components.js';
import * as format from '../lib/format.js';

const SCOPES = { log: 'On the whole log', certified_rows: 'On the certified rows' };

/** Every check with its verdict, by the rows that it was made on. */
export function Checks({ certificate }) {
  const checks = certificate.checks || [];
  if (checks.length === 0) return html`<${Empty} title="There are no checks">An earlier release issued this certificate. It did not check the log.</${Empty}>`;
  const failed = checks.filter((check) => check.ok === false);
  const accepted = certificate.spec.accept || [];
  const scopes = [...new Set(checks.map((check) => check.scope))];
  return html`${failed.length > 0 && html`<${Alert} tone="bad" title=${`${format.plural(failed.length, 'check')} failed.`}>
      <p>The log is not as the guarantee assumes, so the decision is keep unless the submitter accepted the check. Mend the logging, and upload a new log.</p>
      ${accepted.length > 0 && html`<p>Accepted: ${accepted.map(format.words).join(', ')}.</p>`}</${Alert}>`}
    ${scopes.map((scope) => html`<${Section} title=${SCOPES[scope] || format.words(scope)}>
      <ul class="check-list">${checks.filter((check) => check.scope === scope).map((check) => html`<${Check} check=${check} />`)}</ul></${Section}>`)}`;
}

const Check = ({ check }) => html`<li><${CheckBadge} ok=${check.ok} /><div>
  <p><strong>${format.words(check.name)}</strong>${check.subject && html` <span class="muted">${check.subject}</span>`}</p><p>${format.sentence(check.message)}</p>
  ${check.ok !== null && check.ok !== undefined && html`<p class="small muted">Evidence against the log: ${format.number(check.evidence, 3)}; the check fails from ${format.number(1 / check.level, 3)} on. ${format.plural(check.rows, 'row')}.</p>`}</div></li>`;
