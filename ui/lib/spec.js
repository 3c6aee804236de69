// The specification of a job as a form: which fields there are, and the body that they describe. Names, ranges and descriptions of
// further fields come from the OpenAPI document that the server serves.

import { toNumber } from './form.js';
import * as format from './format.js';

/** Fields that the form shows itself. */
export const OWN = ['dataset_id', 'kind', 'candidates', 'independent_of_log', 'delta', 'min_improvement', 'objective', 'guardrails', 'metadata'];
/** Further fields with one value: a number or a word. */
const SIMPLE = ['bound', 'looks', 'policy_class', 'explore', 'tau', 'xi', 'seed'];

/** A schema without references and without the alternative null. */
function resolved(schema, document) {
  if (!schema) return null;
  if (schema.$ref) return { ...document.components.schemas[schema.$ref.split('/').pop()], ...(schema.description ? { description: schema.description } : {}) };
  const choice = (schema.oneOf || schema.anyOf)?.filter((each) => each.type !== 'null');
  return choice?.length === 1 ? resolved(choice[0], document) : schema;
}

/** `{ name, hint, options }` of the further fields that this server knows. */
export function furtherFields(document) {
  const properties = document?.components.schemas.JobRequest?.properties || {};
  return SIMPLE.filter((name) => properties[name]).map((name) => {
    const schema = resolved(properties[name], document);
    const range = schema.minimum !== undefined && schema.maximum !== undefined && schema.maximum < 1e6 ? ` ${format.number(schema.minimum)} to ${format.number(schema.maximum)}.` : '';
    return { name, hint: plain(`${schema.description || ''}${range}`), options: schema.enum };
  });
}

/** Without the marks of code, which a hint does not show. */
const plain = (text) => text.replace(/`/g, '').replace(/\s+/g, ' ').trim();

/** Whether the server accepts amounts with a unit, and not only numbers. */
export function acceptsUnits(document) {
  const schema = document?.components.schemas.JobRequest?.properties?.min_improvement;
  return Boolean(schema && /"unit"|\$ref/.test(JSON.stringify(schema)));
}

/** The empty form. */
export const EMPTY = { dataset_id: '', kind: 'learn', logged: [], policies: [], independent: false, delta: '', amount: '', unit: 'risk', objective: '', guardrails: [], metadata: '', more: '', further: {} };

/** The form of the spec of another job, in which every amount is in the paper's units. */
export function formOf({ spec }) {
  const { dataset_id, dataset_version, kind, candidates = [], independent_of_log, delta, min_improvement, objective, guardrails = [], metadata, logging, seed, bound, looks, policy_class, explore, tau, xi, ...rest } = spec;
  const share = typeof explore === 'object' && explore !== null ? (explore.with === 'uniform' ? explore.share : undefined) : explore;
  const other = explore && share === undefined ? { explore } : {};
  const more = { ...rest, ...other };
  const further = Object.fromEntries(Object.entries({ bound, looks, policy_class, explore: share, tau, xi, seed }).filter(([, value]) => value !== undefined && value !== null).map(([name, value]) => [name, String(value)]));
  return {
    ...EMPTY, dataset_id, kind, delta: rest.family ? '' : String(delta), amount: String(min_improvement ?? ''), objective: objective || '',
    logged: candidates.filter((each) => each.kind === 'logged').map((each) => each.name), policies: candidates.filter((each) => each.kind === 'policy').map((each) => each.policy_id),
    independent: Boolean(independent_of_log), guardrails: guardrails.map((each) => ({ outcome: each.outcome, amount: String(each.max_loss), unit: 'risk' })),
    metadata: Object.keys(metadata || {}).length > 0 ? JSON.stringify(metadata) : '', more: Object.keys(more).length > 0 ? JSON.stringify(more, null, 2) : '', further,
  };
}

/** An amount as it is sent: a number in the paper's units, or with its unit. A server that knows no units gets it converted. */
function sent(amount, unit, outcome, units) {
  const value = toNumber(amount);
  if (value === undefined || unit !== 'outcome') return value;
  if (units) return { value, unit: 'outcome' };
  return typeof value === 'number' && outcome ? value / (outcome.max - outcome.min) : value;
}

/** The outcome that a name means: of the named ones, or the only one. */
export function outcomeOf(dataset, name) {
  const named = dataset?.capabilities.outcomes || [];
  return named.find((each) => each.name === name) || named[0] || dataset?.outcome;
}

/** The body of `POST /v1/jobs` that the form describes. Fields that are left empty are left out: the server has their defaults. */
export function bodyOf(form, { dataset, units, metadata, more }) {
  const candidates = [...form.logged.map((name) => ({ kind: 'logged', name })), ...form.policies.map((id) => ({ kind: 'policy', policy_id: id }))];
  const evaluate = form.kind === 'evaluate';
  const further = Object.entries(form.further).filter(([name, value]) => value !== '' && !(evaluate && ['policy_class', 'explore'].includes(name)));
  const words = (value) => (/^[a-z_]+$/.test(value) ? value : toNumber(value));
  const guardrails = form.guardrails.map((each) => ({ outcome: each.outcome, max_loss: sent(each.amount, each.unit, outcomeOf(dataset, each.outcome), units) }));
  const body = {
    dataset_id: form.dataset_id || undefined, kind: evaluate ? 'evaluate' : undefined, candidates: evaluate ? candidates : undefined,
    independent_of_log: evaluate && form.independent ? true : undefined, delta: toNumber(form.delta), min_improvement: sent(form.amount, form.unit, outcomeOf(dataset, form.objective), units),
    objective: form.objective || undefined, guardrails: guardrails.length > 0 ? guardrails : undefined, ...Object.fromEntries(further.map(([name, value]) => [name, words(value)])), ...more, metadata,
  };
  return JSON.parse(JSON.stringify(body));
}
