#!/usr/bin/env bash
# Every endpoint and every error code through curl, against the real binary.
# Usage: tests/curl.sh path/to/guarantor
set -euo pipefail

BIN=${1:?the path of the guarantor binary}
WORK=$(mktemp -d)
DATA=$WORK/data
SEEN=$WORK/seen
SERVER=""
trap 'if [ -n "$SERVER" ]; then kill -9 "$SERVER" 2>/dev/null || true; fi; rm -rf "$WORK"' EXIT
touch "$SEEN"

fail() { echo "curl.sh: $*" >&2; echo "--- last response:" >&2; cat "$WORK/head" "$WORK/body" >&2 || true; exit 1; }

# start [NAME=VALUE ...]: a server on $DATA with these settings.
start() {
  : >"$WORK/out"
  env GUARANTOR_LISTEN=127.0.0.1:0 GUARANTOR_DATA_DIR="$DATA" GUARANTOR_LOG_FILTER=off "$@" \
    "$BIN" serve >"$WORK/out" &
  SERVER=$!
  for _ in $(seq 300); do
    BASE=$(sed -n 's/^Guarantor listens on //p' "$WORK/out")
    [ -n "$BASE" ] && return
    kill -0 "$SERVER" 2>/dev/null || break
    sleep 0.1
  done
  fail "the server did not start"
}
stop() { kill "-$1" "$SERVER"; wait "$SERVER" 2>/dev/null || true; SERVER=""; }

# call STATUS[/CODE] METHOD PATH [curl options]: the response must have this status and code.
call() {
  local want=$1 method=$2 path=$3 status code
  shift 3
  status=$(curl -sS -X "$method" -o "$WORK/body" -D "$WORK/head" -w '%{http_code}' "$@" "$BASE$path") || fail "curl $method $path"
  code=$(jq -r '.code? // empty' "$WORK/body" 2>/dev/null || true)
  [ "$status${code:+/$code}" = "$want" ] || fail "$method $path: wanted $want, got $status${code:+/$code}"
  grep -qi '^x-request-id: ' "$WORK/head" || fail "$method $path: no request id"
  if [ -n "$code" ]; then
    grep -qi '^content-type: application/problem+json' "$WORK/head" || fail "$method $path: not a problem document"
    echo "$code" >>"$SEEN"
  fi
}
field() { jq -er "$1" "$WORK/body"; }
is() { [ "$(field "$1")" = "$2" ] || fail "$1 is not $2"; }
header() { sed -n "s/^$1: //Ip" "$WORK/head" | tr -d '\r'; }

JSON=(-H 'content-type: application/json')
ROWS=(-H 'content-type: application/x-ndjson')
NOBODY=01890a5d-ac96-774b-bcce-b302099a8057

# A log of three actions chosen at random; which one is right depends on the sign of the feature.
log_of() { awk -v seed="$1" -v rows="$2" 'BEGIN { srand(seed + 0); for (i = 0; i < rows + 0; i++) { x = 2 * rand() - 1; a = int(3 * rand());
  r = (x > 0 && a == 1) || (x <= 0 && a == 2);
  printf "{\"x\":[%.4f,1],\"action\":%d,\"propensities\":[0.3333333333333333,0.3333333333333333,0.3333333333333334],\"reward\":%d}\n", x, a, r } }'; }
log_of 7 1500 >"$WORK/log"
log_of 8 400 >"$WORK/other"
head -n 100 "$WORK/log" >"$WORK/more"
tail -n 1 "$WORK/log" >"$WORK/one"
awk '{ print "{\"candidates\":{\"new\":0.5}}" }' "$WORK/more" >"$WORK/columns"

echo "== operations"
start
call 200 GET /livez
call 200 GET /readyz
call 200 GET /healthz
is .status ok
call 200 GET /metrics
grep -q '^guarantor_queue_depth 0' "$WORK/body" || fail "no queue depth"
call 200 GET /openapi.json
is .info.title Guarantor
jq -r '.components.schemas.Code.enum[]' "$WORK/body" | sort >"$WORK/codes"
call 200 GET /docs/
call 404/no_such_route GET /nothing
call 405/method_not_allowed PUT /v1/jobs

echo "== plans"
call 200 POST /v1/plans "${JSON[@]}" -d '{"improvement":0.02,"outcome_mean":0.1,"n_actions":4,"exploration":0.1,"rows_per_day":1000}'
is .possible true
call 200 POST /v1/plans "${JSON[@]}" -d '{"improvement":0.01,"min_improvement":0.02,"n_actions":4}'
[ "$(jq .possible "$WORK/body")" = false ] || fail "a plan for less than is required"
call 422/invalid_value POST /v1/plans "${JSON[@]}" -d '{"improvement":2,"n_actions":4}'
call 422/unknown_field POST /v1/plans "${JSON[@]}" -d '{"improvement":0.1,"n_actions":4,"rows":5}'
call 422/not_for_this_kind POST /v1/plans "${JSON[@]}" -d '{"improvement":0.1,"n_actions":4,"fraction":0.5}'
call 422/partials_rejected POST /v1/partials "${JSON[@]}" -d '{"recipe":{},"partials":[]}'
"$BIN" plan --improvement 0.02 --n-actions 4 >/dev/null || fail "guarantor plan"

