// The frame around every page: navigation, the switch of colors, and the banner while the server is away.

import { html, classes, useEffect, useState } from './html.js';
import { signOut } from './api.js';
import { Icon, Logo } from './icons.js';
import { useResource } from './events.js';

const PAGES = [
  ['/', 'home', 'Home'],
  ['/datasets', 'data', 'Datasets'],
  ['/jobs', 'jobs', 'Jobs'],
  ['/policies', 'policy', 'Policies'],
  ['/gates', 'gate', 'Gates'],
  ['/webhooks', 'link', 'Webhooks'],
];
const ACTIONS = [
  ['/upload', 'upload', 'Upload a log'],
  ['/jobs/new', 'plus', 'New job'],
];
const THEMES = [['', 'auto', 'Colors of the system'], ['light', 'sun', 'Light colors'], ['dark', 'moon', 'Dark colors']];
const THEME = 'guarantor-theme';

// Only the choice of colors is stored.
const stored = () => {
  try {
    return localStorage.getItem(THEME) || '';
  } catch {
    return '';
  }
};

function apply(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

apply(stored());

function ThemeSwitch() {
  const [theme, setTheme] = useState(stored);
  const choose = (next) => {
    setTheme(next);
    apply(next);
    try {
      localStorage.setItem(THEME, next);
    } catch {
      // Storage may be off; the choice then lasts for the tab.
    }
  };
  return html`<fieldset class="theme"><legend class="offscreen">Colors</legend>${THEMES.map(([value, icon, label]) => html`<label key=${icon} title=${label}>
    <input type="radio" name="theme" value=${value} checked=${theme === value} onChange=${() => choose(value)} aria-label=${label} /><${Icon} name=${icon} size=${16} /></label>`)}</fieldset>`;
}

function isCurrent(to, path) {
  if (to === '/' || path === '/jobs/new' || to === '/jobs/new') return path === to;
  return path === to || path.startsWith(`${to}/`);
}

const Links = ({ links, path }) => html`<ul>${links.map(([to, icon, text]) => html`<li key=${to}><a href=${to} aria-current=${isCurrent(to, path) ? 'page' : undefined}><${Icon} name=${icon} />${text}</a></li>`)}</ul>`;

/** The frame of all pages. */
export function Shell({ path, online, signedIn, children }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  const { data: health } = useResource('/healthz');
  return html`<a class="skip" href="#main">Skip to the content</a>
    <div class="shell">
      <div class=${classes('side', open && 'open')}>
        <a class="brand" href="/"><${Logo} />Guarantor</a>
        <button type="button" class="icon-button menu-button" aria-expanded=${open ? 'true' : 'false'} aria-controls="side-nav" aria-label="Menu" onClick=${() => setOpen(!open)}><${Icon} name=${open ? 'cross' : 'menu'} /></button>
        <nav class="nav" id="side-nav" aria-label="Pages"><${Links} links=${PAGES} path=${path} /></nav>
        <nav class="nav" aria-label="Start something"><${Links} links=${ACTIONS} path=${path} /></nav>
        <footer class="side-foot">
          ${signedIn && html`<button type="button" class="link-button" onClick=${signOut}>Sign out</button>`}
          <${ThemeSwitch} />
          <ul><li><a href="/docs" target="_blank" rel="noopener">API</a></li>${health && html`<li>Version ${health.version}</li>`}</ul>
        </footer>
      </div>
      <main class="main" id="main" tabindex="-1">
        ${!online && html`<div class="banner" role="status"><${Icon} name="spin" size=${16} />The server cannot be reached. This page goes on by itself when it is back.</div>`}
        ${children}
      </main>
    </div>`;
}
