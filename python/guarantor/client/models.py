# Generated from openapi/openapi.json by scripts/generate_models.py. Do not edit.
# ruff: noqa
# fmt: off

from __future__ import annotations

from typing import Annotated, Any, Literal

from guarantor.client._base import (
    CertificateBase,
    ImportBase,
    JobBase,
    Model,
    PlanBase,
    ReportBase,
    VerificationBase,
)
from pydantic import AwareDatetime, Field
from typing_extensions import TypeAliasType


class Action(Model):
    """
    A drawn action.
    """

    action: Annotated[int, Field(ge=0)]
    """
    The position of the action, among all actions or among those of the context.
    """
    id: str | None = None
    """
    Its id, if the context gave it one.
    """
    propensity: float
    """
    The probability with which the action was drawn. Log it with the action.
    """


class Actions(Model):
    """
    The drawn actions.
    """

    actions: list[Action]
    """
    One action per context.
    """


class Alive(Model):
    """
    The response of a health check that passed.
    """

    status: str
    """
    Always `ok`.
    """


Allowance = TypeAliasType("Allowance", str)
"""
What a standing gate is closed to unless it was told to allow it.

Known values: `accepted_checks`, `known_baseline`, `point_estimate_baseline`, `fixed_logging`, `merged_certificates`
"""


BaselineKind = TypeAliasType("BaselineKind", Literal['certified', 'known', 'point_estimate'])
"""
Where R(π0) comes from.
"""


class BaselineRisk(Model):
    """
    R(π0), the risk of the logging policy, in the paper's units.
    """

    estimate: float
    """
    The mean logged cost, or the caller's number if the kind is `known`.
    """
    kind: BaselineKind
    """
    Where the baseline comes from.
    """
    lower_bound: float | None = None
    """
    The lower bound on R(π0); null if the improvement is bounded directly, without a separate bound on
    R(π0).
    """


BoundKind = TypeAliasType("BoundKind", str)
"""
The bound that a job certifies with.

Known values: `auto`, `london_sandler`, `catoni`, `cbb`, `ix`, `log_smoothing`, `betting`
"""


BoundedQuantity = TypeAliasType("BoundedQuantity", str)
"""
What a claim bounds.

Known values: `risk`, `improvement`, `baseline_risk`, `guardrail_loss`
"""


class BreakdownStep(Model):
    """
    One step from the estimate to the guarantee.
    """

    change: float
    """
    What the step adds; negative if it takes off.
    """
    name: str
    """
    The stable name of the step: `rounding`, `bias`, `confidence`, `kl`, `baseline`, `numerical_slack` or `range`.
    """
    what: str
    """
    What the step is for, as a sentence.
    """


class CandidateLogged(Model):
    """
    A policy whose propensities the log carries under this name.
    """

    kind: Literal['logged']
    name: str
    """
    The candidate's name in the log.
    """


class CandidatePolicy(Model):
    """
    A stored policy.
    """

    kind: Literal['policy']
    policy_id: str
    """
    The id of the policy.
    """


Candidate = TypeAliasType("Candidate", CandidateLogged | CandidatePolicy)
"""
A policy that an `evaluate` job certifies.
"""


class CandidateUnits(Model):
    """
    The results of one candidate in the units of the dataset's outcome.
    """

    estimated_outcome: float
    """
    The estimate of the candidate's expected outcome, without a guarantee.
    """
    guaranteed_improvement: float
    """
    Lower bound on the candidate's improvement in expected outcome.
    """
    guaranteed_outcome: float
    """
    The candidate's worst expected outcome: an upper bound on a cost, a lower bound on a reward.
    """


CheckCode = TypeAliasType("CheckCode", str)
"""
The stable code of a check that could not be made.

Known values: `method_not_supported`
"""


CheckName = TypeAliasType("CheckName", str)
"""
What is checked.

Known values: `propensities`, `action_counts`, `candidate_weights`, `known_baseline`, `drift`, `repetitions`
"""


CheckScope = TypeAliasType("CheckScope", str)
"""
Which rows a check has seen.

Known values: `log`, `certified_rows`
"""


Code = TypeAliasType("Code", str)
"""
A code.

Known values: `malformed_json`, `malformed_body`, `invalid_query`, `invalid_cursor`, `invalid_header`, `digest_mismatch`, `unauthorized`, `decision_keep`, `role_not_sufficient`, `cross_origin`, `certificate_outdated`, `requirement_failed`, `signature_invalid`, `dataset_gone`, `policy_gone`, `webhooks_off`, `sources_off`, `not_found`, `no_such_route`, `method_not_allowed`, `request_timeout`, `idempotency_in_progress`, `in_use`, `name_taken`, `limit_reached`, `webhook_disabled`, `no_matching_job`, `job_unfinished`, `job_finished`, `import_finished`, `body_too_large`, `unsupported_media_type`, `unsupported_encoding`, `wrong_host`, `unknown_field`, `invalid_value`, `address_not_allowed`, `invalid_rows`, `repeated_rows`, `invalid_file`, `invalid_policy`, `invalid_contexts`, `too_large`, `job_too_large`, `unknown_dataset`, `unknown_policy`, `unknown_job`, `unknown_candidate`, `candidates_required`, `attestation_required`, `not_for_this_kind`, `policy_required`, `policy_learned_here`, `policy_shape_mismatch`, `prior_needs_logging_policy`, `learning_needs_features`, `bound_needs_full_propensities`, `bound_needs_single_interactions`, `bound_needs_fixed_logging`, `bound_needs_fixed_actions`, `actions_not_stated`, `looks_need_anytime_bound`, `no_fresh_rows`, `bound_cannot_learn_here`, `family_delta_conflict`, `unknown_outcome`, `outcomes_not_named`, `guardrail_is_objective`, `guardrail_repeated`, `too_many_guardrails`, `family_exhausted`, `partials_rejected`, `idempotency_mismatch`, `job_failed`, `job_cancelled`, `too_many_uploads`, `too_many_streams`, `too_many_requests`, `too_many_verifications`, `queue_full`, `internal`, `damaged`, `unavailable`, `insufficient_storage`
"""


class DatasetVersion(Model):
    """
    A version of a dataset.
    """

    contexts: Annotated[int, Field(ge=0)]
    """
    The number of distinct contexts up to this version.
    """
    created_at: AwareDatetime
    """
    When the rows or the candidates were added.
    """
    digest: str
    """
    SHA-256 of the rows of this version.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of logged interactions up to this version.
    """
    version: Annotated[int, Field(ge=0)]


Decision = TypeAliasType("Decision", Literal['deploy', 'keep'])
"""
What a certificate recommends.
"""


DeliveryStatus = TypeAliasType("DeliveryStatus", Literal['pending', 'delivered', 'failed'])
"""
The state of a delivery.
"""


class DeltaShare(Model):
    """
    The share of δ of one event.
    """

    event: str
    """
    The name of the event.
    """
    share: float
    """
    The part of δ that the event gets.
    """
    what: str
    """
    What holds outside of the event, as a sentence.
    """


Action1 = TypeAliasType("Action1", Annotated[int, Field(ge=0)])


class DriftChange(Model):
    """
    A block of rows that differs from the whole log.
    """

    evidence: float
    """
    1/p of the exact test, corrected for all blocks and statistics; at most 1e300.
    """
    expected: float
    """
    The mean in the whole log.
    """
    from_row: Annotated[int, Field(ge=0)]
    """
    The first row of the block, from 1, among the rows that count.
    """
    observed: float
    """
    The mean in the block.
    """
    significant: bool
    """
    Whether the evidence is too strong for chance.
    """
    statistic: str
    """
    What differs: `cost`, `propensity` or the share of an action, such as `action 3`.
    """
    to_row: Annotated[int, Field(ge=0)]
    """
    The last row of the block.
    """


EventKind = TypeAliasType("EventKind", str)
"""
What a webhook can be told.

Known values: `job.succeeded`, `job.failed`, `job.cancelled`, `ping`
"""


class ExpectedCount(Model):
    """
    How often an action was logged, against its propensities.
    """

    action: Annotated[int, Field(ge=0)]
    """
    The action.
    """
    count: Annotated[int, Field(ge=0)]
    """
    How often it was logged.
    """
    expected: float
    """
    The sum of its propensities.
    """
    high: float
    """
    The upper end of that interval.
    """
    low: float
    """
    The lower end of the interval in which the count of a correct log lies with a probability of 99.9%.
    """


ExploreWith = TypeAliasType("ExploreWith", Literal['uniform', 'logging_policy'])
"""
What a certified policy explores with.
"""


FailureCode = TypeAliasType("FailureCode", str)
"""
The reason why a job failed, as a stable code for clients, metrics and alerts.

Known values: `engine_error`, `dataset_unreadable`, `source_changed`, `policy_unreadable`, `job_unreadable`, `job_too_large`, `spec_outdated`, `panicked`, `attempts_exhausted`
"""


class Family(Model):
    """
    A number of looks at one dataset, announced in advance, that share one δ equally.
    """

    delta: Annotated[float, Field(ge=1e-12, le=0.999)]
    """
    δ of all looks together.
    """
    looks: Annotated[int, Field(ge=1, le=10000)]
    """
    The maximum number of looks; each gets `delta`/`looks`.
    """


class FamilyPlace(Model):
    """
    The family of a look, and how many of its looks are taken.
    """

    delta: float
    """
    The δ of all looks of the family together.
    """
    looks: Annotated[int, Field(ge=0)]
    """
    How many looks the family has.
    """
    taken: Annotated[int, Field(ge=0)]
    """
    How many of them are taken, including this one if it was not free.
    """