echo "== policies"
call 201 POST /v1/policies "${JSON[@]}" -d '{"kind":"softmax","mean":[[0,30,-30],[0,0,0]]}'
POLICY=$(field .id)
[ "$(header location)" = "/v1/policies/$POLICY" ] || fail "location"
call 201 POST /v1/policies "${JSON[@]}" -d '{"kind":"uniform","n_actions":5,"dim":2}'
OTHER=$(field .id)
call 200 GET "/v1/policies?limit=1"
is .has_more true
call 200 GET "/v1/policies?limit=1&after=$(field .next)"
is '.data[0].id' "$POLICY"
call 200 GET "/v1/policies/$POLICY?include=mean"
is '.mean[0][1]' 30
TAG=$(header etag)
call 304 GET "/v1/policies/$POLICY?include=mean" -H "If-None-Match: $TAG"
call 200 POST "/v1/policies/$POLICY/propensities" "${JSON[@]}" -d '{"contexts":[[1,0],[-1,0]]}'
is '.propensities | length' 2
call 200 POST "/v1/policies/$POLICY/actions" "${JSON[@]}" -d '{"contexts":[[1,0]],"seed":3}'
is '.actions[0].action' 1
call 201 POST /v1/policies "${JSON[@]}" -d '{"kind":"uniform_over_sets"}'
LISTS=$(field .id)
call 200 POST "/v1/policies/$LISTS/propensities" "${JSON[@]}" -d '{"contexts":[{"actions":[{"topic":"a"},{"topic":"b"}]}]}'
is '.propensities[0][1]' 0.5
call 200 POST "/v1/policies/$LISTS/actions" "${JSON[@]}" -d '{"contexts":[{"actions":[{"id":"a"}]}],"seed":3}'
is '.actions[0].id' a
call 422/invalid_contexts POST "/v1/policies/$LISTS/actions" "${JSON[@]}" -d '{"contexts":[[1,0]]}'
call 422/invalid_policy POST /v1/policies "${JSON[@]}" -d '{"kind":"softmax","mean":[[1],[1,2]]}'
call 422/too_large POST /v1/policies "${JSON[@]}" -d '{"kind":"uniform","n_actions":1000000,"dim":1}'
call 422/invalid_contexts POST "/v1/policies/$POLICY/propensities" "${JSON[@]}" -d '{"contexts":[[1]]}'
call 400/malformed_json POST /v1/policies "${JSON[@]}" -d '{'
call 415/unsupported_media_type POST /v1/policies -H 'content-type: text/plain' -d '{}'
call 415/unsupported_encoding POST /v1/policies "${JSON[@]}" -H 'content-encoding: gzip' -d '{}'

echo "== datasets"
call 201 POST "/v1/datasets?outcome=reward&name=curl&logging=fixed" "${ROWS[@]}" --data-binary "@$WORK/log"
DATASET=$(field .id)
is .rows 1500
is .logging fixed
is .repetitions decisions
is '.ledger.shared_with | length' 0
is .n_actions 3
is .capabilities.full_propensities true
call 201 POST /v1/datasets -F 'manifest={"outcome":"reward"};type=application/json' -F "data=@$WORK/more;type=application/x-ndjson"
FORM=$(field .id)
is '.ledger.shared_with[0]' "$DATASET"
call 201 POST "/v1/datasets/$FORM/candidates" "${ROWS[@]}" --data-binary "@$WORK/columns"
is .version 2
is '.capabilities.candidates[0]' new
call 422/repeated_rows POST "/v1/datasets/$DATASET/rows" "${ROWS[@]}" --data-binary "@$WORK/log"
printf 'x0,action,propensity,cost\n0.5,1,0.25,-1\n0.25,0,0.75,0\n' | gzip >"$WORK/csv"
CSV=(-H 'content-type: text/csv' -H 'content-encoding: gzip' --data-binary "@$WORK/csv")
call 201 POST /v1/datasets "${CSV[@]}" -H "content-digest: sha-256=:$(openssl dgst -sha256 -binary "$WORK/csv" | base64):"
is .rows 2
call 204 DELETE "/v1/datasets/$(field .id)"
call 400/digest_mismatch POST /v1/datasets "${CSV[@]}" -H 'content-digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:'
jq -c '.candidates = {new: 0.5}' "$WORK/one" >"$WORK/last"
call 201 POST "/v1/datasets/$FORM/rows" "${ROWS[@]}" --data-binary "@$WORK/last"
is .version 3
is .rows 101
call 201 POST "/v1/datasets?outcome=reward&n_actions=3" "${ROWS[@]}" --data-binary "@$WORK/one"
ONE=$(field .id)
printf '%s\n' '{"action":1,"context_id":"a","propensity":0.5,"cost":-1}' '{"action":0,"context_id":"a","propensity":0.5,"cost":0}' >"$WORK/bare"
call 201 POST "/v1/datasets?logging=fixed&repetitions=designed" "${ROWS[@]}" --data-binary "@$WORK/bare"
BARE=$(field .id)
call 200 GET /v1/datasets
is '.data | length' 4
call 200 GET "/v1/datasets/$DATASET"
call 304 GET "/v1/datasets/$DATASET" -H "If-None-Match: $(header etag)"
call 422/invalid_rows POST /v1/datasets "${ROWS[@]}" --data-binary "@$WORK/log"
is '.errors[0].row' 1
is '.errors | length' 20
call 422/invalid_file POST /v1/datasets -H 'content-type: application/vnd.apache.parquet' --data-binary "@$WORK/one"
call 400/malformed_body POST /v1/datasets -H 'content-type: multipart/form-data; boundary=b' -d 'x'
call 422/unknown_policy POST "/v1/datasets?logging_policy_id=$NOBODY" "${ROWS[@]}" --data-binary "@$WORK/one"
call 400/invalid_query GET "/v1/datasets?page=1"
call 400/invalid_cursor GET "/v1/datasets?after=x"
call 404/not_found GET "/v1/datasets/$NOBODY"

