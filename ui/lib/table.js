// Tables of records, sorted in the browser, and pages by cursor.

import { html, classes, useEffect, useMemo, useState } from './html.js';
import { Icon } from './icons.js';
import { listPath } from './paths.js';
import { href, setQuery, useLocation } from './router.js';
import { useResource } from './events.js';

/**
 * A table. Columns are `{ id, label, render(row), sort(row), align, wide }`: with `sort`, a click on the head sorts by it, and the
 * order is in the query as `sort=id` or `sort=-id`. A list that comes in pages is sorted by the server: such a column has
 * `sorted`, `ascending` or `descending` or nothing, and `onSort` instead. On a narrow screen each row becomes a card with the labels.
 */
export function Table({ caption, columns, rows, rowKey = (row) => row.id, param = 'sort', empty }) {
  const { query } = useLocation();
  const order = query[param] || '';
  const [name, down] = order.startsWith('-') ? [order.slice(1), true] : [order, false];
  const column = columns.find((each) => each.id === name && each.sort);
  const sorted = useMemo(() => (column ? [...rows].sort((a, b) => compare(column.sort(a), column.sort(b)) * (down ? -1 : 1)) : rows), [rows, column?.id, down]);
  const shown = useShown(sorted);
  const click = (each) => (each.onSort ? each.onSort() : setQuery({ [param]: name !== each.id ? each.id : down ? '' : `-${each.id}` }));
  const state = (each) => (each.onSort ? each.sorted : each !== column ? undefined : down ? 'descending' : 'ascending');
  if (rows.length === 0 && empty) return empty;
  return html`<div class="table-box"><table class="table">
    <caption class="offscreen">${caption}</caption>
    <thead><tr>${columns.map((each) => html`<th key=${each.id} scope="col" class=${each.align === 'right' ? 'right' : ''} aria-sort=${state(each)}>
      ${each.sort || each.onSort ? html`<button type="button" class="sort" onClick=${() => click(each)}>${each.label}<${Icon} name=${state(each) === 'descending' ? 'down' : 'up'} size=${12} /></button>` : each.label}</th>`)}</tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${rowKey(row)}>${columns.map((each, i) => cell(each, row, i))}</tr>`)}</tbody>
  </table></div>`;
}

/** More rows than fit a screen. The rest follows after these are painted, so that data is seen sooner. */
const FIRST = 14;

function useShown(rows) {
  const [all, setAll] = useState(false);
  useEffect(() => setAll(true), []);
  return all ? rows : rows.slice(0, FIRST);
}

function cell(column, row, i) {
  const attributes = { 'data-label': column.label, class: classes(column.align === 'right' && 'right', column.wide && 'wide', column.class) };
  const content = column.render(row);
  return i === 0 ? html`<th scope="row" ...${attributes}>${content}</th>` : html`<td ...${attributes}>${content}</td>`;
}

/** Numbers by size, text by the alphabet, and what is missing last. */
function compare(a, b) {
  const missing = (value) => value === null || value === undefined || Number.isNaN(value);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

/**
 * A page of a list of the API, `{ data, has_more, next }`. The cursor is in the query as `after`, and the browser's own back
 * button leads to the page before. `filters` are further parameters.
 */
export function usePages(path, { filters, limit, every = 0 } = {}) {
  const { query } = useLocation();
  return useResource(listPath(path, { filters, limit, after: query.after }), { every });
}

/** Leads to the next page and back to the first one. */
export function Pager({ page, first = 'Newest', next = 'Older' }) {
  const { path, query } = useLocation();
  if (!page || (!page.has_more && !query.after)) return null;
  return html`<nav class="pager no-print" aria-label="Pages">
    ${query.after && html`<a class="button button-plain" href=${href(path, { ...query, after: '' })}>${first}</a>`}
    ${page.has_more ? html`<a class="button button-plain" href=${href(path, { ...query, after: page.next })}>${next}<${Icon} name="right" size=${14} /></a>` : html`<span class="muted">This is the last page.</span>`}
  </nav>`;
}
