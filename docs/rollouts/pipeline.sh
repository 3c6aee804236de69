#!/usr/bin/env bash
# Any other pipeline: submit, wait, ask the gate. Exits 0 only for deploy.
# Usage: GUARANTOR_URL=http://… GUARANTOR_API_KEY=… pipeline.sh DATASET_ID [SPEC_FIELDS_JSON]
set -euo pipefail
dataset=${1:?the id of the dataset}
spec=$(jq -n --arg id "$dataset" --argjson more "${2:-{\}}" '{dataset_id: $id} + $more')
auth=(-H "Authorization: Bearer ${GUARANTOR_API_KEY:-}")

job=$(curl --fail-with-body -sS "${auth[@]}" -H 'content-type: application/json' \
  -H "Idempotency-Key: ${CI_JOB_ID:-$(date +%s%N)}" -d "$spec" "$GUARANTOR_URL/v1/jobs" | jq -er .id)
until curl --fail-with-body -sS "${auth[@]}" "$GUARANTOR_URL/v1/jobs/$job?wait=60" |
  jq -e '.status == "succeeded" or .status == "failed" or .status == "cancelled"' >/dev/null; do :; done
curl --fail-with-body -sS "${auth[@]}" "$GUARANTOR_URL/v1/jobs/$job/gate"
