// Paths of the History API. Every state of a page that is worth a link is in its path or its query, so that a
// reload and a link show the same. The server answers each of these paths with index.html; `src/http/ui.rs` has the
// same list of first segments.

import { href } from './paths.js';
import { store, useStore } from './store.js';

export { href } from './paths.js';

const SECTIONS = ['', 'upload', 'datasets', 'jobs', 'policies', 'gates', 'webhooks'];

const read = () => ({
  path: window.location.pathname.replace(/(.)\/+$/, '$1'),
  query: Object.fromEntries(new URLSearchParams(window.location.search)),
});

const current = store(read());

/** Whether the dashboard has this path; all other paths are left to the browser. */
export const isOwn = (path) => SECTIONS.includes(path.split('/')[1]);

/** Goes to a path of the dashboard. */
export function navigate(to, { replace = false } = {}) {
  window.history[replace ? 'replaceState' : 'pushState'](null, '', to);
  current.set(read());
}

/** Changes parameters of the query and keeps the others. By default it adds no entry to the history. */
export function setQuery(changes, { replace = true } = {}) {
  const { path, query } = current.get();
  navigate(href(path, { ...query, ...changes }), { replace });
}

/** The current `{ path, query }`. */
export const useLocation = () => useStore(current);

/**
 * The parameters of `path` if it has the form of `pattern`, such as `/jobs/:id`; otherwise null.
 */
export function match(pattern, path) {
  const [want, have] = [pattern.split('/'), path.split('/')];
  if (want.length !== have.length) return null;
  const parameters = {};
  for (let i = 0; i < want.length; i += 1) {
    if (want[i].startsWith(':')) {
      try {
        parameters[want[i].slice(1)] = decodeURIComponent(have[i]);
      } catch {
        return null;
      }
    } else if (want[i] !== have[i]) {
      return null;
    }
  }
  return parameters;
}

/** Follows links to the dashboard's own pages without loading the page again. Call it once. */
export function followLinks() {
  window.addEventListener('popstate', () => current.set(read()));
  document.addEventListener('click', (event) => {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    const link = event.target instanceof Element ? event.target.closest('a[href]') : null;
    if (!plain || event.defaultPrevented || !link || link.target || link.hasAttribute('download')) return;
    const url = new URL(link.href, window.location.href);
    if (url.origin !== window.location.origin || !isOwn(url.pathname)) return;
    if (url.hash && url.pathname === window.location.pathname) return;
    event.preventDefault();
    navigate(url.pathname + url.search);
  });
}