class Fault(Model):
    """
    One error in a request.
    """

    field: str | None = None
    """
    The field, dotted, as in the request.
    """
    message: str
    """
    What is wrong with it.
    """
    row: Annotated[int | None, Field(ge=0)] = None
    """
    The row, 1-based, as in the file.
    """


class FeatureMapIdentity(Model):
    """
    φ(x) = x.
    """

    kind: Literal['identity']


class FeatureMapStandardized(Model):
    """
    φ(x) = (s, 1) with s = clip((x − center)·inverse_scale, ±5).
    """

    center: list[float]
    """
    The number that is subtracted from each feature.
    """
    inverse_scale: list[float]
    """
    The number that each centered feature is multiplied by.
    """
    kind: Literal['standardized']


class FeatureMapHidden(Model):
    """
    φ(x) = (max(s·weights + bias, 0), 1) with s as in `standardized`; `weights` has p rows of h numbers.
    """

    bias: list[float]
    """
    The bias of each hidden unit.
    """
    center: list[float]
    """
    The number that is subtracted from each feature.
    """
    inverse_scale: list[float]
    """
    The number that each centered feature is multiplied by.
    """
    kind: Literal['hidden']
    weights: list[list[float]]
    """
    The weights of the hidden layer: one row per feature, one number per hidden unit.
    """


FeatureMap = TypeAliasType("FeatureMap", FeatureMapIdentity | FeatureMapStandardized | FeatureMapHidden)
"""
A transform φ of contexts.
"""


class FeatureSpaceNone(Model):
    """
    There are none.
    """

    form: Literal['none']


class FeatureSpaceList(Model):
    """
    Lists of numbers.
    """

    dim: Annotated[int, Field(ge=0)]
    """
    The length of each list.
    """
    form: Literal['list']


class FeatureSpaceNamed(Model):
    """
    Named features, hashed into dimensions.
    """

    dim: Annotated[int, Field(ge=0)]
    """
    The number of dimensions.
    """
    form: Literal['named']


FeatureSpace = TypeAliasType("FeatureSpace", FeatureSpaceNone | FeatureSpaceList | FeatureSpaceNamed)
"""
How features were written.
"""


class Fit(Model):
    """
    A number that has a known expectation if the logged propensities are right.
    """

    expected: float
    """
    The expected value.
    """
    observed: float
    """
    The value in the log.
    """
    ok: bool | None = None
    """
    Whether the check of this number passed; null if it was not made, see `checks`.
    """
    z: float | None = None
    """
    (observed − expected) in standard errors; null if the log is too short to estimate them.
    """


FormatName = TypeAliasType("FormatName", str)
"""
A log's format. `dsjson` and `obd` must be named in an upload, because other formats have the same
content types; the content type implies each of the others.

Known values: `ndjson`, `csv`, `parquet`, `arrow_stream`, `dsjson`, `obd`
"""


class GateToken(Model):
    """
    A token of a gate, without its secret.
    """

    created_at: AwareDatetime
    created_by: str
    """
    The API key that created it.
    """
    id: str
    name: str
    """
    What the token is for.
    """


class Guardrail(Model):
    """
    A guardrail, resolved: `deploy` needs a guarantee that the policy loses at most `max_loss` in `outcome`.
    """

    max_loss: float
    """
    The most that the policy may lose in it, in the paper's units.
    """
    outcome: str
    """
    The outcome that must not get much worse.
    """


ActionCount = TypeAliasType("ActionCount", Annotated[int, Field(ge=0)])


ActionsNeverLoggedItem = TypeAliasType(
    "ActionsNeverLoggedItem", Annotated[int, Field(ge=0)]
)


class HiddenUnits(Model):
    """
    Hidden units max(bias + Σ_i x_i·x[i] + Σ_j a_j·actions[j], 0).
    """

    actions: list[list[float]]
    """
    For each known action feature, its weight in each unit.
    """
    bias: list[float]
    """
    The bias of each unit.
    """
    output: list[float]
    """
    The weight of each unit in the score.
    """
    x: list[list[float]]
    """
    For each known request feature, its weight in each unit.
    """


ImportCode = TypeAliasType("ImportCode", str)
"""
Why an import failed, as a stable code for clients and metrics.

Known values: `invalid_rows`, `invalid_file`, `repeated_rows`, `too_large`, `invalid_value`, `unknown_policy`, `source_not_allowed`, `source_not_found`, `source_unreadable`, `source_changed`, `attempts_exhausted`
"""


class ImportProgress(Model):
    """
    How far an import has come.
    """

    bytes: Annotated[int, Field(ge=0)]
    """
    Their size.
    """
    bytes_read: Annotated[int, Field(ge=0)]
    """
    How many bytes were read.
    """
    objects: Annotated[int, Field(ge=0)]
    """
    The number of objects; 0 until they are found.
    """


class Issued(Model):
    """
    The job that issued a certificate. It is not part of the digest: the same inputs give the same digest.
    """

    created_at: AwareDatetime
    """
    When the job was created.
    """
    dataset_id: str
    """
    The id of the dataset.
    """
    finished_at: AwareDatetime | None
    """
    When the job ended.
    """
    job_id: str
    """
    The id of the job.
    """
    policy_id: str | None
    """
    The id of the learned policy (kind `learn`).
    """
    started_at: AwareDatetime | None
    """
    When the job was started.
    """
    submitted_by: str | None = None
    """
    Who submitted the job: the name and the id of the API key, or `anonymous`. Absent if an earlier
    release issued the certificate.
    """


class JobEvent(Model):
    """
    An event in the history of a job.
    """

    created_at: AwareDatetime
    data: dict[str, Any]
    event: str
    """
    `queued`, `started`, `progress`, `cancel_requested`, `requeued`, `succeeded`, `failed`, `cancelled`.
    """
    id: Annotated[int, Field(ge=0)]
    """
    1 for the first event of the job, and so on.
    """


class JobFailure(Model):
    """
    Why a job failed.
    """

    code: FailureCode
    """
    A stable code.
    """
    message: str
    """
    What went wrong.
    """


JobKind = TypeAliasType("JobKind", Literal['learn', 'evaluate'])
"""
What a job does.
"""


JobStatus = TypeAliasType("JobStatus", Literal['queued', 'running', 'succeeded', 'failed', 'cancelled'])
"""
The state of a job.
"""


class KnownFeature(Model):
    """
    A feature that a scorer knows. A value v counts as (v − center)·scale, clipped at ±5.
    """

    center: float | None = None
    """
    The number that is subtracted from its values. If it is not 0, an absent feature has the value 0 and counts as
    −center·scale; otherwise an absent feature does not count.
    """
    index: Annotated[int, Field(ge=0)]
    """
    The dimension of the feature.
    """
    scale: float
    """
    The number that centered values are multiplied by.
    """
    weight: float | None = None
    """
    The weight of the feature by itself.
    """


class LastVersion(Model):
    """
    The policy version of the last row of a log.
    """

    first_row: Annotated[int, Field(ge=0)]
    """
    The position of its first row in the order of arrival, counted from 0.
    """
    name: str
    """
    Its name, as logged.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of its rows.
    """
    versions: Annotated[int, Field(ge=0)]
    """
    How many versions the log has.
    """


class LedgerShare(Model):
    """
    Who shares the dataset's ledger.
    """

    note: str | None = None
    """
    What that means, if there are any.
    """
    shared_with: list[str]
    """
    The other datasets of the workspace with some of the same rows, deleted ones included, the first hundred of
    them. Looks at any of them are looks at these rows.
    """


Logging = TypeAliasType("Logging", Literal['fixed', 'adaptive'])
"""
How a log was logged.
"""


Looks = TypeAliasType("Looks", Literal['once', 'anytime'])
"""
Which rows a later look at a dataset certifies.
"""


class NewGateToken(GateToken):
    """
    A new token with its secret, which is shown this once.
    """

    token: str
    """
    The secret.
    """
    url: str
    """
    The path that asks the gate, by GET or POST, without a header.
    """


OutcomeKind = TypeAliasType("OutcomeKind", Literal['cost', 'reward'])
"""
Whether less or more of an outcome is better.
"""


class OutcomeSummary(Model):
    """
    The summary of an outcome, in its own units. Values that were cut count as what they were cut to.
    """

    cut_rows: Annotated[int, Field(ge=0)]
    """
    The number of rows whose value was cut at the cap or the floor.
    """
    cut_share: float
    """
    The share of such rows.
    """
    max: float
    """
    The largest value.
    """
    mean: float
    """
    The mean over all rows.
    """
    min: float
    """
    The smallest value.
    """
    name: str | None = None
    """
    The name, if the log has named outcomes.
    """


Cell = TypeAliasType("Cell", Annotated[int, Field(ge=0)])


class PairWeights(Model):
    """
    The weights of pairs. Cells without a weight have 0.
    """

    bits: Annotated[int | None, Field(ge=0)] = None
    """
    Absent: the pair of the i-th known request feature and the j-th known action feature has the cell
    i·(number of known action features) + j. Otherwise pairs share 2^bits cells by a hash of their two dimensions.
    """
    cells: list[Cell]
    """
    The cells with a weight, ascending.
    """
    weights: list[float]
    """
    Their weights.
    """


class PartialEntry(Model):
    """
    One partial.
    """

    digest: str
    """
    The digest of the partial.
    """
    partition: str
    """
    The name of the partition.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of its rows.
    """


