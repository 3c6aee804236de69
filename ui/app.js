// The entry: chooses the page of the current path, and shows the sign-in if the server asks for a key.

import { settled } from './early.js';
import { html, render, useEffect, useErrorBoundary, useState } from './lib/html.js';
import { connection, session } from './lib/api.js';
import { followLinks, useLocation } from './lib/router.js';
import { useStore } from './lib/store.js';
import { Alert, Button, Loading, Page } from './lib/components.js';
import { Shell } from './lib/shell.js';
import { SignIn } from './lib/sign_in.js';
import { load, loadAll, pageOf } from './pages/index.js';

/** How long the first answers may delay the first rendering, in milliseconds. */
const PATIENCE = 60;

function Missing({ path }) {
  return html`<${Page} title="Not found" lead=${`There is no page ${path}.`} actions=${html`<${Button} href="/">Home</${Button}>`} />`;
}

/** The page of a path, with the parameters in it and the query. */
function Current({ path, query }) {
  const [error, reset] = useErrorBoundary((failure) => console.error(failure));
  const [, setArrivals] = useState(0);
  useEffect(() => {
    reset();
    // Screen readers and keyboards go on at the top of the new page, except at the very start.
    if (window.scrollY > 0) window.scrollTo(0, 0);
    if (document.body.dataset.visited) document.querySelector('h1')?.focus({ preventScroll: true });
    document.body.dataset.visited = 'yes';
  }, [path]);
  if (error) {
    return html`<${Page} title="This page broke"><${Alert} tone="bad" title="The page cannot be shown." actions=${html`<${Button} onClick=${() => window.location.reload()}>Load again</${Button}>`}>
      <p>${String(error.message || error)}</p><p>Please report it with the address of the page.</p></${Alert}></${Page}>`;
  }
  const page = pageOf(path);
  if (!page) return html`<${Missing} path=${path} />`;
  const { Component } = page;
  return Component ? html`<${Component} key=${path} ...${page.parameters} query=${query} />` : html`<${Arriving} key=${page.name} name=${page.name} onArrival=${() => setArrivals((count) => count + 1)} />`;
}

/** A page whose module is still on its way. */
function Arriving({ name, onArrival }) {
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    load(name).then(onArrival, () => setFailed(true));
  }, [name]);
  if (!failed) return html`<${Loading} />`;
  return html`<${Page} title="Not loaded"><${Alert} tone="bad" title="This page cannot be loaded now." actions=${html`<${Button} onClick=${() => window.location.reload()}>Load again</${Button}>`}>
    <p>The server cannot be reached, or it was replaced by another version.</p></${Alert}></${Page}>`;
}

function App() {
  const { path, query } = useLocation();
  const state = useStore(session);
  const online = useStore(connection) === 'online';
  if (state === 'needed' || state === 'rejected') return html`<${SignIn} rejected=${state === 'rejected'} />`;
  return html`<${Shell} path=${path} online=${online} signedIn=${state === 'signed_in'}><${Current} path=${path} query=${query} /></${Shell}>`;
}

followLinks();
const first = pageOf(window.location.pathname.replace(/(.)\/+$/, '$1'));
// Its module was announced in the page's head. If it does not come, the page says so. What it shows was asked for at the same time; a quick
// answer is worth a moment, because the page is then drawn once and not twice.
if (first) await Promise.all([load(first.name).catch(() => {}), settled(PATIENCE)]);
render(html`<${App} />`, document.getElementById('app'));
// The other pages follow when there is nothing else to do.
const idle = window.requestIdleCallback || ((then) => setTimeout(then, 500));
idle(() => loadAll().catch(() => {}));
