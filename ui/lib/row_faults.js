// Wrong rows of a log: line numbers, what is wrong, what to do, and the line itself if the browser can read it.

import { html, useEffect, useState } from './html.js';
import { Section, Table } from './components.js';
import * as format from './format.js';

const READABLE = 8 * 1024 * 1024;
const LONGEST = 160;

/** The lines of the file that have these numbers, from its first megabytes. */
async function linesOf(file, rows) {
  const text = await file.slice(0, READABLE).text();
  const lines = text.split('\n');
  const whole = file.size <= READABLE ? lines.length : lines.length - 1;
  return new Map(rows.filter((row) => row <= whole).map((row) => [row, lines[row - 1]?.trim()]));
}

const ADVICE = {
  propensity: 'Log the probability that the action was drawn with: more than 0, at most 1.',
  propensities: 'Log one probability per action. They must sum to 1.',
  action: 'Actions are whole numbers, counted from 0.',
  reward: 'Check the range of the outcome above, or whether rows have a cost.',
  cost: 'Check the range of the outcome above, or whether rows have a reward.',
  x: 'Every row needs the same number of finite features.',
  timestamp: 'Use RFC 3339 or microseconds, and the same in every row.',
};

/** The problem `invalid_rows` with its rows: of a file of this browser, or of an object whose rows are `lines` or not. */
export function RowFaults({ problem, file, encoding, lines: given = false, actions, children }) {
  const [lines, setLines] = useState(new Map());
  const faults = problem.errors.filter((error) => error.row != null);
  // In text formats the number of a row is that of its line, also in CSV, whose header is line 1.
  const readable = Boolean(file) && !encoding && !/\.(parquet|arrows?)$/i.test(file.name);
  const text = readable || given;
  useEffect(() => {
    if (readable) linesOf(file, faults.map((fault) => fault.row)).then(setLines, () => {});
  }, [problem]);
  const columns = [
    { id: 'row', label: text ? 'Line' : 'Row', render: (fault) => format.count(fault.row) },
    { id: 'field', label: 'Field', render: (fault) => (fault.field ? html`<code class="nowrap">${fault.field}</code>` : '–') },
    { id: 'message', label: 'What is wrong', wide: true, render: (fault) => html`<div><p>${fault.message}</p>${lines.get(fault.row) && html`<p class="small"><code>${lines.get(fault.row).slice(0, LONGEST)}${lines.get(fault.row).length > LONGEST ? '…' : ''}</code></p>`}</div>` },
    { id: 'fix', label: 'What to do', wide: true, render: (fault) => ADVICE[fault.field] || 'Correct the row, or leave it out if it was not logged properly, for a reason that does not depend on its outcome.' },
  ];
  return html`<${Section} id="faults" tone="bad" title="Some rows are wrong. Nothing was stored." note=${problem.detail} actions=${actions}>
    ${children}
    <div role="alert" class="offscreen">Some rows are wrong. ${problem.detail}</div>
    <${Table} caption="Wrong rows" columns=${columns} rows=${faults} rowKey=${(fault) => `${fault.row}-${fault.field}-${fault.message}`} param="none" />
  </${Section}>`;
}