echo "== jobs, certificate, gate"
call 202 POST /v1/jobs "${JSON[@]}" -H 'Idempotency-Key: first' -d "{\"dataset_id\":\"$DATASET\"}"
JOB=$(field .id)
cp "$WORK/body" "$WORK/first"
call 202 POST /v1/jobs "${JSON[@]}" -H 'Idempotency-Key: first' -d "{\"dataset_id\":\"$DATASET\"}"
cmp -s "$WORK/first" "$WORK/body" || fail "the first response was not replayed"
[ "$(header idempotent-replayed)" = true ] || fail "not marked as a replay"
call 422/idempotency_mismatch POST /v1/jobs "${JSON[@]}" -H 'Idempotency-Key: first' -d "{\"dataset_id\":\"$FORM\"}"
call 400/invalid_header POST /v1/jobs "${JSON[@]}" -H 'Idempotency-Key: a b' -d "{\"dataset_id\":\"$DATASET\"}"
call 200 GET "/v1/jobs/$JOB?wait=60"
is .status succeeded
is .result.decision deploy
call 304 GET "/v1/jobs/$JOB" -H "If-None-Match: $(header etag)"
call 200 GET "/v1/jobs?status=succeeded&decision=deploy&dataset_id=$DATASET&order=oldest"
is '.data[0].id' "$JOB"
call 200 GET "/v1/jobs/$JOB/gate"
is .ok true
is .decision deploy
is '.checks | all(.ok)' true
call 200 GET "/v1/jobs/$JOB/policy"
is .source_job_id "$JOB"
LEARNED=$(field .id)
call 200 GET "/v1/jobs/$JOB/certificate"
cp "$WORK/body" "$WORK/certificate"
call 200 POST /v1/certificates/verify "${JSON[@]}" -d "@$WORK/certificate"
is .valid true
jq '.guaranteed_improvement += 0.001' "$WORK/certificate" >"$WORK/forged"
call 200 POST /v1/certificates/verify "${JSON[@]}" -d "@$WORK/forged"
[ "$(jq .valid "$WORK/body")" = false ] || fail "a forged certificate passed"
jq ".issued.job_id = \"$NOBODY\"" "$WORK/certificate" >"$WORK/forged"
call 422/unknown_job POST /v1/certificates/verify "${JSON[@]}" -d "@$WORK/forged"
"$BIN" verify "$WORK/certificate" --url "$BASE" >/dev/null || fail "guarantor verify"
call 200 GET /v1/certificates/key
is .algorithm ed25519
cp "$WORK/body" "$WORK/key"
"$BIN" verify "$WORK/certificate" --public-key "$WORK/key" >/dev/null || fail "guarantor verify, offline"
jq ".issued.created_at = \"2020-01-01T00:00:00.000Z\"" "$WORK/certificate" >"$WORK/forged"
if "$BIN" verify "$WORK/forged" --public-key "$(jq -r .public_key "$WORK/key")" >/dev/null; then fail "a changed time passed"; fi
call 200 GET "/v1/datasets/$DATASET/ledger"
is .looks 1
is '.data[0].job_id' "$JOB"
call 200 GET "/v1/datasets/$DATASET/versions"
is '.data[-1].version' 1
FAMILY="{\"dataset_id\":\"$DATASET\",\"candidates\":[{\"kind\":\"policy\",\"policy_id\":\"$POLICY\"}],\"independent_of_log\":true,\"family\":{\"delta\":0.05,\"looks\":1}}"
call 202 POST /v1/jobs "${JSON[@]}" -d "$FAMILY"
is .spec.delta 0.05
# With another tau, because the same spec again would be a free look.
call 422/family_exhausted POST /v1/jobs "${JSON[@]}" -d "${FAMILY%\}},\"tau\":0.25}"
call 409/job_finished POST "/v1/jobs/$JOB/cancel"

