// Tabs whose choice is in the query, so that a link leads to it. Left and right arrows move between them.

import { html, useRef } from './html.js';
import { setQuery, useLocation } from './router.js';

/** `tabs` are `{ id, label, render }`, without those that are false. The first is shown if the query names none. */
export function Tabs({ tabs, param = 'tab', label }) {
  const { query } = useLocation();
  const list = useRef(null);
  const shown = tabs.filter(Boolean);
  const active = shown.find((tab) => tab.id === query[param]) || shown[0];
  const open = (tab) => setQuery({ [param]: tab === shown[0] ? '' : tab.id });
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const ends = { Home: 0, End: shown.length - 1 }[event.key];
    if (step === undefined && ends === undefined) return;
    event.preventDefault();
    const next = ends ?? (shown.indexOf(active) + step + shown.length) % shown.length;
    open(shown[next]);
    list.current.children[next].focus();
  };
  return html`<div class="tabs">
    <div class="tab-list no-print" role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
      ${shown.map((tab) => html`<button key=${tab.id} type="button" role="tab" id=${`tab-${tab.id}`} aria-selected=${tab === active ? 'true' : 'false'}
        aria-controls=${`panel-${tab.id}`} tabindex=${tab === active ? 0 : -1} onClick=${() => open(tab)}>${tab.label}</button>`)}
    </div>
    <div class="tab-panel" role="tabpanel" id=${`panel-${active.id}`} aria-labelledby=${`tab-${active.id}`} key=${active.id}>${active.render()}</div>
  </div>`;
}
