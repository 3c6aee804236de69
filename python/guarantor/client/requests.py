# Generated from openapi/openapi.json by scripts/generate_models.py. Do not edit.
# ruff: noqa
# fmt: off

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Allowance: TypeAlias = Literal['accepted_checks', 'known_baseline', 'point_estimate_baseline', 'fixed_logging', 'merged_certificates']
"""
What a standing gate is closed to unless it was told to allow it.
"""


BaselineKind: TypeAlias = Literal['certified', 'known', 'point_estimate']
"""
Where R(π0) comes from.
"""


BoundKind: TypeAlias = Literal['auto', 'london_sandler', 'catoni', 'cbb', 'ix', 'log_smoothing', 'betting']
"""
The bound that a job certifies with.
"""


class CandidateLogged(TypedDict):
    """
    A policy whose propensities the log carries under this name.
    """

    kind: Literal['logged']
    name: str
    """
    The candidate's name in the log.
    """


class CandidatePolicy(TypedDict):
    """
    A stored policy.
    """

    kind: Literal['policy']
    policy_id: str
    """
    The id of the policy.
    """


Candidate: TypeAlias = CandidateLogged | CandidatePolicy
"""
A policy that an `evaluate` job certifies.
"""


CheckName: TypeAlias = Literal['propensities', 'action_counts', 'candidate_weights', 'known_baseline', 'drift', 'repetitions']
"""
What is checked.
"""


Decision: TypeAlias = Literal['deploy', 'keep']
"""
What a certificate recommends.
"""


EventKind: TypeAlias = Literal['job.succeeded', 'job.failed', 'job.cancelled', 'ping']
"""
What a webhook can be told.
"""


ExploreWith: TypeAlias = Literal['uniform', 'logging_policy']
"""
What a certified policy explores with.
"""


class Family(TypedDict):
    """
    A number of looks at one dataset, announced in advance, that share one δ equally.
    """

    delta: float
    """
    δ of all looks together.
    """
    looks: int
    """
    The maximum number of looks; each gets `delta`/`looks`.
    """


class FeatureMapIdentity(TypedDict):
    """
    φ(x) = x.
    """

    kind: Literal['identity']


class FeatureMapStandardized(TypedDict):
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


class FeatureMapHidden(TypedDict):
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


FeatureMap: TypeAlias = FeatureMapIdentity | FeatureMapStandardized | FeatureMapHidden
"""
A transform φ of contexts.
"""


class FeatureSpaceNone(TypedDict):
    """
    There are none.
    """

    form: Literal['none']


class FeatureSpaceList(TypedDict):
    """
    Lists of numbers.
    """

    dim: int
    """
    The length of each list.
    """
    form: Literal['list']


class FeatureSpaceNamed(TypedDict):
    """
    Named features, hashed into dimensions.
    """

    dim: int
    """
    The number of dimensions.
    """
    form: Literal['named']


FeatureSpace: TypeAlias = FeatureSpaceNone | FeatureSpaceList | FeatureSpaceNamed
"""
How features were written.
"""


FormatName: TypeAlias = Literal['ndjson', 'csv', 'parquet', 'arrow_stream', 'dsjson', 'obd']
"""
A log's format. `dsjson` and `obd` must be named in an upload, because other formats have the same
content types; the content type implies each of the others.
"""


class GateTokenRequest(TypedDict):
    """
    A token to be created.
    """

    name: NotRequired[str | None]
    """
    What the token is for.
    """


class HiddenUnits(TypedDict):
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


JobKind: TypeAlias = Literal['learn', 'evaluate']
"""
What a job does.
"""


class KnownFeature(TypedDict):
    """
    A feature that a scorer knows. A value v counts as (v − center)·scale, clipped at ±5.
    """

    center: NotRequired[float]
    """
    The number that is subtracted from its values. If it is not 0, an absent feature has the value 0 and counts as
    −center·scale; otherwise an absent feature does not count.
    """
    index: int
    """
    The dimension of the feature.
    """
    scale: float
    """
    The number that centered values are multiplied by.
    """
    weight: NotRequired[float]
    """
    The weight of the feature by itself.
    """