echo "== gates"
call 200 GET "/v1/jobs/$JOB/gate?candidate=learned&baseline=certified&max_age=1d&version=newest&min_confidence=0.95&min_family_confidence=0.95"
is .policy_id "$LEARNED"
is .look 1
call 403/requirement_failed GET "/v1/jobs/$JOB/gate?min_improvement=0.99"
is .requirement min_improvement
is .required 0.99
call 400/invalid_query GET "/v1/jobs/$JOB/gate?max_age=soon"
call 201 POST "/v1/datasets?outcome=reward&name=gates" "${ROWS[@]}" --data-binary "@$WORK/other"
GATED=$(field .id)
call 201 POST /v1/policies "${JSON[@]}" -d '{"kind":"softmax","mean":[[0,40,-40],[0,0,0]]}'
GATED_POLICY=$(field .id)
GATED_DIGEST=$(field .digest)
call 201 POST /v1/gates "${JSON[@]}" -d "{\"name\":\"app\",\"dataset_id\":\"$GATED\",\"selector\":{\"app\":\"x\"}}"
[ "$(header location)" = /v1/gates/app ] || fail "location"
call 409/name_taken POST /v1/gates "${JSON[@]}" -d '{"name":"app","selector":{"app":"y"}}'
call 409/no_matching_job GET /v1/gates/app
call 202 POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$GATED\",\"candidates\":[{\"kind\":\"policy\",\"policy_id\":\"$GATED_POLICY\"}],\"independent_of_log\":true,\"metadata\":{\"app\":\"x\"}}"
call 200 GET "/v1/jobs/$(field .id)?wait=60"
is .result.decision deploy
call 200 GET "/v1/gates/app?policy_digest=$GATED_DIGEST"
is .policy_id "$GATED_POLICY"
call 200 GET /v1/gates
is '.data[0].name' app
call 200 GET /v1/gates/app/definition
is .delta 0.05
call 200 PUT /v1/gates/app "${JSON[@]}" -d '{"selector":{"app":"x"},"delta":0.01}'
call 403/requirement_failed GET /v1/gates/app
is .requirement delta
call 200 PUT /v1/gates/app "${JSON[@]}" -d '{"selector":{"app":"x"}}'
call 201 POST /v1/gates/app/tokens
TOKEN_URL=$(field .url)
TOKEN_ID=$(field .id)
call 200 GET "$TOKEN_URL"
call 200 POST "$TOKEN_URL" "${JSON[@]}" -d '{"phase":"Progressing"}'
is .gate app
for _ in $(seq 99); do call 201 POST /v1/gates/app/tokens; done
call 409/limit_reached POST /v1/gates/app/tokens
call 204 DELETE "/v1/gates/app/tokens/$TOKEN_ID"
call 200 GET /v1/gates/app/tokens
is '.data | length' 99
call 404/not_found GET "$TOKEN_URL"
call 204 DELETE "/v1/policies/$GATED_POLICY"
call 403/policy_gone GET /v1/gates/app
call 204 DELETE "/v1/datasets/$GATED"
call 403/dataset_gone GET /v1/gates/app
call 204 DELETE /v1/gates/app
call 404/not_found GET /v1/gates/app

echo "== objective and guardrails"
jq -c '.outcomes = {revenue: (10 * .reward), complaint: 0} | del(.reward)' <(log_of 9 1500) >"$WORK/shop"
OUTCOMES=$(jq -rn '{revenue: {kind: "reward", min: 0, max: 10}, complaint: {kind: "cost"}} | tojson | @uri')
call 201 POST "/v1/datasets?name=shop&outcomes=$OUTCOMES" "${ROWS[@]}" --data-binary "@$WORK/shop"
SHOP=$(field .id)
SHOP_DIGEST=$(field .digest)
is '.capabilities.outcomes | map(.name) | join(" ")' 'revenue complaint'
# The same rows as CSV are the same log; what is not declared, missing or out of its range is an error, and a cap defines the outcome.
jq -rs '["x0","x1","action","p0","p1","p2","outcome.revenue","outcome.complaint"], (.[] | [.x[], .action, .propensities[], .outcomes.revenue, .outcomes.complaint]) | @csv' \
  "$WORK/shop" | tr -d '"' >"$WORK/shop.csv"
call 201 POST "/v1/datasets?outcomes=$OUTCOMES" -H 'content-type: text/csv' --data-binary "@$WORK/shop.csv"
is .digest "$SHOP_DIGEST"
call 204 DELETE "/v1/datasets/$(field .id)"
jq -c '.outcomes = {revenue: (10 * .reward), complaint: 1} | del(.reward)' <(log_of 10 20) >"$WORK/shop.more"
for wrong in 'del(.outcomes.complaint)' '.outcomes.churn = 0' '.outcomes.complaint = 1.5' '.outcomes.revenue = null' '.outcomes.revenue = "1"' '.reward = 1'; do
  call 422/invalid_rows POST "/v1/datasets/$SHOP/rows" "${ROWS[@]}" --data-binary @<(jq -c "$wrong" "$WORK/shop.more")
done
call 201 POST "/v1/datasets/$SHOP/rows" "${ROWS[@]}" --data-binary "@$WORK/shop.more"
is .rows 1520
CAPPED=$(jq -rn '{revenue: {kind: "reward", cap: 5}, complaint: {kind: "cost"}} | tojson | @uri')
call 201 POST "/v1/datasets?outcomes=$CAPPED" "${ROWS[@]}" --data-binary "@$WORK/shop.more"
is '.capabilities.outcomes[0].max' 5
guarded() { call "$1" POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$SHOP\",$2}"; }
guarded 422/unknown_outcome '"objective":"churn"'
guarded 422/guardrail_is_objective '"guardrails":[{"outcome":"revenue","max_loss":0}]'
guarded 422/guardrail_repeated '"guardrails":[{"outcome":"complaint","max_loss":0},{"outcome":"complaint","max_loss":1}]'
guarded 422/too_many_guardrails "\"guardrails\":[$(for _ in $(seq 8); do printf '{"outcome":"a","max_loss":0},'; done){\"outcome\":\"a\",\"max_loss\":0}]"
guarded 422/invalid_value '"min_improvement":{"value":11,"unit":"outcome"}'
call 422/outcomes_not_named POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$DATASET\",\"objective\":\"revenue\"}"
guarded 202 '"min_improvement":{"value":0.5,"unit":"outcome"},"guardrails":[{"outcome":"complaint","max_loss":0.9}]'
GUARDED=$(field .id)
call 200 GET "/v1/jobs/$GUARDED?wait=60"
is .result.decision deploy
call 200 GET "/v1/jobs/$GUARDED/certificate"
is .objective revenue
is '.guardrails[0].outcome' complaint
is .user_units.min_improvement 0.5
call 200 GET "/v1/jobs/$GUARDED/gate?objective=revenue&guardrails=complaint=0.9"
call 403/requirement_failed GET "/v1/jobs/$GUARDED/gate?guardrails=churn=0.1"
is .requirement guardrails
call 403/requirement_failed GET "/v1/jobs/$GUARDED/gate?objective=complaint"

