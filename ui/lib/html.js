// The one place that names the vendored libraries: pages and components import from here.

import { h, render, Fragment, createContext } from '../vendor/preact/preact.js';
import htm from '../vendor/htm/htm.js';

export { h, render, Fragment, createContext };
export { useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useRef, useState } from '../vendor/preact/hooks.js';

/** Markup as a tagged template: html`<p>${text}</p>`. Values are escaped; there is no way to insert raw markup. */
export const html = htm.bind(h);

/** Joins the class names that apply. */
export const classes = (...names) => names.filter(Boolean).join(' ');