class PartialsRecord(Model):
    """
    The partials that a certificate was merged from.
    """

    count: Annotated[int, Field(ge=0)]
    """
    How many partials were merged.
    """
    digest: str
    """
    The digest of the list of all partials.
    """
    manifest: list[PartialEntry] | None = None
    """
    The partials, in the order of the names of their partitions; absent if there are more than 1000.
    """
    statement: str
    """
    What they mean, as a sentence.
    """


class Period(Model):
    """
    The times of the first and the last row of a log, in microseconds since 1970.
    """

    first: int
    """
    The time of the first row.
    """
    last: int
    """
    The time of the last row.
    """


class PeriodEstimate(Model):
    """
    An estimate over a part of the certified period. It is no part of the guarantee.
    """

    improvement: float
    """
    The estimated improvement.
    """
    lower: float
    """
    The lower end of its normal interval at the certificate's confidence.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows.
    """
    upper: float
    """
    The upper end of that interval.
    """


class PlannedExploration(Model):
    """
    What a logging policy that explores more would need.
    """

    rows: Annotated[int, Field(ge=0)]
    """
    How many fresh rows would be needed then.
    """
    share: float
    """
    The probability with which the logging policy would play uniformly, instead of what it plays now.
    """


class PlannedRows(Model):
    """
    The rows of one way.
    """

    days: float | None
    """
    How many days they take; null if the traffic is not known.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    How many more rows must be logged.
    """


PolicyClass = TypeAliasType("PolicyClass", str)
"""
The form of a learned policy.

Known values: `lig`, `mixed_logit`
"""


PolicyKind = TypeAliasType("PolicyKind", str)
"""
The form of a policy.

Known values: `softmax`, `lig`, `mixed_logit`, `uniform`, `exploring`, `action_scorer`, `uniform_over_sets`
"""


class PolicyParamsSoftmax(Model):
    """
    π(a|x) ∝ exp(inverse_temperature·φ(x)ᵀmean_a).
    """

    features: FeatureMap | None = None
    """
    φ, the transform of contexts; the identity if absent.
    """
    inverse_temperature: float | None = None
    """
    α, the factor on the scores.
    """
    kind: Literal['softmax']
    mean: list[list[float]]
    """
    μ, the weights: one row per dimension of φ(x), one number per action.
    """


class PolicyParamsLig(Model):
    """
    The argmax of φ(x)ᵀθ_a with θ_a ~ N(mean_a, scale²I).
    """

    features: FeatureMap | None = None
    """
    φ, the transform of contexts; the identity if absent.
    """
    kind: Literal['lig']
    mean: list[list[float]]
    """
    μ, the mean of the weights: one row per dimension of φ(x), one number per action.
    """
    scale: float | None = None
    """
    σ, the standard deviation of the weights.
    """


class PolicyParamsMixedLogit(Model):
    """
    The softmax of φ(x)ᵀθ_a averaged over θ_a ~ N(mean_a, scale²I).
    """

    features: FeatureMap | None = None
    """
    φ, the transform of contexts; the identity if absent.
    """
    kind: Literal['mixed_logit']
    mean: list[list[float]]
    """
    μ, the mean of the weights: one row per dimension of φ(x), one number per action.
    """
    scale: float | None = None
    """
    σ, the standard deviation of the weights.
    """


class PolicyParamsUniform(Model):
    """
    Every action with the same probability.
    """

    dim: Annotated[int, Field(ge=0)]
    """
    p, the number of features of a context.
    """
    kind: Literal['uniform']
    n_actions: Annotated[int, Field(ge=0)]
    """
    K, the number of actions.
    """


class PolicyParamsUniformOverSets(Model):
    """
    Every available action with the same probability.
    """

    kind: Literal['uniform_over_sets']


class PolicyRecord(Model):
    """
    The learned policy that a certificate is about.
    """

    digest: str
    """
    The digest of the policy's parameters.
    """
    dim: Annotated[int, Field(ge=0)]
    """
    The number of features of a context.
    """
    kind: PolicyKind
    """
    The form of the policy.
    """
    n_actions: Annotated[int, Field(ge=0)]
    """
    The number of actions.
    """


class Precision(Model):
    """
    How precisely the probabilities of a log were written.
    """

    decimals: Annotated[int | None, Field(ge=0)] = None
    """
    The number of decimals to which they were rounded; null if they have as many digits as their type.
    """
    significant: Annotated[int | None, Field(ge=0)] = None
    """
    The number of significant digits to which they were rounded; null if they have as many as their type.
    """
    single: bool
    """
    Whether they are single-precision numbers.
    """


Preset = TypeAliasType("Preset", str)
"""
How a policy is learned: quickly, or as in the paper.

Known values: `fast`, `paper`
"""


PriorKind = TypeAliasType("PriorKind", str)
"""
Where the prior of a learned policy comes from.

Known values: `logging_policy`, `zero`, `policy`, `split`
"""


class Problem(Model):
    """
    The shape of every error.
    """

    code: Code
    """
    The stable code to branch on.
    """
    detail: str
    """
    What happened, and what to do.
    """
    errors: list[Fault]
    """
    The rows or fields that are wrong; empty if the error is not about rows or fields.
    """
    instance: str
    """
    The path of the request.
    """
    status: Annotated[int, Field(ge=0)]
    title: str
    """
    What the code means.
    """
    type: str
    """
    A URN that ends with the code.
    """


class Progress(Model):
    """
    How far a job has come. `fraction` never decreases during a job.
    """

    bound: float | None = None
    """
    The best value of the bound so far, in the paper's units.
    """
    epoch: Annotated[int | None, Field(ge=0)] = None
    """
    The current epoch; null in phases without epochs.
    """
    epochs: Annotated[int | None, Field(ge=0)] = None
    """
    The number of epochs; null in phases without epochs.
    """
    fraction: float
    """
    The share of the job that is done.
    """
    phase: str
    """
    The phase: `preparing`, `learning`, `certifying` or `done`.
    """


class Propensities(Model):
    """
    The propensities of all actions.
    """

    propensities: list[list[float]]
    """
    π(·|x) for each context: one number per action, which sum to 1.
    """


class ReadObject(Model):
    """
    An object as it was read.
    """

    bytes: Annotated[int, Field(ge=0)]
    """
    Its size.
    """
    etag: str | None
    """
    Its ETag, if the store has ETags.
    """
    sha256: str
    """
    The SHA-256 of its bytes.
    """
    uri: Annotated[str, Field(examples=['s3://logs/2026-11-01.parquet'])]
    """
    Its address.
    """
    version: str | None
    """
    Its version, if the bucket has versions.
    """


ReasonCode = TypeAliasType("ReasonCode", str)
"""
The stable code of a reason.

Known values: `improvement_guaranteed`, `improvement_below_minimum`, `improvement_not_guaranteed`, `guarantee_impossible`, `baseline_not_certified`, `log_check_failed:propensities`, `log_check_failed:action_counts`, `log_check_failed:candidate_weights`, `log_check_failed:known_baseline`, `log_check_failed:drift`, `log_check_failed:repetitions`, `check_accepted`, `guarantee_exceeds_estimate`, `deterministic_log`, `policy_no_better`, `too_little_overlap`, `too_few_rows`, `rounded_propensities`, `baseline_too_wide`, `guardrail_not_guaranteed`, `guardrail_violated`
"""


Repetitions = TypeAliasType("Repetitions", Literal['decisions', 'designed'])
"""
What rows with the same `context_id` are.
"""


RequiredBaseline = TypeAliasType("RequiredBaseline", Literal['certified'])
"""
A kind of baseline that can be required.
"""


class RequiredGuardrail(Model):
    """
    A guardrail that a gate requires: the certificate must guarantee a loss of at most `max_loss` in `outcome`.
    """

    max_loss: Annotated[float, Field(ge=0.0, le=1.0)]
    """
    The guaranteed loss must be at most this, in units of risk as on the certificate.
    """
    outcome: str
    """
    The outcome of the guardrail.
    """


RequiredVersion = TypeAliasType("RequiredVersion", Literal['newest'])
"""
A version of the dataset that can be required.
"""


Route = TypeAliasType("Route", Literal['fresh', 'pooled'])
"""
How old and new rows are used in the next look.
"""


class RowFault(Model):
    """
    An invalid row of an object.
    """

    field: str
    """
    The field.
    """
    message: str
    """
    What is wrong with it.
    """
    row: Annotated[int | None, Field(ge=0)] = None
    """
    The number of the row in its object, from 1; absent if the fault is not of a row.
    """


class ServiceHealth(Model):
    """
    The state of the service.
    """

    queued_jobs: Annotated[int, Field(ge=0)]
    running_jobs: Annotated[int, Field(ge=0)]
    status: str
    """
    `ok`, or `draining` during shutdown.
    """
    version: str


class SetSizes(Model):
    """
    The sizes of action sets.
    """

    least_actions: Annotated[int, Field(ge=0)]
    """
    The smallest number of actions of a row.
    """
    mean_action_features: float
    """
    The mean number of features of an action that are not 0.
    """
    mean_actions: float
    """
    The mean number of actions of a row.
    """
    mean_request_features: float
    """
    The mean number of features of a request that are not 0.
    """
    most_actions: Annotated[int, Field(ge=0)]
    """
    The largest number of actions of a row.
    """


SharedWhy = TypeAliasType("SharedWhy", str)
"""
Why a look is free.

Known values: `repeat`, `anytime`, `asked`
"""