Logging: TypeAlias = Literal['fixed', 'adaptive']
"""
How a log was logged.
"""


Looks: TypeAlias = Literal['once', 'anytime']
"""
Which rows a later look at a dataset certifies.
"""


OutcomeKind: TypeAlias = Literal['cost', 'reward']
"""
Whether less or more of an outcome is better.
"""


class PairWeights(TypedDict):
    """
    The weights of pairs. Cells without a weight have 0.
    """

    bits: NotRequired[int | None]
    """
    Absent: the pair of the i-th known request feature and the j-th known action feature has the cell
    i·(number of known action features) + j. Otherwise pairs share 2^bits cells by a hash of their two dimensions.
    """
    cells: list[int]
    """
    The cells with a weight, ascending.
    """
    weights: list[float]
    """
    Their weights.
    """


class PartialsRequest(TypedDict):
    """
    Partials to be merged.
    """

    expected_rows: NotRequired[int | None]
    """
    The number of rows of all partitions, those that were learned from included. Fewer or more are rejected.
    """
    metadata: NotRequired[dict[str, Any] | None]
    """
    Any JSON object of at most 16384 bytes; returned with the job.
    """
    name: NotRequired[str | None]
    """
    A name for people, of the dataset that stands for the rows.
    """
    partials: list[dict[str, Any]]
    """
    The partials, as `guarantor partial` wrote them.
    """
    recipe: dict[str, Any]
    """
    The recipe, as `guarantor recipe` wrote it.
    """


