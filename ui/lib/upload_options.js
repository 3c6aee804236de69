// The options of a log that are the same for a file and for objects that the server reads.

import { html } from './html.js';
import { Field } from './components.js';

/** The values of the form, from what is known about the log. */
export const start = (found) => ({
  name: found.name, format: found.format, encoding: found.encoding, logging: 'adaptive', repetitions: 'decisions', exact: false, actions: '', dims: '', policy: '',
  outcome: found.outcome, min: '', max: '',
  outcomes: found.outcomes.map(({ name, seen }) => ({ name, kind: 'reward', min: '0', max: seen && seen.most > 1 ? String(seen.most) : '1', cap: '' })),
});

/** The options of the API, without the format and the outcomes. What is empty has its default. */
export const optionsOf = (form) => ({
  name: form.name, n_actions: form.actions, hash_dims: form.dims, logging_policy_id: form.policy,
  logging: form.logging === 'adaptive' ? '' : form.logging, repetitions: form.repetitions === 'decisions' ? '' : form.repetitions,
  exact_propensities: form.exact ? 'true' : '',
});

/** What the log does not say about itself. */
export const Attestations = ({ form, set, problem }) => html`
  <fieldset class="stack"><legend>What you know about the log</legend>
    <label class="check"><input type="checkbox" checked=${form.logging === 'fixed'} onChange=${(e) => set({ logging: e.target.checked ? 'fixed' : 'adaptive' })} />
      <span><strong>One policy logged every row,</strong> and traffic came from one distribution. <span class="muted">You attest it on every certificate; sharper bounds can then be used. If the policy changed or was retrained, leave it open.</span></span></label>
    <label class="check"><input type="checkbox" checked=${form.repetitions === 'designed'} onChange=${(e) => set({ repetitions: e.target.checked ? 'designed' : 'decisions' })} />
      <span><strong>Contexts were logged several times by design.</strong> <span class="muted">Their number was chosen without looking at actions and outcomes. Contexts then count equally.</span></span></label>
    <label class="check"><input type="checkbox" checked=${form.exact} onChange=${(e) => set({ exact: e.target.checked })} />
      <span><strong>Propensities with few digits are exact.</strong> <span class="muted">Otherwise 0.333 is taken for a rounded number, and bounds allow for the rounding.</span></span></label>
    <div class="form-grid">
      <${Field} label="Number of actions" optional hint="If it is not in the rows: some actions may never have been logged." error=${problem?.field?.('n_actions')}>${(a) => html`<input ...${a} inputmode="numeric" value=${form.actions} onInput=${(e) => set({ actions: e.target.value })} />`}</${Field}>
      <${Field} label="Hashed dimensions" optional hint="For features with names. 0 ignores them." error=${problem?.field?.('hash_dims')}>${(a) => html`<input ...${a} inputmode="numeric" value=${form.dims} onInput=${(e) => set({ dims: e.target.value })} />`}</${Field}>
      <${Field} label="Logging policy" optional hint="The id of the stored policy that logged the rows." error=${problem?.field?.('logging_policy_id')}>${(a) => html`<input ...${a} value=${form.policy} onInput=${(e) => set({ policy: e.target.value })} />`}</${Field}>
    </div>
  </fieldset>`;
