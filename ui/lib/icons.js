// Icons as strokes of 24 by 24. They are decoration: the words are beside them.

import { html } from './html.js';

const PATHS = {
  home: 'M3 11 12 4l9 7M6 9.5V20h12V9.5',
  upload: 'M12 16V4m-5 5 5-5 5 5M4 16v4h16v-4',
  data: 'M4 6c0-4 16-4 16 0v12c0 4-16 4-16 0zm0 0c0 4 16 4 16 0M4 12c0 4 16 4 16 0',
  jobs: 'M4 19V9m5.3 10V5m5.4 14v-7M20 19V8',
  policy: 'M5 6h6m4 0h4M5 12h2m4 0h8M5 18h8m4 0h2M11 3.5v5M9 9.5v5M15 15.5v5',
  gate: 'M4 20V6m16 14V6M4 9h16M8 9v11m4-11v11m4-11v11',
  plus: 'M12 5v14M5 12h14',
  check: 'm5 12.5 4.5 4.5L19 7',
  cross: 'M6 6l12 12M18 6 6 18',
  dash: 'M6 12h12',
  hold: 'M9 6v12m6-12v12',
  warn: 'M12 4 2.5 20h19zM12 10v4.5m0 2.6v.2',
  info: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 8v5.5m0-8.8v.2',
  copy: 'M9 9h11v11H9zM15 9V4H4v11h5',
  download: 'M12 4v12m-5-5 5 5 5-5M4 20h16',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zm0-6v2.5m0 15V22M2 12h2.5m15 0H22M5 5l1.8 1.8m10.4 10.4L19 19M5 19l1.8-1.8M17.2 6.8 19 5',
  moon: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
  auto: 'M12 3a9 9 0 1 0 0 18zm0 0a9 9 0 0 1 0 18M14 7h3m-3 5h6.5M14 17h3',
  right: 'm9 5 7 7-7 7',
  down: 'm5 9 7 7 7-7',
  up: 'm5 15 7-7 7 7',
  menu: 'M4 7h16M4 12h16M4 17h16',
  key: 'M8 10a4.5 4.5 0 1 0 0 8.9A4.5 4.5 0 0 0 8 10zm3.2 1.3L20 3m-4 3.6 3 3',
  exit: 'M14 4h6v16h-6M4 12h11m-4-4 4 4-4 4',
  clock: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm0 4v5.5l3.5 2',
  spin: 'M12 3a9 9 0 1 1-9 9',
  print: 'M7 9V4h10v5M7 17H4V9h16v8h-3M7 14h10v6H7z',
  trash: 'M4 7h16M9 7V4h6v3M6.5 7l1 13h9l1-13M10 11v5m4-5v5',
  link: 'M10 14a4 4 0 0 0 6 .5l3-3a4.2 4.2 0 0 0-6-6l-1 1m2 3.5a4 4 0 0 0-6-.5l-3 3a4.2 4.2 0 0 0 6 6l1-1',
};

/** An icon by name. */
export function Icon({ name, size = 18 }) {
  return html`<svg class=${`icon icon-${name}`} width=${size} height=${size} viewBox="0 0 24 24" fill="none" stroke="currentColor"
    stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

/** The product's shield. */
export const Logo = () => html`<svg class="logo" width="26" height="26" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
  <path class="logo-shield" d="M16 2 4 6.5v8.3C4 22.2 9 28 16 30c7-2 12-7.8 12-15.2V6.5z" />
  <path class="logo-tick" d="m9.8 16.2 4.4 4.4 8-9" />
</svg>`;