echo "== the command line agrees with the service"
echo '{}' >"$WORK/spec.json"
cp "$WORK/log" "$WORK/log.ndjson"
"$BIN" certify "$WORK/log.ndjson" --outcome reward --logging fixed --spec "$WORK/spec.json" --json >"$WORK/offline" || fail "certify: exit code $?"
[ "$(jq .guaranteed_improvement "$WORK/offline")" = "$(jq .guaranteed_improvement "$WORK/certificate")" ] || fail "certify and the service differ"
[ "$(jq -r .digest "$WORK/offline")" = "$(jq -r .digest "$WORK/certificate")" ] || fail "certify and the service give different digests"
echo '{"min_improvement": 0.99}' >"$WORK/spec.json"
if "$BIN" certify "$WORK/log.ndjson" --outcome reward --logging fixed --spec "$WORK/spec.json" >/dev/null; then fail "keep must exit 1"; else [ $? = 1 ] || fail "keep must exit 1"; fi
if "$BIN" certify "$WORK/missing.ndjson" 2>/dev/null; then fail "an error must exit 2"; else [ $? = 2 ] || fail "an error must exit 2"; fi

echo "== events"
curl -sS -N -H 'accept: text/event-stream' "$BASE/v1/jobs/$JOB/events" >"$WORK/stream"
head -n 3 "$WORK/stream" | grep -q '^id: 1' || fail "the stream does not start at 1"
tail -n 4 "$WORK/stream" | grep -q '^event: succeeded' || fail "the stream does not end with the job"
curl -sS -N -H 'accept: text/event-stream' -H 'last-event-id: 1' "$BASE/v1/jobs/$JOB/events" >"$WORK/resumed"
grep '^id: ' "$WORK/stream" | tail -n +2 | cmp -s - <(grep '^id: ' "$WORK/resumed") || fail "resuming lost or repeated events"
call 200 GET "/v1/jobs/$JOB/events"
is '.data[0].event' queued

echo "== decisions that are not deploy"
call 202 POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$DATASET\",\"min_improvement\":0.99}"
KEEP=$(field .id)
call 200 GET "/v1/jobs/$KEEP?wait=60"
call 403/decision_keep GET "/v1/jobs/$KEEP/gate"
[ "$(jq .ok "$WORK/body")" = false ] || fail "keep must not be ok"
ENDLESS="{\"dataset_id\":\"$DATASET\",\"bound\":\"cbb\",\"optimizer\":{\"preset\":\"paper\",\"epochs\":100000,\"max_seconds\":3600}}"
call 202 POST /v1/jobs "${JSON[@]}" -d "$ENDLESS"
LONG=$(field .id)
call 409/job_unfinished GET "/v1/jobs/$LONG/gate"
call 409/job_unfinished GET "/v1/jobs/$LONG/certificate"
call 409/in_use DELETE "/v1/datasets/$DATASET"
call 200 POST "/v1/jobs/$LONG/cancel"
call 200 GET "/v1/jobs/$LONG?wait=60"
is .status cancelled
call 424/job_cancelled GET "/v1/jobs/$LONG/gate"

echo "== specs that cannot run"
rejected() { call "422/$1" POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$2\"$3}"; }
rejected unknown_dataset "$NOBODY" ''
# A part of the rows that jobs have seen, as another dataset.
call 201 POST "/v1/datasets?outcome=reward" "${ROWS[@]}" --data-binary "@$WORK/more"
PART=$(field .id)
rejected no_fresh_rows "$PART" ''
call 204 DELETE "/v1/datasets/$PART"
rejected unknown_field "$DATASET" ',"dleta":0.1'
rejected invalid_value "$DATASET" ',"delta":2'
rejected unknown_policy "$DATASET" ",\"prior\":{\"policy_id\":\"$NOBODY\"}"
rejected policy_required "$DATASET" ',"prior":{"kind":"policy"}'
rejected policy_shape_mismatch "$DATASET" ",\"independent_of_log\":true,\"candidates\":[{\"kind\":\"policy\",\"policy_id\":\"$OTHER\"}]"
rejected policy_learned_here "$DATASET" ",\"independent_of_log\":true,\"candidates\":[{\"kind\":\"policy\",\"policy_id\":\"$LEARNED\"}]"
rejected prior_needs_logging_policy "$DATASET" ',"prior":{"kind":"logging_policy"}'
rejected family_delta_conflict "$DATASET" ',"delta":0.05,"family":{"delta":0.05,"looks":2}'
rejected not_for_this_kind "$DATASET" ',"independent_of_log":true'
rejected candidates_required "$DATASET" ',"kind":"evaluate"'
rejected attestation_required "$DATASET" ",\"candidates\":[{\"kind\":\"policy\",\"policy_id\":\"$POLICY\"}]"
rejected unknown_candidate "$DATASET" ',"independent_of_log":true,"candidates":[{"kind":"logged","name":"new"}]'
rejected learning_needs_features "$BARE" ''
rejected bound_needs_full_propensities "$BARE" ',"bound":"cbb"'
rejected bound_needs_single_interactions "$BARE" ',"bound":"catoni"'
rejected bound_needs_fixed_logging "$FORM" ',"bound":"catoni"'
rejected looks_need_anytime_bound "$FORM" ',"looks":"anytime"'
printf '%s\n' '{"x":[0.5],"action":1,"propensity":0.51,"cost":-1}' '{"x":[0.2],"action":0,"propensity":0.49,"cost":0}' >"$WORK/unstated"
call 201 POST /v1/datasets "${ROWS[@]}" --data-binary "@$WORK/unstated"
rejected actions_not_stated "$(field .id)" ',"bound":"betting","prior":{"kind":"zero"}'
printf '%s\n' '{"x":{"age":0.5},"actions":[{"id":"a"},{"id":"b"}],"action":1,"propensity":0.51,"cost":-1}' '{"x":{"age":0.2},"actions":[{"id":"a"},{"id":"b"},{"id":"c"}],"action":0,"propensity":0.33,"cost":0}' >"$WORK/sets"
call 201 POST /v1/datasets "${ROWS[@]}" --data-binary "@$WORK/sets"
SETS=$(field .id)
rejected bound_needs_fixed_actions "$SETS" ',"bound":"catoni"'
rejected bound_cannot_learn_here "$SETS" ''
rejected bound_cannot_learn_here "$ONE" ',"prior":{"kind":"split"}'

