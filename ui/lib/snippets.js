// Commands and files to copy: the API by curl, and gates in rollout tools. They name this server as the reader reached it.

import { session } from './api.js';

/** The address of this server. */
export const origin = () => window.location.origin;

/** A text as one word of a shell. */
export const quoted = (text) => `'${text.replace(/'/g, `'\\''`)}'`;

const authorization = () => (session.get() === 'signed_in' ? ['-H "Authorization: Bearer $GUARANTOR_API_KEY"'] : []);

/** JSON on one line if it is short. */
function json(body) {
  const text = JSON.stringify(body);
  return text.length <= 32 ? text : JSON.stringify(body, null, 2);
}

/** A curl command on several lines. Where a key is needed, it comes from the environment, never from this tab. */
export function curl(method, path, body) {
  const parts = [`curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(origin() + path)}`, ...authorization()];
  if (body !== undefined) parts.push("-H 'content-type: application/json'", `-d ${quoted(json(body))}`);
  return parts.join(' \\\n  ');
}

/** A curl command that fails unless the gate is open. */
export const gateCurl = (path) => [`curl --fail-with-body -sS ${quoted(origin() + path)}`, ...authorization()].join(' \\\n  ');

/** An AnalysisTemplate of Argo Rollouts that asks a gate once a minute, for half an hour at most. */
export const argo = (path) => `apiVersion: argoproj.io/v1alpha1
kind: AnalysisTemplate
metadata:
  name: guarantor-gate
spec:
  args:
    - name: api-key
      valueFrom:
        secretKeyRef: { name: guarantor, key: api-key }
  metrics:
    - name: guaranteed-improvement
      count: 1
      interval: 60s
      consecutiveErrorLimit: 30
      failureLimit: 0
      successCondition: result == true
      provider:
        web:
          url: "${origin()}${path}"
          timeoutSeconds: 10
          headers:
            - key: Authorization
              value: "Bearer {{args.api-key}}"
          jsonPath: "{$.ok}"
`;

/** A webhook of Flagger. It sends no headers, so it asks a standing gate by a token. */
export const flagger = (url = `${origin()}/v1/gate/gt_TOKEN`) => `analysis:
  webhooks:
    - name: guarantor-gate
      type: confirm-rollout
      url: ${url}
      timeout: 30s
`;