class Signature(Model):
    """
    The signature of a document.
    """

    algorithm: str
    """
    The signature algorithm, `ed25519`.
    """
    key_id: str
    """
    The name of the key; `GET /v1/certificates/key` serves the key.
    """
    value: str
    """
    The signature: 64 bytes in base64.
    """


SignatureState = TypeAliasType("SignatureState", Literal['valid', 'unsigned', 'invalid'])
"""
The state of a signature.
"""


class SigningKey(Model):
    """
    The public half of a key that signs certificates.
    """

    algorithm: str
    """
    `ed25519`.
    """
    key_id: str
    """
    The id by which signatures name the key.
    """
    pem: str
    """
    The same key in PEM, for other tools.
    """
    public_key: str
    """
    32 bytes in base64.
    """


class SigningKeys(SigningKey):
    """
    The key that signs certificates, and its predecessors.
    """

    earlier: list[SigningKey]
    """
    Keys that were replaced. Their signatures remain valid.
    """


class SmallPropensity(Model):
    """
    One of the smallest propensities of logged actions.
    """

    propensity: float
    """
    The propensity.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows that have it.
    """


class Span1(Model):
    """
    Rows are divided by their order of arrival.
    """

    first_certified_row: Annotated[int, Field(ge=0)]
    """
    The position of the first certified row in the order of arrival. Earlier rows are learned from.
    """
    policy_version: str | None = None
    """
    The policy version whose rows are certified; absent if rows have no version. Rows of other versions
    that arrived after the first certified row are not used.
    """


class Split(Model):
    """
    The division of the contexts of a fixed log into a learn side and a certify side.
    """

    fraction: float
    """
    Share of the contexts on the learn side.
    """
    seed: Annotated[int, Field(ge=0)]
    """
    The seed of the hash that divides the contexts.
    """


TerminationReason = TypeAliasType("TerminationReason", str)
"""
Why learning ended. In each case the policy can be certified: a bound holds for any policy, whether
learning converged or not.

Known values: `converged`, `epoch_budget`, `time_budget`
"""


class Terms(Model):
    """
    Every term that entered a bound. A term that the bound does not have is absent.
    """

    bias: float | None = None
    """
    What clipping can add to the estimate at most.
    """
    budget: float | None = None
    """
    B, the budget for the variance, fixed before the first certified row.
    """
    center: float | None = None
    """
    m, from which the squares that count against a budget for the variance are taken.
    """
    contexts: Annotated[int, Field(ge=0)]
    """
    Number of contexts that the bound was computed on.
    """
    cost_model_max: float | None = None
    """
    The largest −ĉ of the cost model, in certificates of methods 1 to 3.
    """
    empirical_risk: float | None = None
    """
    The policy's estimated risk.
    """
    estimate: float | None = None
    """
    The mean of z, which estimates what is bounded; only for given policies.
    """
    gamma: float | None = None
    """
    γ of `ix`, which is added to each propensity.
    """
    grid_size: Annotated[int | None, Field(ge=0)] = None
    """
    Number of parameter choices that the bound was minimized over on these rows, or that it is a mixture of.
    """
    kappa: Annotated[int | None, Field(ge=0)] = None
    """
    κ: 1 if the bound is on R(π) − R(π0), 0 if it is on R(π).
    """
    kl: float | None = None
    """
    KL divergence of the posterior from the prior, in nats.
    """
    knee: float | None = None
    """
    a, the knee of the payoff of bets with a budget.
    """
    lambda_: Annotated[float | None, Field(alias='lambda')] = None
    """
    λ, the size of the bet or the free parameter of the bound.
    """
    log_sum: float | None = None
    """
    S_λ, the sum of ln(1 − λz).
    """
    n: Annotated[int, Field(ge=0)]
    """
    Number of rows that the bound was computed on.
    """
    numerical_slack: float
    """
    A bound on the floating-point and integration error of the value.
    """
    penalty: float | None = None
    """
    What is paid for confidence besides KL, in nats: ln(N/δ), ln(2√n/δ), …
    """
    pilot: Annotated[int | None, Field(ge=0)] = None
    """
    Number of certified contexts that only set up the first bets of aimed bets, and are not bet on.
    """
    second_moment: float | None = None
    """
    Mean squared weight of the policy under the logging policy.
    """
    slope_above: float | None = None
    """
    p, the slope of that payoff above the knee.
    """
    slope_below: float | None = None
    """
    ρ, the slope of that payoff below the knee.
    """
    spent: float | None = None
    """
    V_n, what was spent of the budget. Beyond the budget the bound widens with every bit, and in the end only the constant bet λ counts.
    """
    spread: float | None = None
    """
    The standard deviation of z, one per context; only for given policies. Absent in certificates of methods 1 to 4.
    """
    step: float | None = None
    """
    The distance of the thresholds that aimed bets tested.
    """
    tau: float | None = None
    """
    τ, the clipping level.
    """
    theta: float | None = None
    """
    θ, the last factor of the control variate of a given policy, which may change from row to row.
    """
    value_without_kl: float | None = None
    """
    The bound if the posterior were the prior (KL = 0); only for posteriors that moved. Absent in certificates of
    methods 1 to 4.
    """
    xi: float | None = None
    """
    ξ, the constant control variate.
    """


class TimeSlice(Model):
    """
    Consecutive rows of a log.
    """

    action_shares: list[float]
    """
    The share of each action of `Drift::actions`.
    """
    mean_cost: float
    """
    The mean cost, in [-1, 0].
    """
    mean_propensity: float
    """
    The mean propensity of the logged actions.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows; of a context that was logged several times, only the first counts.
    """


WarningCode = TypeAliasType("WarningCode", str)
"""
What a warning is about.

Known values: `propensities_do_not_fit`, `action_counts_do_not_fit`, `candidate_weights_do_not_fit`, `log_drifts`, `repetitions_do_not_fit`, `propensities_look_rounded`, `rows_out_of_order`, `near_deterministic`, `low_effective_sample_size`, `actions_never_logged`, `dangling_rewards`, `actions_without_features`, `action_features_not_used`, `rows_dropped_upstream`, `outcomes_cut`, `columns_ignored`
"""


WebhookStatus = TypeAliasType("WebhookStatus", Literal['active', 'failing', 'disabled'])
"""
How a webhook does.
"""


class WeightClass(Model):
    """
    A class of the histogram of weights. Each class is √2 times as wide as the one before.
    """

    from_: Annotated[float, Field(alias='from')]
    """
    The smallest weight of the class.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows in it.
    """
    to: float | None = None
    """
    Weights of the class are less than this; null in the last class.
    """


class ActionFit(Fit):
    """
    How well the count of one action fits its propensities.
    """

    action: Annotated[int, Field(ge=0)]
    """
    The action.
    """


class ActionSets(Model):
    """
    The features of a log whose rows have their own action sets.
    """

    actions: FeatureSpace
    """
    The features of actions.
    """
    x: FeatureSpace
    """
    The features of requests.
    """


class Baseline(Model):
    """
    The baseline that the improvement is measured against. `risk` is in the paper's units, [-1, 0], and
    is required for `known` only.
    """

    kind: BaselineKind
    """
    Where R(π0) comes from.
    """
    risk: float | None = None
    """
    The known risk R(π0), in the paper's units (kind `known`).
    """


class BoundRecord(Model):
    """
    One claim that the certificate relies on, with every term of its bound, so that a reader can add them
    up. `value` bounds `quantity` from above (from below for `baseline_risk`), before numerical slack.
    """

    bound: str
    """
    The name of the bound.
    """
    delta: float
    """
    The claim's share of δ.
    """
    event: str
    """
    Names the claim's event in `delta_accounting`.
    """
    outcome: str | None = None
    """
    The outcome of the guardrail that the claim is for; absent if it is for the objective.
    """
    quantity: BoundedQuantity
    """
    The quantity that is bounded.
    """
    subject: str
    """
    The candidate that the claim is about, `learned`, or `logging_policy`.
    """
    terms: Terms
    """
    The terms that the value was computed from.
    """
    used: bool
    """
    Whether the certificate's results rest on this claim.
    """
    value: float
    """
    The bound on the quantity.
    """


class Breakdown(Model):
    """
    How the estimated improvement becomes the guaranteed one: `estimate` plus every `change` is `guaranteed`, up to
    rounding. All numbers are in the paper's units.
    """

    estimate: float
    """
    The estimated improvement, without a guarantee.
    """
    guaranteed: float
    """
    The guaranteed improvement.
    """
    steps: list[BreakdownStep]
    """
    What is taken off, in the order in which it is taken off. Only steps that apply.
    """


class Check(Model):
    """
    One check of a verification.
    """

    code: CheckCode | None = None
    detail: str
    """
    What was found, as a sentence.
    """
    name: str
    """
    The field of the certificate that was checked, or the name of the check.
    """
    ok: bool
    """
    Whether the check passed.
    """


class CheckResult(Model):
    """
    The result of one check.
    """

    evidence: float
    """
    The evidence against the log: an e-value, or 1/p of an exact test; at most 1e300.
    """
    expected: float
    """
    What was expected.
    """
    level: float
    """
    The level of the check. It fails if the evidence is at least 1/level.
    """
    message: str
    """
    What was found and, if the check failed, how to fix the logging; or why the check was not made.
    """
    name: CheckName
    """
    What was checked.
    """
    observed: float
    """
    The number that was observed.
    """
    ok: bool | None = None
    """
    Whether the check passed; null if it was not made, and the message says why.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows that were used.
    """
    scope: CheckScope
    """
    Which rows were checked.
    """
    subject: str | None = None
    """
    The candidate or the action that the numbers are about.
    """


