// Dialogs on the browser's own <dialog>, which keeps the focus inside and closes on Escape.

import { html, useEffect, useId, useRef } from './html.js';
import { Icon } from './icons.js';

/** A dialog that is open for as long as it is rendered. */
export function Dialog({ title, onClose, actions, children }) {
  const element = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  const outside = (event) => event.target === element.current && onClose();
  return html`<dialog ref=${element} class="dialog" aria-labelledby=${id} onCancel=${(event) => { event.preventDefault(); onClose(); }} onClick=${outside}>
    <div class="dialog-box">
      <header><h2 id=${id}>${title}</h2><button type="button" class="icon-button" aria-label="Close" onClick=${onClose}><${Icon} name="cross" /></button></header>
      <div class="dialog-body">${children}</div>
      ${actions && html`<footer class="actions">${actions}</footer>`}
    </div>
  </dialog>`;
}

/** Asks before something that cannot be undone. */
export function Confirm({ title, action, busy, onConfirm, onClose, children }) {
  const actions = html`<button type="button" class="button button-plain" onClick=${onClose}>Cancel</button>
    <button type="button" class="button button-danger" disabled=${busy} onClick=${onConfirm}>${action}</button>`;
  return html`<${Dialog} title=${title} onClose=${onClose} actions=${actions}>${children}</${Dialog}>`;
}
