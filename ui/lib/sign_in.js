// The sign-in of a server with API keys.

import { html, useEffect, useState } from './html.js';
import { signIn } from './api.js';
import { Logo } from './icons.js';
import { Field, Button } from './components.js';

/** Asks for an API key. It is kept in memory and is gone when the tab is closed or loaded again. */
export function SignIn({ rejected }) {
  const [value, setValue] = useState('');
  const [state, setState] = useState({ busy: false, error: rejected ? 'The key is no longer valid. It may have been revoked.' : null });
  useEffect(() => {
    document.title = 'Sign in · Guarantor';
    document.getElementById('sign-in')?.querySelector('input')?.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try {
      await signIn(value);
    } catch (problem) {
      const wrong = problem.status === 401 ? 'The server does not know this key. Check that all of it was copied.' : problem.detail;
      setState({ busy: false, error: wrong });
    }
  };
  return html`<main class="sign-in"><form class="card" id="sign-in" onSubmit=${submit}>
    <span class="brand"><${Logo} />Guarantor</span>
    <div class="stack">
      <div><h1>Sign in</h1><p class="lead">This server asks for an API key. Its operator creates one with <code>guarantor keys create</code>.</p></div>
      <${Field} label="API key" error=${state.error} hint="It stays in the memory of this tab. Loading the page again asks for it again.">
        ${(attributes) => html`<input ...${attributes} type="password" autocomplete="off" spellcheck="false" required value=${value} onInput=${(event) => setValue(event.target.value)} />`}
      </${Field}>
      <button type="submit" class="button button-primary" disabled=${state.busy}>${state.busy ? 'Checking…' : 'Sign in'}</button>
    </div>
  </form></main>`;
}