class Delivery(Model):
    """
    One event for one webhook.
    """

    attempts: Annotated[int, Field(ge=0)]
    """
    How many attempts there were, since the event or since it was last asked to be delivered again.
    """
    created_at: AwareDatetime
    data: dict[str, Any]
    """
    The details of the event, without links.
    """
    ended_at: AwareDatetime | None
    event_id: str
    """
    The id of the event, `webhook-id` in the request: the same for every attempt.
    """
    id: str
    last_attempt_at: AwareDatetime | None
    last_error: str | None
    """
    Why the last attempt failed.
    """
    last_status: Annotated[int | None, Field(ge=0)]
    """
    The HTTP status of the response to the last attempt; `null` if there was none.
    """
    next_attempt_at: AwareDatetime | None
    status: DeliveryStatus
    subject: str
    type: EventKind


class Drift(Model):
    """
    How a log changes over time.
    """

    actions: list[Action1]
    """
    The actions whose shares are shown: the most frequent ones, at most 50.
    """
    change: DriftChange | None = None
    slices: list[TimeSlice]
    """
    Slices of rows in order of arrival, at most 20: in that of their timestamps, if they have some.
    """


class Explore(Model):
    """
    How much a learned policy explores: it plays another policy with probability `share`. The mixture is what
    is certified, stored and served.
    """

    share: float
    """
    The probability with which the other policy is played.
    """
    with_: Annotated[ExploreWith, Field(alias='with')]
    """
    The other policy.
    """


class GateRequirements(Model):
    """
    What a certificate must satisfy to open a gate, besides the decision `deploy`. What is absent is not
    required.
    """

    accept_merged: bool | None = None
    """
    With `true`, the certificate may have been merged from partials, which the service did not recompute. Otherwise it
    must have been computed from the rows. For standing gates, `allow` with `merged_certificates` says the same.
    """
    baseline: RequiredBaseline | None = None
    candidate: Annotated[str | None, Field(max_length=300)] = None
    """
    The candidate that the gate is about, as certificates name it: `logged:NAME`, `policy:ID` or `learned`.
    `NAME` or `ID` alone are accepted too. Without it the gate is about the candidate that the certificate's
    own results are about.
    """
    guardrails: list[RequiredGuardrail] | None = None
    """
    Guardrails that the certificate must have: its guaranteed loss in each of these outcomes must be at most
    `max_loss`. In a query: `NAME=MAX_LOSS,NAME=MAX_LOSS`.
    """
    max_age: Annotated[str | None, Field(pattern='^[0-9]+[smhd]$')] = None
    """
    The greatest age of the certificate: `90s`, `30m`, `12h` or `7d`.
    """
    min_confidence: Annotated[float | None, Field(ge=0.0, le=1.0)] = None
    """
    The certificate's confidence must be at least this.
    """
    min_family_confidence: Annotated[float | None, Field(ge=0.0, le=1.0)] = None
    """
    The family-wise confidence of the certificate's ledger entry must be at least this.
    """
    min_improvement: Annotated[float | None, Field(ge=0.0, le=1.0)] = None
    """
    The guaranteed improvement must exceed this, in units of risk as on the certificate.
    """
    objective: Annotated[str | None, Field(max_length=300)] = None
    """
    The outcome that the certificate's improvement must be about. A standing gate without it asks about the
    dataset's primary outcome.
    """
    policy_digest: str | None = None
    """
    The digest of the policy's parameters, `sha256:` and 64 hex digits.
    """
    version: RequiredVersion | None = None


class ImportFailure(Model):
    """
    Why an import failed.
    """

    code: ImportCode
    """
    A stable code.
    """
    errors: list[RowFault] | None = None
    """
    The first invalid rows.
    """
    message: str
    """
    What went wrong.
    """
    uri: str | None = None
    """
    The object that is at fault, if it is one.
    """


class ImportObjects(Model):
    """
    The objects that an import has read.
    """

    data: list[ReadObject]
    """
    In the order of the log. None if the import has not succeeded.
    """


class JobProgress(Progress):
    """
    The engine's progress, and how long the attempt had been running when it was reported.
    """

    elapsed_seconds: float
    """
    How long the attempt had been running.
    """


class MergedRecord(Model):
    """
    That a certificate was merged from partials.
    """

    content: str
    """
    The content of the certified rows: a sum of hashes, in 32 hexadecimal digits.
    """
    frozen_on: str
    """
    The digest of that log.
    """
    frozen_on_rows: Annotated[int, Field(ge=0)]
    """
    The number of rows of the log on which the recipe was frozen.
    """
    note: str
    """
    What to know about it, as a sentence.
    """
    partials: PartialsRecord
    """
    The partials. Like the dataset's version they are no part of the certificate's digest, which does not depend on how
    the rows were divided; the signature covers them.
    """
    recipe: str
    """
    The digest of the recipe, which fixed everything that the sums depend on.
    """
    snapshot: str | None = None
    """
    The snapshot of the table that the rows were read from, if the caller named one.
    """


class Optimizer(Model):
    """
    The optimizer's settings, resolved. An absent setting has the preset's value.
    """

    batch_size: Annotated[int | None, Field(ge=0)] = None
    """
    The number of contexts per minibatch, rounded up to whole chunks of the log (preset `paper`).
    """
    epochs: Annotated[int | None, Field(ge=0)] = None
    """
    The maximum number of passes over all rows.
    """
    learning_rate: float | None = None
    """
    The step size of Adam (preset `paper`).
    """
    max_seconds: float | None = None
    """
    The time in seconds after which learning ends.
    """
    preset: Preset
    """
    How the policy is learned.
    """


class Outcome(Model):
    """
    The kind of a log's outcomes, and the range in which each must lie.
    """

    cap: float | None = None
    """
    A value above this one counts as this one. It is then `max`.
    """
    floor: float | None = None
    """
    A value below this one counts as this one. It is then `min`.
    """
    kind: OutcomeKind
    """
    Whether the outcome is a cost or a reward.
    """
    max: float
    """
    The largest possible outcome.
    """
    min: float
    """
    The smallest possible outcome.
    """


class Plan(PlanBase):
    """
    What would certify the required improvement. A forecast, and no part of the guarantee.
    """

    days: float | None
    """
    How many days `rows` take at this traffic.
    """
    exploration: list[PlannedExploration]
    """
    What more exploration by the logging policy would save, if it would.
    """
    fresh: PlannedRows | None
    message: str
    """
    The plan as a sentence.
    """
    min_improvement: float
    """
    The improvement, in the paper's units, that must be exceeded for `deploy`.
    """
    pooled: PlannedRows | None
    possible: bool
    """
    Whether a number of rows can be promised at all.
    """
    power: float
    """
    The probability with which the planned rows are expected to certify it.
    """
    rows: Annotated[int | None, Field(ge=0)]
    """
    How many more rows are needed on the sooner way; null if nothing can be promised.
    """
    rows_per_day: float | None
    """
    The traffic that days are computed from: as stated, or from the timestamps of the log.
    """
    sooner: Route | None


class Prior(Model):
    """
    The prior, resolved.
    """

    fraction: float | None = None
    """
    Share of the contexts on the learn side (kind `split`).
    """
    kind: PriorKind
    """
    Where the prior comes from.
    """
    policy_id: str | None = None
    """
    The stored policy (kind `policy`).
    """
    scale: float
    """
    σ0, the standard deviation of the prior's Gaussian.
    """


class Reason(Model):
    """
    Why a certificate decided as it did.
    """

    code: ReasonCode
    """
    The stable code of the reason.
    """
    message: str
    """
    The reason as a sentence.
    """
    numbers: dict[str, float] | None = None
    """
    The numbers of the sentence, by name; left out if there are none.
    """
    outcome: str | None = None
    """
    The outcome that the reason is about, if it is about one by name.
    """


class SharedLook(Model):
    """
    The earlier look that a free look rests on.
    """

    look: Annotated[int, Field(ge=0)]
    """
    The number of the earlier look.
    """
    why: SharedWhy
    """
    Why the two share an event.
    """


Span = TypeAliasType("Span", Split | Span1)
"""
Which rows a job learns from, and which it certifies.
"""


class UserUnits(Model):
    """
    The results in the units of the dataset's outcome. Improvements are positive when better.
    """

    baseline_bound: float | None = None
    """
    The bound on the baseline's expected outcome, if there is one: `baseline_risk.lower_bound`.
    """
    baseline_outcome: float
    """
    The baseline's expected outcome.
    """
    exploration_cost: float | None = None
    """
    The estimated cost of exploration, if the certificate states it. A positive number is worse.
    """
    guaranteed_improvement: float
    """
    Lower bound on the improvement in expected outcome.
    """
    guaranteed_outcome: float
    """
    The worst expected outcome of the certified policy: an upper bound on a cost, a lower bound on a
    reward.
    """
    last_quarter: PeriodEstimate | None = None
    min_improvement: float | None = None
    """
    The improvement that must be exceeded for `deploy`; absent in certificates of methods 1 to 4.
    """
    outcome: Outcome
    """
    The kind and range of the outcome.
    """


class Verification(VerificationBase):
    """
    The result of a verification.
    """

    checks: list[Check]
    """
    The checks, in the order in which they were made.
    """
    valid: bool
    """
    Whether every check passed.
    """