echo "== a key in use"
mkfifo "$WORK/pipe"
curl -sS -X POST -o "$WORK/slow" -H 'Idempotency-Key: slow' "${ROWS[@]}" -T "$WORK/pipe" "$BASE/v1/datasets?outcome=reward" &
SLOW=$!
exec 3>"$WORK/pipe"
cat "$WORK/one" >&3
# Until the first request has claimed the key, the second is rejected because of its rows and frees the key.
for _ in $(seq 100); do
  status=$(curl -sS -X POST -o "$WORK/body" -D "$WORK/head" -w '%{http_code}' -H 'Idempotency-Key: slow' "${ROWS[@]}" -d 'bad' "$BASE/v1/datasets?outcome=reward")
  [ "$status" = 409 ] && break
  sleep 0.1
done
call 409/idempotency_in_progress POST "/v1/datasets?outcome=reward" -H 'Idempotency-Key: slow' "${ROWS[@]}" -d 'bad'
exec 3>&-
wait "$SLOW"
call 204 DELETE "/v1/datasets/$(jq -er .id "$WORK/slow")"

echo "== a damaged store reveals nothing"
find "$DATA/blobs" -name '*certificate*' -exec rm -f {} +
call 500/damaged GET "/v1/jobs/$JOB/certificate"
call 500/damaged GET "/v1/jobs/$JOB/gate"
if grep -q -e blob -e json: -e "$DATA" "$WORK/body"; then fail "a 500 reveals internals"; fi

echo "== draining"
stop TERM
start GUARANTOR_SHUTDOWN_SECONDS=600 GUARANTOR_MAX_QUEUED_JOBS=1 GUARANTOR_MAX_QUEUED_JOBS_PER_WORKSPACE=1 GUARANTOR_MAX_JSON_BYTES=2000 GUARANTOR_MAX_ATTEMPTS=1
call 202 POST /v1/jobs "${JSON[@]}" -d "$ENDLESS"
DIES=$(field .id)
until [ "$(curl -sS "$BASE/v1/jobs/$DIES" | jq -r .status)" = running ]; do sleep 0.1; done
call 202 POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$DATASET\"}"
call 429/queue_full POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$DATASET\"}"
[ -n "$(header retry-after)" ] || fail "429 without Retry-After"
head -c 3000 /dev/zero | tr '\0' ' ' >"$WORK/large"
call 413/body_too_large POST /v1/policies "${JSON[@]}" --data-binary "@$WORK/large"
kill -TERM "$SERVER"
until [ "$(curl -sS -o "$WORK/body" -w '%{http_code}' "$BASE/readyz")" = 503 ]; do sleep 0.1; done
call 503/unavailable GET /readyz
stop KILL

echo "== a job whose process died too often"
start GUARANTOR_MAX_ATTEMPTS=1
call 200 GET "/v1/jobs/$DIES?wait=60"
is .status failed
call 424/job_failed GET "/v1/jobs/$DIES/gate"
stop TERM

echo "== too many concurrent uploads"
start GUARANTOR_MAX_CONCURRENT_UPLOADS=1
curl -sS -X POST -o "$WORK/slow" "${ROWS[@]}" -T "$WORK/pipe" "$BASE/v1/datasets?outcome=reward" &
SLOW=$!
exec 3>"$WORK/pipe"
cat "$WORK/one" >&3
until curl -sS "$BASE/metrics" | grep -q '^guarantor_uploads_running 1'; do sleep 0.1; done
call 429/too_many_uploads POST "/v1/datasets?outcome=reward" "${ROWS[@]}" -d 'bad'
[ -n "$(header retry-after)" ] || fail "429 without Retry-After"
exec 3>&-
wait "$SLOW"
call 204 DELETE "/v1/datasets/$(jq -er .id "$WORK/slow")"
stop TERM