class PlanOutcome(TypedDict):
    """
    The kind and range of an outcome that will be logged.
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


PlanUnit: TypeAlias = Literal['paper', 'outcome']
"""
The unit of the improvements of a plan.
"""


PolicyClass: TypeAlias = Literal['lig', 'mixed_logit']
"""
The form of a learned policy.
"""


class PolicyParamsSoftmax(TypedDict):
    """
    π(a|x) ∝ exp(inverse_temperature·φ(x)ᵀmean_a).
    """

    features: NotRequired[FeatureMap]
    """
    φ, the transform of contexts; the identity if absent.
    """
    inverse_temperature: NotRequired[float]
    """
    α, the factor on the scores.
    """
    kind: Literal['softmax']
    mean: list[list[float]]
    """
    μ, the weights: one row per dimension of φ(x), one number per action.
    """


class PolicyParamsLig(TypedDict):
    """
    The argmax of φ(x)ᵀθ_a with θ_a ~ N(mean_a, scale²I).
    """

    features: NotRequired[FeatureMap]
    """
    φ, the transform of contexts; the identity if absent.
    """
    kind: Literal['lig']
    mean: list[list[float]]
    """
    μ, the mean of the weights: one row per dimension of φ(x), one number per action.
    """
    scale: NotRequired[float]
    """
    σ, the standard deviation of the weights.
    """


class PolicyParamsMixedLogit(TypedDict):
    """
    The softmax of φ(x)ᵀθ_a averaged over θ_a ~ N(mean_a, scale²I).
    """

    features: NotRequired[FeatureMap]
    """
    φ, the transform of contexts; the identity if absent.
    """
    kind: Literal['mixed_logit']
    mean: list[list[float]]
    """
    μ, the mean of the weights: one row per dimension of φ(x), one number per action.
    """
    scale: NotRequired[float]
    """
    σ, the standard deviation of the weights.
    """


class PolicyParamsUniform(TypedDict):
    """
    Every action with the same probability.
    """

    dim: int
    """
    p, the number of features of a context.
    """
    kind: Literal['uniform']
    n_actions: int
    """
    K, the number of actions.
    """


class PolicyParamsUniformOverSets(TypedDict):
    """
    Every available action with the same probability.
    """

    kind: Literal['uniform_over_sets']


Preset: TypeAlias = Literal['fast', 'paper']
"""
How a policy is learned: quickly, or as in the paper.
"""


PriorKind: TypeAlias = Literal['logging_policy', 'zero', 'policy', 'split']
"""
Where the prior of a learned policy comes from.
"""


class PriorRequest(TypedDict):
    """
    The prior as the caller sends it.
    """

    fraction: NotRequired[float | None]
    """
    Share of the contexts on the learn side (kind `split`).
    """
    kind: NotRequired[PriorKind | None]
    policy_id: NotRequired[str | None]
    """
    The stored policy (kind `policy`).
    """
    scale: NotRequired[float | None]
    """
    σ0, the standard deviation of the prior's Gaussian.
    """


Repetitions: TypeAlias = Literal['decisions', 'designed']
"""
What rows with the same `context_id` are.
"""


RequiredBaseline: TypeAlias = Literal['certified']
"""
A kind of baseline that can be required.
"""


class RequiredGuardrail(TypedDict):
    """
    A guardrail that a gate requires: the certificate must guarantee a loss of at most `max_loss` in `outcome`.
    """

    max_loss: float
    """
    The guaranteed loss must be at most this, in units of risk as on the certificate.
    """
    outcome: str
    """
    The outcome of the guardrail.
    """


RequiredVersion: TypeAlias = Literal['newest']
"""
A version of the dataset that can be required.
"""


class SecretRequest(TypedDict):
    """
    A rotation of a secret.
    """

    grace: NotRequired[str | None]
    """
    For how long the secret before signs too: `90s`, `30m`, `12h` or `7d`, at most `30d`. One day by default.
    """
    secret: NotRequired[str | None]
    """
    A secret of your own: `whsec_` and the base64 of 24 to 64 random bytes. Without it a new one is made.
    """


Unit: TypeAlias = Literal['paper', 'outcome']
"""
The unit of an amount.
"""


class WebhookRequest(TypedDict):
    """
    A webhook to be created or changed.
    """

    dataset_id: NotRequired[str | None]
    """
    Only jobs on this dataset.
    """
    decision: NotRequired[Decision | None]
    enabled: NotRequired[bool | None]
    """
    Whether events are sent. A disabled webhook is not told what happens meanwhile.
    """
    events: NotRequired[list[EventKind] | None]
    """
    Which events are sent: any of `job.succeeded`, `job.failed` and `job.cancelled`. All of them by default.
    """
    name: NotRequired[str | None]
    """
    What the webhook is for.
    """
    secret: NotRequired[str | None]
    """
    What signs, to create a webhook with a secret of your own: `whsec_` and the base64 of 24 to 64 random bytes.
    """
    url: str
    """
    Where events are sent. It must be below an address that the operator of the server allows.
    """


class ActionSets(TypedDict):
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


class AmountInUnit(TypedDict):
    """
    An amount of an outcome with its unit.
    """

    unit: Unit
    """
    Its unit.
    """
    value: float
    """
    The amount. A positive number is an improvement, or a loss, whatever the outcome's kind.
    """


class Baseline(TypedDict):
    """
    The baseline that the improvement is measured against. `risk` is in the paper's units, [-1, 0], and
    is required for `known` only.
    """

    kind: BaselineKind
    """
    Where R(π0) comes from.
    """
    risk: NotRequired[float | None]
    """
    The known risk R(π0), in the paper's units (kind `known`).
    """


ExplorePolicy = TypedDict(
    'ExplorePolicy',
    {
        'share': NotRequired[float | None],
        'with': NotRequired[ExploreWith | None],
    },
)


ExploreRequest: TypeAlias = float | ExplorePolicy
"""
Exploration as the caller sends it: a share, or a share and what to explore with.
"""


class GateRequirements(TypedDict):
    """
    What a certificate must satisfy to open a gate, besides the decision `deploy`. What is absent is not
    required.
    """

    accept_merged: NotRequired[bool | None]
    """
    With `true`, the certificate may have been merged from partials, which the service did not recompute. Otherwise it
    must have been computed from the rows. For standing gates, `allow` with `merged_certificates` says the same.
    """
    baseline: NotRequired[RequiredBaseline | None]
    candidate: NotRequired[str | None]
    """
    The candidate that the gate is about, as certificates name it: `logged:NAME`, `policy:ID` or `learned`.
    `NAME` or `ID` alone are accepted too. Without it the gate is about the candidate that the certificate's
    own results are about.
    """
    guardrails: NotRequired[list[RequiredGuardrail] | None]
    """
    Guardrails that the certificate must have: its guaranteed loss in each of these outcomes must be at most
    `max_loss`. In a query: `NAME=MAX_LOSS,NAME=MAX_LOSS`.
    """
    max_age: NotRequired[str | None]
    """
    The greatest age of the certificate: `90s`, `30m`, `12h` or `7d`.
    """
    min_confidence: NotRequired[float | None]
    """
    The certificate's confidence must be at least this.
    """
    min_family_confidence: NotRequired[float | None]
    """
    The family-wise confidence of the certificate's ledger entry must be at least this.
    """
    min_improvement: NotRequired[float | None]
    """
    The guaranteed improvement must exceed this, in units of risk as on the certificate.
    """
    objective: NotRequired[str | None]
    """
    The outcome that the certificate's improvement must be about. A standing gate without it asks about the
    dataset's primary outcome.
    """
    policy_digest: NotRequired[str | None]
    """
    The digest of the policy's parameters, `sha256:` and 64 hex digits.
    """
    version: NotRequired[RequiredVersion | None]


class OptimizerRequest(TypedDict):
    """
    The optimizer's settings as the caller sends them.
    """

    batch_size: NotRequired[int | None]
    """
    The number of contexts per minibatch, rounded up to whole chunks of the log (preset `paper`).
    """
    epochs: NotRequired[int | None]
    """
    The maximum number of passes over all rows.
    """
    learning_rate: NotRequired[float | None]
    """
    The step size of Adam (preset `paper`).
    """
    max_seconds: NotRequired[float | None]
    """
    The time in seconds after which learning ends; the policy found so far is certified.
    """
    preset: NotRequired[Preset | None]


class OutcomeDeclaration(TypedDict):
    """
    What the caller declares about one of several outcomes.
    """

    cap: NotRequired[float | None]
    """
    A value above this one counts as this one.
    """
    floor: NotRequired[float | None]
    """
    A value below this one counts as this one.
    """
    kind: OutcomeKind
    """
    Whether it is a cost or a reward.
    """
    max: NotRequired[float | None]
    """
    The largest possible outcome; 1 if it is left out. With a cap, the range ends at the cap.
    """
    min: NotRequired[float | None]
    """
    The smallest possible outcome; 0 if it is left out.
    """


class PlanRequest(TypedDict):
    """
    What the caller expects of a log that does not exist yet. Fields that are left out have the least favorable value
    that is still plausible, so a plan gets smaller if more is known.
    """

    candidates: NotRequired[int | None]
    """
    The number of candidates that share δ (kind `evaluate`). The default is 1.
    """
    changed: NotRequired[float | None]
    """
    In what share of the decisions the policy plays another action than the logging policy's usual one. The default
    is 1.
    """
    delta: NotRequired[float | None]
    """
    The probability, at most, that the certificate is wrong. The default is 0.05.
    """
    exploration: NotRequired[float | None]
    """
    How often the logging policy plays uniformly at random, and otherwise one action. The default is 1: always.
    """
    fraction: NotRequired[float | None]
    """
    Share of the rows that are learned from (kind `learn`). The default is 0.6.
    """
    full_propensities: NotRequired[bool | None]
    """
    Whether rows will carry the probabilities of all actions, which makes bounds narrower. The default is false.
    """
    kind: NotRequired[JobKind | None]
    logging: NotRequired[Logging | None]
    min_improvement: NotRequired[float | None]
    """
    The improvement that must be exceeded for `deploy`. The default is 0.
    """
    n_actions: NotRequired[int | None]
    """
    The number of actions; not needed with `propensities`.
    """
    outcome: NotRequired[PlanOutcome | None]
    outcome_mean: NotRequired[float | None]
    """
    The mean outcome under the logging policy. Without it, the largest outcome counts as usual.
    """
    outcome_spread: NotRequired[float | None]
    """
    The standard deviation of the outcome. Without it, outcomes count as being at the ends of their range.
    """
    power: NotRequired[float | None]
    """
    The probability with which the rows should certify. The default is 0.8.
    """
    propensities: NotRequired[list[float] | None]
    """
    How often the logging policy plays each action; mutually exclusive with `exploration`.
    """
    rows_per_day: NotRequired[float | None]
    """
    The traffic, from which days are computed.
    """
    unit: NotRequired[PlanUnit | None]


class UploadOptions(TypedDict):
    """
    The options of an upload.
    """

    exact_propensities: NotRequired[bool | None]
    """
    Whether propensities with few digits are exact. By default a propensity of 0.333 is taken for a rounded
    number, and the bounds allow for the rounding.
    """
    format: NotRequired[FormatName | None]
    hash_dims: NotRequired[int | None]
    """
    The number of dimensions into which named features are hashed (MurmurHash3 with signs, like scikit-learn's
    FeatureHasher); 0 ignores the features. The default is 16777216 if every row has its own actions, whose
    features are stored sparse, and otherwise 256. `obd` adds 3 dimensions for the position.
    """
    logging: NotRequired[Logging | None]
    logging_policy_id: NotRequired[str | None]
    """
    The stored policy that logged the data, if there is one. It supplies missing propensities, and logged
    ones are checked against it.
    """
    n_actions: NotRequired[int | None]
    """
    The number of actions, K. The default is the length of `propensities`, of `a` in `dsjson` or of
    affinities in `obd`, or else 1 + the largest action. It cannot be set if every row has its own actions.
    """
    name: NotRequired[str | None]
    """
    A name for people, of up to 200 characters.
    """
    outcome: NotRequired[OutcomeKind | None]
    outcome_cap: NotRequired[float | None]
    """
    The outcome is defined as the value cut here: a larger one counts as this one. The range ends here. Certificates
    say so.
    """
    outcome_floor: NotRequired[float | None]
    """
    The outcome is defined as the value cut here: a smaller one counts as this one. The range begins here.
    """
    outcome_max: NotRequired[float | None]
    """
    The largest possible outcome. The default is 0 for `cost` and 1 for `reward`.
    """
    outcome_min: NotRequired[float | None]
    """
    The smallest possible outcome. The default is -1 for `cost` and 0 for `reward`.
    """
    outcomes: NotRequired[dict[str, OutcomeDeclaration]]
    """
    If rows have several outcomes with names, the kind and the range of each, as a JSON object; the first is the
    primary one. For example `{"revenue": {"kind": "reward", "min": 0, "max": 100, "cap": 80}, "complaint": {"kind":
    "cost"}}`. A range is 0 to 1 unless it is stated. There are at most 16. The other options of outcomes must then
    be left out.
    """
    repetitions: NotRequired[Repetitions | None]


class ActionScorer(TypedDict):
    """
    The parameters of a scorer of actions.
    """

    actions: NotRequired[list[KnownFeature]]
    """
    The known features of actions, ascending by index.
    """
    constant: NotRequired[float]
    """
    What every score contains. It changes no ranking, but the cost model reads the same scores.
    """
    features: ActionSets
    """
    The features that the scores are computed from.
    """
    hidden: NotRequired[HiddenUnits | None]
    inverse_temperature: float
    """
    α, the factor on the scores.
    """
    pairs: NotRequired[PairWeights | None]
    x: NotRequired[list[KnownFeature]]
    """
    The known features of requests, ascending by index.
    """


Amount: TypeAlias = float | AmountInUnit
"""
An improvement or a loss as the caller sends it: a number in the paper's units, or a value with its unit.
"""


class GateRequest(TypedDict):
    """
    A standing gate to be created or changed.
    """

    allow: NotRequired[list[Allowance] | None]
    """
    What the gate is open to although it is closed to it by default.
    """
    dataset_id: NotRequired[str | None]
    """
    Ask about jobs on this dataset only.
    """
    delta: NotRequired[float | None]
    """
    The greatest δ of a certificate.
    """
    name: NotRequired[str | None]
    """
    1 to 64 characters from a-z, 0-9, - and _. Required to create a gate; a name cannot be changed.
    """
    requirements: NotRequired[GateRequirements | None]
    selector: NotRequired[dict[str, Any] | None]
    """
    Ask about jobs only whose `metadata` contains these members with these values.
    """


class GuardrailRequest(TypedDict):
    """
    A guardrail as the caller sends it.
    """

    max_loss: Amount
    """
    The most that the policy may lose in this outcome, compared with the logging policy: 0 or more.
    """
    outcome: str
    """
    The outcome that must not get much worse.
    """


class PolicyParams1(ActionScorer):
    """
    Scores every available action from its features and those of the request, and plays the softmax.
    """

    kind: Literal['action_scorer']


class Goals(TypedDict):
    """
    A job's spec as the caller sends it, without the dataset, its kind and its candidates.
    """

    accept: NotRequired[list[CheckName] | None]
    """
    Checks that may fail without causing `keep`. The certificate names them and the key that accepted them.
    """
    baseline: NotRequired[Baseline | None]
    bound: NotRequired[BoundKind | None]
    delta: NotRequired[float | None]
    """
    The probability, at most, that the certificate is wrong.
    """
    explore: NotRequired[ExploreRequest | None]
    family: NotRequired[Family | None]
    guardrails: NotRequired[list[GuardrailRequest] | None]
    """
    Outcomes that must not get much worse, at most 8. They are certified, and not learned from.
    """
    independent_of_log: NotRequired[bool | None]
    """
    The caller's statement that no candidate was learned from these rows.
    """
    looks: NotRequired[Looks | None]
    metadata: NotRequired[dict[str, Any]]
    """
    Any JSON object of at most 16384 bytes; returned with the job
    """
    min_improvement: NotRequired[Amount | None]
    objective: NotRequired[str | None]
    """
    The outcome that must improve, if the dataset's outcomes have names. The default is the first one. Learning
    optimizes it alone.
    """
    optimizer: NotRequired[OptimizerRequest | None]
    policy_class: NotRequired[PolicyClass | None]
    prior: NotRequired[PriorRequest | None]
    rows_per_day: NotRequired[float | None]
    """
    The traffic from which the plan of a keep computes days. The default is that of the log's timestamps.
    """
    seed: NotRequired[int | None]
    """
    The seed of all random choices.
    """
    tau: NotRequired[float | None]
    """
    The clipping level: propensities below it are replaced by it in weights.
    """
    xi: NotRequired[float | None]
    """
    The control variate of `cbb` and `betting`.
    """


class Spec(Goals):
    """
    A job's spec as the caller sends it, without the dataset.
    """

    candidates: NotRequired[list[Candidate] | None]
    """
    The policies to certify (kind `evaluate`).
    """
    kind: NotRequired[JobKind | None]


PolicyParamsExploring = TypedDict(
    'PolicyParamsExploring',
    {
        'base': "PolicyParams",
        'kind': Literal['exploring'],
        'share': float,
        'with': "PolicyParams",
    },
)


PolicyParams: TypeAlias = PolicyParamsSoftmax | PolicyParamsLig | PolicyParamsMixedLogit | PolicyParamsUniform | PolicyParamsExploring | PolicyParams1 | PolicyParamsUniformOverSets
"""
The parameters of a policy. `mean` has one row per dimension of φ(x), with K numbers each.
"""