class Warning(Model):
    """
    Something about a log that deserves attention, although the log was accepted.
    """

    code: WarningCode
    """
    The stable code of the warning.
    """
    message: str
    """
    The warning as a sentence.
    """


class Webhook(Model):
    """
    A webhook, without its secret.
    """

    changed_at: AwareDatetime
    changed_by: str
    """
    The API key that changed it last, or created it.
    """
    created_at: AwareDatetime
    created_by: str
    """
    The API key that created it.
    """
    dataset_id: str | None
    decision: Decision | None
    dropped_events: Annotated[int, Field(ge=0)]
    """
    How many events were dropped because 10 000 deliveries waited.
    """
    enabled: bool
    events: list[EventKind]
    failing_since: AwareDatetime | None
    """
    Since when every attempt has failed.
    """
    id: str
    last_success_at: AwareDatetime | None
    name: str
    old_secret_until: AwareDatetime | None
    """
    Until when the secret before the current one signs too.
    """
    status: WebhookStatus
    url: str


class WebhookWithSecret(Webhook):
    """
    A webhook with its secret, which is shown this once.
    """

    secret: str
    """
    What signs deliveries. Keep it: it is not shown again.
    """


class ActionScorer(Model):
    """
    The parameters of a scorer of actions.
    """

    actions: list[KnownFeature] | None = None
    """
    The known features of actions, ascending by index.
    """
    constant: float | None = None
    """
    What every score contains. It changes no ranking, but the cost model reads the same scores.
    """
    features: ActionSets
    """
    The features that the scores are computed from.
    """
    hidden: HiddenUnits | None = None
    inverse_temperature: float
    """
    α, the factor on the scores.
    """
    pairs: PairWeights | None = None
    x: list[KnownFeature] | None = None
    """
    The known features of requests, ascending by index.
    """


class CertificateVerification(Verification):
    """
    The checks of a certificate, and the state of its signature.
    """

    signature: SignatureState