echo "== too many streams and requests"
start GUARANTOR_MAX_STREAMS_PER_KEY=1 GUARANTOR_MAX_CONNECTIONS=4
call 202 POST /v1/jobs "${JSON[@]}" -d "$ENDLESS"
LONG=$(field .id)
SSE=(-H 'accept: text/event-stream')
: >"$WORK/held"
curl -sS -N "${SSE[@]}" "$BASE/v1/jobs/$LONG/events" >"$WORK/held" &
HELD=$!
until grep -q '^id: ' "$WORK/held"; do sleep 0.1; done
call 429/too_many_streams GET "/v1/jobs/$LONG/events" "${SSE[@]}"
[ -n "$(header retry-after)" ] || fail "429 without Retry-After"
curl -sS -o "$WORK/waited" "$BASE/v1/jobs/$LONG?wait=60" &
WAITS=$!
until curl -sS "$BASE/metrics" | grep -q '^guarantor_requests_in_progress 2'; do sleep 0.1; done
call 429/too_many_requests GET /v1/jobs
[ -n "$(header retry-after)" ] || fail "429 without Retry-After"
kill "$HELD" && wait "$HELD" 2>/dev/null || true
until curl -sS "$BASE/metrics" | grep -q '^guarantor_requests_in_progress 1'; do sleep 0.1; done
call 200 POST "/v1/jobs/$LONG/cancel"
wait "$WAITS"
stop TERM

echo "== web pages of other sites, and jobs that do not fit"
start GUARANTOR_MAX_JOB_MEMORY_BYTES=1000000
call 422/job_too_large POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$DATASET\"}"
call 403/cross_origin GET /v1/datasets -H 'Origin: http://evil.example'
call 403/cross_origin POST /v1/datasets -H 'Sec-Fetch-Site: cross-site' -F 'manifest={};type=application/json' -F "data=@$WORK/more;type=application/x-ndjson"
call 421/wrong_host GET /v1/datasets -H 'Host: evil.example'
call 200 GET /v1/datasets -H "Origin: $BASE" -H 'Sec-Fetch-Site: same-origin'
call 200 GET /livez -H 'Host: evil.example'
stop TERM

echo "== webhooks"
start
call 403/webhooks_off POST /v1/webhooks "${JSON[@]}" -d '{"url":"https://hooks.example.com/"}'
stop TERM
# Nobody listens on the port, so deliveries fail and wait for the next attempt.
start GUARANTOR_WEBHOOK_ALLOW=http://127.0.0.1:9/hook
call 422/address_not_allowed POST /v1/webhooks "${JSON[@]}" -d '{"url":"http://127.0.0.1:9/"}'
call 422/invalid_value POST /v1/webhooks "${JSON[@]}" -d '{"url":"http://127.0.0.1:9/hook/../x"}'
call 201 POST /v1/webhooks "${JSON[@]}" -d '{"url":"http://127.0.0.1:9/hook","events":["job.succeeded"],"decision":"deploy"}'
WEBHOOK=$(field .id)
field .secret | grep -q '^whsec_' || fail "no secret"
[ "$(header location)" = "/v1/webhooks/$WEBHOOK" ] || fail "location"
call 200 GET /v1/webhooks
is '.data | length' 1
call 200 GET "/v1/webhooks/$WEBHOOK"
is '.secret // "hidden"' hidden
call 202 POST "/v1/webhooks/$WEBHOOK/test"
is .type ping
DELIVERY=$(field .id)
until [ "$(curl -sS "$BASE/v1/webhooks/$WEBHOOK/deliveries" | jq -r '.data[0].attempts')" != 0 ]; do sleep 0.1; done
call 200 GET "/v1/webhooks/$WEBHOOK/deliveries"
is '.data[0].status' pending
call 200 GET "/v1/webhooks/$WEBHOOK"
is .status failing
call 202 POST "/v1/webhooks/$WEBHOOK/deliveries/$DELIVERY/redeliver"
is .id "$DELIVERY"
call 404/not_found POST "/v1/webhooks/$WEBHOOK/deliveries/$NOBODY/redeliver"
call 200 POST "/v1/webhooks/$WEBHOOK/secret"
field .secret | grep -q '^whsec_' || fail "no secret"
call 200 PUT "/v1/webhooks/$WEBHOOK" "${JSON[@]}" -d '{"url":"http://127.0.0.1:9/hook","enabled":false}'
is .status disabled
call 409/webhook_disabled POST "/v1/webhooks/$WEBHOOK/test"
call 204 DELETE "/v1/webhooks/$WEBHOOK"
call 404/not_found GET "/v1/webhooks/$WEBHOOK"
stop TERM

