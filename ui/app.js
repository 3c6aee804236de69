// The entry: chooses the page of the current path, and shows the sign-in if the server asks for a key.

import { html, render, useEffect, useErrorBoundary } from './lib/html.js';
import { connection, session } from './lib/api.js';
import { followLinks, match, useLocation } from './lib/router.js';
import { useStore } from './lib/store.js';
import { Alert, Button, Page } from './lib/components.js';
import { Shell } from './lib/shell.js';
import { SignIn } from './lib/sign_in.js';
import { ROUTES } from './pages/index.js';

function Missing({ path }) {
  return html`<${Page} title="Not found" lead=${`There is no page ${path}.`} actions=${html`<${Button} href="/">Home</${Button}>`} />`;
}

/** The page of a path, with the parameters in it and the query. */
function Current({ path, query }) {
  const [error, reset] = useErrorBoundary((failure) => console.error(failure));
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
  for (const [pattern, Component] of ROUTES) {
    const parameters = match(pattern, path);
    if (parameters) return html`<${Component} key=${path} ...${parameters} query=${query} />`;
  }
  return html`<${Missing} path=${path} />`;
}

function App() {
  const { path, query } = useLocation();
  const state = useStore(session);
  const online = useStore(connection) === 'online';
  if (state === 'needed' || state === 'rejected') return html`<${SignIn} rejected=${state === 'rejected'} />`;
  return html`<${Shell} path=${path} online=${online} signedIn=${state === 'signed_in'}><${Current} path=${path} query=${query} /></${Shell}>`;
}

followLinks();
render(html`<${App} />`, document.getElementById('app'));