class CertifiedRows(Model):
    """
    The rows that the bounds were computed on.
    """

    contexts: Annotated[int, Field(ge=0)]
    """
    The number of contexts; equal to `rows` if every row is a decision of its own.
    """
    last_quarter: PeriodEstimate | None = None
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows.
    """
    span: Span
    """
    How they were chosen.
    """


class Exploration(Explore):
    """
    How much the certified policy explores, and what that costs.
    """

    estimated_cost: float
    """
    The estimated risk that exploration adds. It is no part of the guarantee.
    """
    note: str
    """
    What to know about it, as a sentence.
    """


class GateDefinition(Model):
    """
    A standing gate as it is defined, with every default filled in.
    """

    allow: list[Allowance]
    changed_at: AwareDatetime
    changed_by: str
    """
    The API key that changed it last, or created it.
    """
    created_at: AwareDatetime
    created_by: str
    """
    The API key that created it.
    """
    dataset_id: str | None
    delta: float
    """
    The greatest δ of a certificate.
    """
    name: str
    requirements: GateRequirements
    selector: dict[str, Any]


class GateUnits(Model):
    """
    What a gate approves, in the units of the outcome.
    """

    guaranteed_improvement: float
    """
    Lower bound on the improvement in expected outcome.
    """
    guaranteed_outcome: float
    """
    The worst expected outcome: an upper bound on a cost, a lower bound on a reward.
    """
    min_improvement: float
    """
    The improvement that the job's spec requires.
    """
    outcome: Outcome
    """
    The kind and range of the outcome.
    """


class GuardrailUnits(Model):
    """
    The numbers of a guardrail in the units of its outcome. Losses are positive when worse, for costs and for rewards.
    """

    baseline_outcome: float
    """
    The mean outcome under the logging policy, on the certified rows.
    """
    estimated_loss: float
    """
    The estimate of the loss.
    """
    guaranteed_loss: float
    """
    Upper bound on the loss.
    """
    max_loss: float
    """
    The most that the policy may lose.
    """
    outcome: Outcome
    """
    The kind and range of the outcome.
    """


class Health(Model):
    """
    The report on a log.
    """

    action_counts: list[ActionCount]
    """
    How often each action was logged.
    """
    action_sets: SetSizes | None = None
    actions_never_logged: list[ActionsNeverLoggedItem]
    """
    The actions that were never logged.
    """
    checks: list[CheckResult] | None = None
    """
    The checks of all rows against the assumptions of the guarantee.
    """
    drift: Drift | None = None
    effective_sample_size: float
    """
    (Σw)²/Σw² of w = 1/π0(a|x): how many rows of a uniform log this log is worth.
    """
    expected_counts: list[ExpectedCount] | None = None
    """
    How often actions were logged, against their propensities: the 50 that are furthest from them; empty if π0(·|x)
    is not known.
    """
    inverse_propensity_mean: Fit
    """
    The mean of 1/π0(a|x), which should be the number of actions that π0 can take: K if it can take all. If K was
    not stated, `expected` is the number of actions in the log, which is no test.
    """
    max_weight: float
    """
    The largest 1/π0(a|x).
    """
    min_propensity: float
    """
    The smallest propensity of a logged action.
    """
    near_deterministic_share: float
    """
    The share of rows in which an action had a propensity of at least 0.99.
    """
    outcomes: list[OutcomeSummary] | None = None
    """
    A summary of each outcome, the primary one first; empty for reports of releases before 0.6.
    """
    pdrop: float | None = None
    """
    The share of decisions that were dropped before they were logged, if the log's format has it.
    """
    smallest_propensities: list[SmallPropensity] | None = None
    """
    The smallest propensities of logged actions, at most 10.
    """
    warnings: list[Warning]
    """
    What deserves attention, one entry each.
    """
    weights: list[WeightClass] | None = None
    """
    The histogram of 1/π0(a|x); empty in reports of earlier releases.
    """
    worst_action_count: ActionFit | None = None


class Import(ImportBase):
    """
    A log by reference that is read by a worker. Its dataset exists once it has succeeded.
    """

    attempt: Annotated[int, Field(ge=0)]
    """
    How many times it was started: 1, unless an attempt was interrupted.
    """
    created_at: AwareDatetime
    error: ImportFailure | None
    finished_at: AwareDatetime | None
    format: FormatName
    id: str
    """
    The id of the import, and of its dataset.
    """
    materialize: bool
    """
    Whether the rows are copied, or the objects pinned.
    """
    name: str | None
    """
    The name of the dataset.
    """
    progress: ImportProgress | None
    started_at: AwareDatetime | None
    status: JobStatus
    submitted_by: str
    """
    Who submitted it: the name and the id of the API key, or `anonymous`.
    """
    uris: list[str]
    """
    The addresses.
    """


class JobResult(Model):
    """
    A summary of the certificate, stored in the job's row.
    """

    baseline_risk: BaselineRisk
    """
    The risk of the logging policy.
    """
    candidate: str | None = None
    """
    The candidate that the numbers are about (kind `evaluate`).
    """
    confidence: float
    """
    1−δ.
    """
    decision: Decision
    """
    Whether to deploy the policy.
    """
    exploration: Exploration | None = None
    guaranteed_improvement: float
    """
    The certified lower bound on the improvement.
    """
    guaranteed_risk: float
    """
    The certified upper bound on the policy's risk.
    """
    policy_id: str | None = None
    """
    The learned policy (kind `learn`).
    """
    reasons: list[Reason]
    """
    The reasons for the decision.
    """
    user_units: UserUnits
    """
    The same numbers in the outcome's own units.
    """


class JobSpec(Model):
    """
    A job's spec with every default filled in. `SpecRequest::resolve` returns it, and only resolved specs are
    stored and run.
    """

    accept: list[CheckName] | None = None
    """
    Checks that may fail without causing `keep`.
    """
    accepted_by: str | None = None
    """
    Who accepted them.
    """
    baseline: Baseline
    """
    The baseline that the improvement is measured against.
    """
    bound: BoundKind
    """
    The bound that the job certifies with.
    """
    candidates: list[Candidate] | None = None
    """
    The policies to certify (kind `evaluate`).
    """
    delta: float
    """
    The probability, at most, that the certificate is wrong.
    """
    explore: Explore | None = None
    family: Family | None = None
    guardrails: list[Guardrail] | None = None
    """
    Outcomes that must not get much worse, in the order of the dataset's outcomes.
    """
    independent_of_log: bool | None = None
    """
    The caller's statement that no candidate was learned from these rows.
    """
    kind: JobKind
    """
    What the job does.
    """
    logging: Logging | None = None
    looks: Looks | None = None
    min_improvement: float
    """
    The improvement, in the paper's units, that must be exceeded for `deploy`.
    """
    objective: str | None = None
    """
    The outcome that must improve; absent if the dataset's outcome has no name.
    """
    optimizer: Optimizer | None = None
    policy_class: PolicyClass | None = None
    prior: Prior | None = None
    rows_per_day: float | None = None
    """
    The traffic from which the plan of a keep computes days, if the caller stated it.
    """
    seed: Annotated[int, Field(ge=0)]
    """
    The seed of all random choices.
    """
    seen_rows: Annotated[int | None, Field(ge=0)] = None
    """
    How many rows certificates of earlier versions have seen. They are learned from and not certified.
    """
    tau: float
    """
    The clipping level.
    """
    xi: float | None = None
    """
    The control variate. If absent, `cbb` uses −½, and `auto` and `betting` choose it.
    """


class LearningRecord(Model):
    """
    How the policy was learned. The guarantee does not depend on it; repeating the job does.
    """

    choices: list[str]
    """
    What `auto` chose and why, one sentence each.
    """
    iterations: Annotated[int, Field(ge=0)]
    """
    The number of passes over all rows; for `auto`, plus the number of networks that were trained.
    """
    split: Span | None = None
    termination: TerminationReason
    """
    Why learning ended.
    """


class LedgerPlace(Model):
    """
    The ledger entry of a look: its number, its cost, and the total so far. Like ids and times it depends on
    the state of the service, so it is not part of the certificate's digest. Unknown members are accepted
    here, because the ledger's list adds some; the signature covers them.
    """

    cost: float
    """
    What the look added to `spent`: δ, or 0 if it rests on the event of an earlier look.
    """
    delta: float
    """
    The δ of this look.
    """
    family: FamilyPlace | None = None
    family_wise_confidence: float
    """
    The probability, at least, that all looks up to this one hold together: 1 − `spent`.
    """
    look: Annotated[int, Field(ge=0)]
    """
    The number of the look, counted from 1 over all versions of the dataset.
    """
    shares: SharedLook | None = None
    spent: float
    """
    The sum of the costs of all looks up to and including this one.
    """
    spent_before: float
    """
    The sum of the costs of all earlier looks.
    """
    statement: str
    """
    The entry as a sentence.
    """


class NamedOutcome(Outcome):
    """
    One of several outcomes of a log.
    """

    name: str
    """
    The name in the rows' `outcomes`.
    """


class PolicyParams1(ActionScorer):
    """
    Scores every available action from its features and those of the request, and plays the softmax.
    """

    kind: Literal['action_scorer']


class ResolvedSpec(JobSpec):
    """
    The spec of a job with every default filled in.
    """

    dataset_id: str
    dataset_version: Annotated[int, Field(ge=0)]
    """
    The version that the job uses, even if rows are appended later.
    """
    metadata: dict[str, Any]


class Result(JobResult):
    """
    The result of a job.
    """

    certificate_url: str
    """
    The path of the certificate.
    """


class Look(LedgerPlace):
    """
    One look: a certificate, or a bound that was shown. It remains after its job is deleted.
    """

    bound: BoundKind
    candidates: Annotated[int, Field(ge=0)]
    """
    The number of candidates that shared its δ; 0 for kind `learn`.
    """
    certificate_digest: str | None
    """
    Null if there is no certificate, or if it was issued before the ledger existed.
    """
    created_at: AwareDatetime
    dataset_id: str
    """
    The dataset that the job read: this one, or another with some of the same rows.
    """
    dataset_version: Annotated[int, Field(ge=0)]
    decision: Decision | None
    job_id: str
    kind: JobKind
    rows: Annotated[int | None, Field(ge=0)]
    """
    The number of rows of that version; null for a look of an earlier release whose dataset was deleted.
    """


class Capabilities(Model):
    """
    What a log supports. Jobs are checked against it before they run.
    """

    action_sets: ActionSets | None = None
    actions_declared: bool | None = None
    """
    Whether the number of actions was stated, or follows from the length of `propensities`. If not, it was
    read off the logged actions.
    """
    candidate_precision: list[Precision] | None = None
    """
    How precisely each candidate's probabilities were written, in the order of `candidates`; empty if all
    of them have full precision.
    """
    candidate_propensities: list[str] | None = None
    """
    The names of those candidates whose probabilities of all actions the log carries.
    """
    candidates: list[str]
    """
    The names of the candidates that the log carries.
    """
    exact_propensities: bool | None = None
    """
    Whether the caller states that actions were drawn with exactly the probabilities that were written.
    """
    features: bool
    """
    Whether rows have features `x`.
    """
    full_propensities: bool
    """
    Whether rows have π0(·|x) for all actions.
    """
    last_version: LastVersion | None = None
    multiple_interactions: bool
    """
    Whether contexts were logged more than once by design, so that the risk averages contexts.
    """
    outcomes: list[NamedOutcome] | None = None
    """
    The outcomes, if rows have several with names: first the primary one, whose costs are those of the log, and then
    the others.
    """
    period: Period | None = None
    precision: Precision | None = None
    """
    How precisely the propensities were written.
    """
    propensities_logged: bool | None = None
    """
    Whether every row carried its propensity. If not, the stored logging policy gave it.
    """
    repeated_contexts: bool | None = None
    """
    Whether rows with the same `context_id` are decisions of their own.
    """
    timestamps: bool | None = None
    """
    Whether rows have a `timestamp`, which then decides the order of arrival.
    """
    uniform: bool | None = None
    """
    Whether every logged propensity is 1/K, up to the precision with which it was written. π0(·|x) is then
    uniform.
    """


class Dataset(ReportBase):
    """
    A dataset at its newest version.
    """

    bytes: Annotated[int, Field(ge=0)]
    """
    The size of the stored log.
    """
    capabilities: Capabilities
    contexts: Annotated[int, Field(ge=0)]
    """
    The number of distinct contexts; fewer than rows if contexts have several interactions.
    """
    created_at: AwareDatetime
    digest: str
    """
    SHA-256 of the rows.
    """
    dim: Annotated[int, Field(ge=0)]
    """
    p, the number of features of a context.
    """
    exact_propensities: bool
    """
    Whether the caller states that propensities with few digits are exact.
    """
    health: Health
    id: str
    ledger: LedgerShare
    logging: Logging
    """
    Whether the caller states that one policy logged every row (`fixed`).
    """
    logging_policy_id: str | None = None
    n_actions: Annotated[int, Field(ge=0)]
    """
    K.
    """
    name: str | None = None
    outcome: Outcome
    """
    The kind and range of the outcome; of the primary one if there are several.
    """
    outcomes: list[NamedOutcome] | None = None
    """
    All outcomes, if they have names; first the primary one.
    """
    pinned: bool
    """
    Whether the rows stay in the objects that the dataset was created from, which are pinned: every job reads them
    again. `GET /v1/imports/{id}/objects` lists them.
    """
    repetitions: Repetitions
    """
    What the caller states about rows with the same `context_id`.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of logged interactions.
    """
    version: Annotated[int, Field(ge=0)]
    """
    1 after the upload, one more after each append and each addition of candidates.
    """


class DatasetRecord(Model):
    """
    The dataset that a certificate was computed from.
    """

    action_sets: ActionSets | None = None
    actions_declared: bool | None = None
    """
    Whether the number of actions was stated, and not read off the logged actions; absent in certificates of
    methods 1 and 2.
    """
    contexts: Annotated[int, Field(ge=0)]
    """
    The number of contexts.
    """
    designed_repetitions: bool | None = None
    """
    Whether contexts were logged more than once by design; absent in certificates of methods 1 and 2.
    """
    digest: str
    """
    The digest of the dataset's rows.
    """
    dim: Annotated[int, Field(ge=0)]
    """
    The number of features; 0 if the dataset has none, or if every row has its own actions.
    """
    exact_propensities: bool | None = None
    """
    Whether the caller stated that actions were drawn with exactly the probabilities that were written; absent
    in certificates of methods 1 and 2.
    """
    logging: Logging | None = None
    n_actions: Annotated[int, Field(ge=0)]
    """
    The number of actions; that of the largest set if every row has its own actions.
    """
    outcomes: list[NamedOutcome] | None = None
    """
    All outcomes of the dataset, if they have names; first the primary one. The digest of the rows depends on them.
    """
    rows: Annotated[int, Field(ge=0)]
    """
    The number of rows.
    """
    version: Annotated[int, Field(ge=0)]
    """
    The version of the dataset.
    """


class GuardrailResult(Model):
    """
    The result of one guardrail. Losses are how much worse a policy is than the logging policy: positive is worse.
    """

    cost_model_digest: str | None = None
    """
    Digest of the cost model of this outcome, if the learn side fitted one as control variate.
    """
    estimated_loss: float
    """
    The importance-weighted estimate of the loss, without a guarantee.
    """
    guaranteed_loss: float
    """
    Upper bound on the loss R(π) − R(π0) in this outcome, in the paper's units, slack included.
    """
    max_loss: float
    """
    The most that the policy may lose, in the paper's units.
    """
    ok: bool
    """
    Whether the loss is guaranteed to be at most `max_loss`.
    """
    outcome: str
    """
    The outcome that must not get much worse.
    """
    standard_error: float
    """
    The standard error of that estimate.
    """
    user_units: GuardrailUnits
    """
    The numbers in the units of this outcome.
    """


class Job(JobBase):
    """
    A job.
    """

    attempt: Annotated[int, Field(ge=0)]
    """
    How many times the job was started: 1, unless an attempt was interrupted.
    """
    created_at: AwareDatetime
    error: JobFailure | None
    finished_at: AwareDatetime | None
    id: str
    kind: JobKind
    progress: JobProgress | None
    result: Result | None
    spec: ResolvedSpec
    started_at: AwareDatetime | None
    status: JobStatus
    submitted_by: str | None
    """
    Who submitted the job: the name and the id of the API key, or `anonymous`; null for jobs of earlier
    releases.
    """


class ListLook(Model):
    """
    One page of a list.
    """

    data: list[Look]
    has_more: bool
    """
    Whether there is another page.
    """
    next: str | None
    """
    The value of `after` for the next page.
    """


class CandidateResult(Model):
    """
    The results of one candidate (kind `evaluate`).
    """

    candidate: str
    """
    `policy:` and the policy's id, or `logged:` and the name in the log.
    """
    decision: Decision
    """
    What the certificate recommends for this candidate.
    """
    estimated_improvement: float | None = None
    """
    The bound's own estimate of the improvement, from which `breakdown` leads to the guarantee, without a guarantee itself;
    absent in certificates of methods 1 to 5.
    """
    estimated_risk: float
    """
    The importance-weighted estimate of the risk, without a guarantee.
    """
    guaranteed_improvement: float
    """
    Lower bound on the candidate's improvement R(π0) − R(π), slack included.
    """
    guaranteed_risk: float
    """
    Upper bound on the candidate's risk in the paper's units, slack included.
    """
    guardrails: list[GuardrailResult] | None = None
    """
    The results of the guardrails for this candidate.
    """
    policy_digest: str | None = None
    """
    Digest of the policy's parameters; absent if the log carries the candidate.
    """
    reasons: list[Reason] | None = None
    """
    Why: the verdict, and what caused it. Certificates of methods 1 to 4 have none.
    """
    user_units: CandidateUnits | None = None


class Certificate(CertificateBase):
    """
    A certificate: the decision, the guaranteed numbers and every term that they were computed from.
    """

    assumptions: list[str]
    """
    The conditions of the guarantee that the service cannot check in full.
    """
    attestations: list[str]
    """
    What the caller stated and the guarantee depends on.
    """
    baseline_risk: BaselineRisk
    """
    The risk of the logging policy.
    """
    bounds: list[BoundRecord]
    """
    The claims that the certificate makes, one entry each.
    """
    breakdown: Breakdown | None = None
    candidate: str | None = None
    """
    The candidate that the results above are about, as `candidates` names it; absent for kind `learn`, and in
    certificates of methods 1 and 2. A candidate whose checks failed is not chosen if another one passed.
    """
    candidates: list[CandidateResult]
    """
    The results of each candidate; empty for kind `learn`.
    """
    certified: CertifiedRows | None = None
    checks: list[CheckResult] | None = None
    """
    The checks of the log against the assumptions of the guarantee, on all rows and on the certified ones. A
    check that failed and was not accepted means `keep`. Certificates of methods 1 and 2 have none.
    """
    confidence: float
    """
    The probability, at least, that everything the certificate states is true: 1 − δ.
    """
    cost_model_digest: str | None = None
    """
    Digest of the cost model, if one was used as control variate.
    """
    dataset: DatasetRecord
    """
    The dataset that the certificate was computed from.
    """
    decision: Decision
    """
    What the certificate recommends.
    """
    delta_accounting: list[DeltaShare]
    """
    The events with their shares of δ; the shares sum to δ.
    """
    digest: str
    """
    SHA-256 of the canonical form of all other fields, with stored policies named by their digests instead of
    their ids, and without the dataset's version: the same log, spec and seed have the same digest everywhere.
    """
    engine_version: str
    """
    The version of the engine that computed the certificate.
    """
    exploration: Exploration | None = None
    format: str
    """
    The name and version of the document format.
    """
    guaranteed_improvement: float
    """
    Lower bound on R(π0) − R(π), slack included.
    """
    guaranteed_risk: float
    """
    Upper bound on the policy's risk in the paper's units, slack included.
    """
    guardrails: list[GuardrailResult] | None = None
    """
    The results of the guardrails, for the policy that the results above are about.
    """
    learning: LearningRecord | None = None
    merged: MergedRecord | None = None
    method: Annotated[int | None, Field(ge=0)] = None
    """
    The version of the statistical method; absent in certificates of method 1. Certificates of
    another method keep their digest and signature, but this release cannot recompute them.
    """
    min_improvement: float
    """
    The improvement that the spec requires for `deploy`.
    """
    numerical_slack: float
    """
    A bound on the numerical error, already taken off the guaranteed numbers.
    """
    objective: str | None = None
    """
    The outcome that must improve; absent if the dataset's outcome has no name.
    """
    plan: Plan | None = None
    policy: PolicyRecord | None = None
    prior_digest: str | None = None
    """
    Digest of the prior's parameters (kind `learn`).
    """
    reasons: list[Reason]
    """
    Why the certificate decided as it did: first the verdict, then what caused it.
    """
    seed: Annotated[int, Field(ge=0)]
    """
    The seed of all random choices.
    """
    spec: JobSpec
    """
    The job's spec, with every default filled in.
    """
    statement: str
    """
    The result as a sentence.
    """
    user_units: UserUnits
    """
    The results in the units of the dataset's outcome.
    """


class Gate(Model):
    """
    What a gate approves, with everything that the approval rests on.
    """

    accepted_checks: list[CheckName]
    """
    The checks that failed and that the submitter accepted.
    """
    baseline: BaselineKind
    """
    Where the risk of the logging policy comes from.
    """
    candidate: str
    """
    The policy that is approved, as the certificate names it: `learned`, `logged:NAME` or `policy:ID`.
    """
    certificate_digest: str
    certificate_url: str
    checks: list[CheckResult]
    """
    The checks of the log against the assumptions of the guarantee.
    """
    confidence: float
    """
    The probability, at least, that the certificate is true: 1 − δ.
    """
    dataset_digest: str
    """
    The digest of that version's rows.
    """
    dataset_id: str
    dataset_version: Annotated[int, Field(ge=0)]
    """
    The version of the dataset that was certified on.
    """
    decision: Decision
    """
    What the certificate recommends for the candidate.
    """
    family_wise_confidence: float
    """
    The probability, at least, that all looks up to this one hold together.
    """
    gate: str | None = None
    """
    The standing gate that was asked.
    """
    guaranteed_improvement: float
    guaranteed_risk: float
    guardrails: list[GuardrailResult] | None = None
    """
    The guardrails of the candidate.
    """
    issued_at: AwareDatetime
    """
    When the certificate was issued.
    """
    job_id: str
    logging: Logging | None = None
    look: Annotated[int, Field(ge=0)]
    """
    The number of the look in the dataset's ledger.
    """
    merged: bool
    """
    Whether the certificate was merged from partials, which the service did not recompute.
    """
    min_improvement: float
    """
    The improvement that the job's spec requires.
    """
    objective: str | None = None
    """
    The outcome that improves; absent if the dataset's outcome has no name.
    """
    ok: bool
    """
    Whether to proceed with the rollout.
    """
    policy_digest: str | None
    """
    The digest of its parameters; null if the log carries the candidate.
    """
    policy_id: str | None
    """
    The id of that policy; null if the log carries the candidate.
    """
    reasons: list[Reason]
    """
    The reasons for the decision about the candidate.
    """
    signing_key_id: str
    """
    The key whose signature on the certificate was verified for this response.
    """
    user_units: GateUnits
    """
    The same numbers in the units of the outcome.
    """


class IssuedCertificate(Certificate):
    """
    A certificate with the job that issued it, its ledger entry and its signature. `issued` and `ledger` are
    absent if the command line certified without a service, `signature` if there was no signing key.
    """

    issued: Issued | None = None
    """
    The job that issued the certificate.
    """
    ledger: LedgerPlace | None = None
    signature: Signature | None = None


class Ledger(ListLook):
    """
    The totals of the ledger, and a page of its looks.
    """

    family_wise_confidence: float
    """
    The probability, at least, that all of them hold together.
    """
    looks: Annotated[int, Field(ge=0)]
    """
    The number of looks at all versions of all datasets with these rows.
    """
    spent: float
    """
    The sum of their costs, in units of δ.
    """


class Policy(Model):
    """
    A policy, without its parameters unless they are requested.
    """

    base: PolicyParams | None = None
    created_at: AwareDatetime
    digest: str
    """
    SHA-256 of the parameters.
    """
    dim: Annotated[int, Field(ge=0)]
    """
    p, the number of features of a context; 0 for a policy that plays over the actions that it is given.
    """
    features: dict[str, Any] | None = None
    """
    The fixed transformation of contexts before `mean` is applied, unless it is the identity.
    """
    id: str
    inverse_temperature: float | None = None
    kind: PolicyKind
    mean: list[list[float]] | None = None
    """
    With `?include=mean`: p rows of K numbers. The uniform policy has none.
    """
    n_actions: Annotated[int, Field(ge=0)]
    """
    K; 0 for a policy that plays over the actions that it is given.
    """
    scale: float | None = None
    scorer: dict[str, Any] | None = None
    """
    With `?include=mean`, for a scorer of actions: its parameters.
    """
    share: float | None = None
    """
    With `?include=mean`, for a policy that explores: the probability with which it plays `with`.
    """
    source_job_id: str | None = None
    """
    The job that learned it.
    """
    with_: Annotated[PolicyParams | None, Field(alias='with')] = None


class PolicyParamsExploring(Model):
    """
    Plays `with` with probability `share`, and otherwise `base`.
    """

    base: PolicyParams
    """
    The policy that is played otherwise.
    """
    kind: Literal['exploring']
    share: float
    """
    The probability of playing `with`.
    """
    with_: Annotated[PolicyParams, Field(alias='with')]
    """
    The policy to explore with.
    """


PolicyParams = TypeAliasType("PolicyParams", PolicyParamsSoftmax | PolicyParamsLig | PolicyParamsMixedLogit | PolicyParamsUniform | PolicyParamsExploring | PolicyParams1 | PolicyParamsUniformOverSets)
"""
The parameters of a policy. `mean` has one row per dimension of φ(x), with K numbers each.
"""


Policy.model_rebuild()
PolicyParamsExploring.model_rebuild()