echo "== logs by reference"
start
call 403/sources_off POST /v1/datasets "${JSON[@]}" -d '{"source":{"uris":["s3://logs/day-1.ndjson"]}}'
stop TERM
PLACE=$WORK/place
mkdir "$PLACE"
log_of 11 300 >"$PLACE/day-1.ndjson"
log_of 12 300 >"$PLACE/day-2.ndjson"
log_of 13 300 | sed '3s/"action":[0-9]/"action":-1/' >"$PLACE/wrong.ndjson"
start GUARANTOR_SOURCES_ALLOW="file://$PLACE"
# reference URI [more members]: queues an import.
reference() { call "$1" POST /v1/datasets "${JSON[@]}" -d "{\"source\":{\"uris\":[\"file://$2\"]$3},\"outcome\":\"reward\"}"; }
reference 422/address_not_allowed "$DATA/*.ndjson" ''
reference 422/invalid_value "$PLACE/../data/x.ndjson" ''
reference 202 "$PLACE/day-*.ndjson" ''
IMPORT=$(field .id)
[ "$(header location)" = "/v1/imports/$IMPORT" ] || fail "location"
call 200 GET "/v1/imports/$IMPORT?wait=60"
is .status succeeded
is .materialize true
call 304 GET "/v1/imports/$IMPORT" -H "If-None-Match: $(header etag)"
call 200 GET "/v1/imports/$IMPORT/objects"
is '.data | length' 2
is '.data[0].uri' "file://$PLACE/day-1.ndjson"
is '.data[1].sha256' "$(sha256sum "$PLACE/day-2.ndjson" | cut -d ' ' -f 1)"
call 200 GET "/v1/datasets/$IMPORT"
is .rows 600
call 409/import_finished POST "/v1/imports/$IMPORT/cancel"
reference 202 "$PLACE/wrong.ndjson" ''
call 200 GET "/v1/imports/$(field .id)?wait=60"
is .status failed
is .error.code invalid_rows
is .error.uri "file://$PLACE/wrong.ndjson"
is '.error.errors[0].row' 3
# The first outcome that is declared is the primary one.
head -n 200 "$WORK/shop" >"$PLACE/shop.ndjson"
call 202 POST /v1/datasets "${JSON[@]}" -d "{\"source\":{\"uris\":[\"file://$PLACE/shop.ndjson\"]},\"outcomes\":{\"revenue\":{\"kind\":\"reward\",\"min\":0,\"max\":10},\"complaint\":{\"kind\":\"cost\"}}}"
SHOPPED=$(field .id)
call 200 GET "/v1/imports/$SHOPPED?wait=60"
is .status succeeded
call 200 GET "/v1/datasets/$SHOPPED"
is '.outcomes | map(.name) | join(" ")' 'revenue complaint'
reference 202 "$PLACE/day-1.ndjson" ',"materialize":false'
PINNED=$(field .id)
call 200 GET "/v1/imports/$PINNED?wait=60"
is .status succeeded
call 200 GET "/v1/datasets/$PINNED"
is .pinned true
call 422/not_for_this_kind POST "/v1/datasets/$PINNED/rows" "${ROWS[@]}" --data-binary "@$WORK/more"
# What is pinned cannot change unseen.
log_of 14 300 >"$PLACE/day-1.ndjson"
call 202 POST /v1/jobs "${JSON[@]}" -d "{\"dataset_id\":\"$PINNED\"}"
call 200 GET "/v1/jobs/$(field .id)?wait=60"
is .status failed
is .error.code source_changed
call 200 GET "/v1/imports?limit=1"
is '.data[0].id' "$PINNED"
call 404/not_found GET "/v1/imports/$NOBODY"
call 204 DELETE "/v1/datasets/$PINNED"
call 404/not_found GET "/v1/imports/$PINNED"
stop TERM

echo "== time limits"
start GUARANTOR_REQUEST_SECONDS=1 GUARANTOR_MAX_WAIT_SECONDS=0
# Ten bytes are announced, two are sent.
call 408/request_timeout POST /v1/policies "${JSON[@]}" -H 'content-length: 10' -d '{}'
stop TERM

echo "== keys"
KEY=$("$BIN" keys create --workspace a --name ci --data-dir "$DATA" 2>/dev/null)
start
call 401/unauthorized GET /v1/datasets
call 401/unauthorized GET /v1/datasets -H 'Authorization: Bearer gk_wrong'
call 200 GET /v1/datasets -H "Authorization: Bearer $KEY"
is '.data | length' 0
call 404/not_found GET "/v1/datasets/$DATASET" -H "Authorization: Bearer $KEY"
"$BIN" keys list --data-dir "$DATA" | grep -q ' a  *ci$' || fail "keys list"
for ROLE in gate read submit admin; do
  "$BIN" keys create --workspace a --name "$ROLE" --role "$ROLE" --data-dir "$DATA" >"$WORK/key-$ROLE" 2>/dev/null
  "$BIN" keys list --data-dir "$DATA" | grep -q " $ROLE  *a  *$ROLE\$" || fail "keys list: $ROLE"
done
as() { echo "Authorization: Bearer $(cat "$WORK/key-$1")"; }
call 403/role_not_sufficient GET /v1/jobs -H "$(as gate)"
is .needed_role read
call 404/not_found GET "/v1/jobs/$NOBODY/gate" -H "$(as gate)"
call 200 GET /v1/jobs -H "$(as read)"
call 403/role_not_sufficient POST /v1/policies "${JSON[@]}" -H "$(as read)" -d '{"kind":"uniform","n_actions":3,"dim":2}'
is .role read
for ROLE in submit admin; do
  call 201 POST /v1/policies "${JSON[@]}" -H "$(as "$ROLE")" -d '{"kind":"uniform","n_actions":3,"dim":2}'
done
"$BIN" keys revoke "$("$BIN" keys list --data-dir "$DATA" | awk '/ ci$/ { print $1 }')" --data-dir "$DATA" >/dev/null
call 401/unauthorized GET /v1/datasets -H "Authorization: Bearer $KEY"
stop TERM

echo "== every code was seen"
# Except `internal`, which no known request causes; a full disk, which tests/trust/disk.rs tests; too many
# verifications, which src/http/server.rs tests; a certificate of an earlier release, which
# tests/trust/upgrade.rs tests; and one whose signature does not match, which tests/service/gates tests.
sort -u "$SEEN" | comm -13 - "$WORK/codes" | grep -vx -e certificate_outdated -e internal -e insufficient_storage -e signature_invalid -e too_many_verifications >"$WORK/unmet" || true
[ ! -s "$WORK/unmet" ] || fail "no response had the code: $(tr '\n' ' ' <"$WORK/unmet")"
echo "curl.sh: ok"
