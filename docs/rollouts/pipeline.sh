#!/usr/bin/env bash
# Any other pipeline: submit, wait, call the gate. Exits 0 only for deploy.
# Usage: GUARANTOR_URL=http://… GUARANTOR_API_KEY=… pipeline.sh DATASET_ID [SPEC_FIELDS_JSON]
set -euo pipefail
dataset=${1:?pass the id of the dataset}
more=${2:-}
[ -n "$more" ] || more={}
spec=$(jq -n --arg id "$dataset" --argjson more "$more" '{dataset_id: $id} + $more')
auth=(-H "Authorization: Bearer ${GUARANTOR_API_KEY:-}")

job=$(curl --fail-with-body -sS "${auth[@]}" -H 'content-type: application/json' \
  -H "Idempotency-Key: ${CI_JOB_ID:-$(date +%s%N)}" -d "$spec" "$GUARANTOR_URL/v1/jobs" | jq -er .id)
# Waits for at most two hours; the gate does not open for an unfinished job.
for _ in $(seq 120); do
  status=$(curl --fail-with-body -sS "${auth[@]}" "$GUARANTOR_URL/v1/jobs/$job?wait=60" | jq -er .status)
  case $status in queued | running) ;; *) break ;; esac
done
curl --fail-with-body -sS "${auth[@]}" "$GUARANTOR_URL/v1/jobs/$job/gate"
