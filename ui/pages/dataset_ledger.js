// The ledger of a dataset: its budget, and each look.

import { html } from '../lib/html.js';
import { Alert, DecisionBadge, Empty, Load, Pager, Section, Stat, Stats, Table, Time, usePages } from '../lib/components.js';
import { BudgetBar } from '../lib/charts/interval.js';
import * as format from '../lib/format.js';

const COLUMNS = [
  { id: 'look', label: 'Look', render: (look) => html`<a href=${`/jobs/${look.job_id}`}>Look ${look.look}</a>` },
  { id: 'decision', label: 'Decision', render: (look) => html`<${DecisionBadge} decision=${look.decision} />` },
  { id: 'what', label: 'What', render: (look) => `${format.words(look.kind)}, ${look.bound}${look.candidates ? `, ${format.plural(look.candidates, 'candidate')}` : ''}` },
  { id: 'rows', label: 'Rows', align: 'right', render: (look) => format.count(look.rows) },
  { id: 'delta', label: 'δ', align: 'right', render: (look) => format.number(look.delta, 3) },
  { id: 'cost', label: 'Cost', align: 'right', render: (look) => (look.cost === 0 ? 'free' : format.number(look.cost, 3)) },
  { id: 'spent', label: 'Spent then', align: 'right', render: (look) => format.number(look.spent, 3) },
  { id: 'time', label: 'When', align: 'right', render: (look) => html`<${Time} at=${look.created_at} />` },
];

/** The budget bar and the looks. */
export function Ledger({ dataset }) {
  const page = usePages(`/v1/datasets/${dataset.id}/ledger`, { limit: 50, every: 10_000 });
  return html`<${Load} resource=${page}>${(ledger) => html`<${Shown} dataset=${dataset} ledger=${ledger} />`}</${Load}>`;
}

function Shown({ dataset, ledger }) {
  if (ledger.looks === 0) {
    return html`<${Section}><${Empty} title="Nothing was certified from these rows" icon="check">Every certificate is a look at the rows, and costs its δ. The ledger adds them up, so that you know how far all of them can be trusted together.</${Empty}></${Section}>`;
  }
  const looks = [...ledger.data].reverse().filter((look) => look.cost > 0).map((look) => ({ value: look.cost, label: `Look ${look.look}: ${format.number(look.cost, 3)}` }));
  const rest = ledger.spent - looks.reduce((sum, look) => sum + look.value, 0);
  const parts = rest > 1e-9 ? [{ value: rest, label: `Looks on other pages: ${format.number(rest, 3)}` }, ...looks] : looks;
  const text = `${format.number(ledger.spent, 3)} of 1 is spent in ${format.plural(ledger.looks, 'look')}`;
  return html`
    ${dataset.ledger.note && html`<${Alert} tone="info" title="These rows are in other datasets too.">${dataset.ledger.note}</${Alert}>`}
    <${Stats}>
      <${Stat} label="Looks" value=${format.count(ledger.looks)} help="certificates and bounds that were shown" />
      <${Stat} label="Spent δ" value=${format.number(ledger.spent, 3)} help="the sum of their costs" tone=${ledger.spent > 0.5 ? 'warn' : undefined} />
      <${Stat} label="All hold together with" value=${format.confidence(ledger.family_wise_confidence)} help="at least" />
    </${Stats}>
    <${Section} title="Budget" note="The whole bar is δ = 1, where nothing would be guaranteed anymore. Each part is one look.">
      <${BudgetBar} parts=${parts} total=${1} label=${text} /><p class="small muted">${text}.</p></${Section}>
    <${Section} title="Looks"><${Table} caption="Looks, newest first" columns=${COLUMNS} rows=${ledger.data} rowKey=${(look) => look.job_id} param="none" /><${Pager} page=${ledger} /></${Section}>`;
}
