"""The keywords of the verbs: the options of an upload and the fields of a job's spec, as the API has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

Json = Mapping[str, Any]


class LogOptions(TypedDict, total=False):
    """What the caller says about a log: the options of `POST /v1/datasets`.

    Attributes:
        format: The format of files, if their names do not imply it: `ndjson`, `csv`, `parquet`, `arrow_stream`, `dsjson`
            or `obd`.
        hash_dims: The number of dimensions into which named features are hashed.
        n_actions: The number of actions, if the log does not imply it.
        outcome: What rows have: `cost` (less is better, the default) or `reward`.
        outcome_min: The smallest possible outcome; -1 for costs and 0 for rewards by default.
        outcome_max: The largest possible outcome; 0 for costs and 1 for rewards by default.
        outcome_cap: A larger outcome counts as this one.
        outcome_floor: A smaller outcome counts as this one.
        outcomes: The kind and range of each outcome, if rows have several with names.
        logging: `adaptive` (the default), or `fixed`: you attest that one policy logged every row.
        repetitions: `decisions` (the default) or `designed`.
        exact_propensities: Propensities with few digits are exact and not rounded.
    """

    format: str
    hash_dims: int
    n_actions: int
    outcome: Literal["cost", "reward"]
    outcome_min: float
    outcome_max: float
    outcome_cap: float
    outcome_floor: float
    outcomes: Mapping[str, Json]
    logging: Literal["adaptive", "fixed"]
    repetitions: Literal["decisions", "designed"]
    exact_propensities: bool


class SpecOptions(TypedDict, total=False):
    """The spec of a job: the fields of `POST /v1/jobs` without the dataset. Everything has a default.

    Attributes:
        bound: The bound that the job certifies with; `auto` by default.
        delta: The probability, at most, that the certificate is wrong; 0.05 by default.
        family: The family of looks that this one belongs to, instead of `delta`.
        tau: The clipping level.
        xi: The control variate of the bounds `cbb` and `betting`.
        policy_class: The form of the learned policy: `lig` or `mixed_logit`.
        prior: The prior of the learned policy.
        baseline: The baseline that the improvement is measured against; `{"kind": "certified"}` by default.
        independent_of_log: You attest that no candidate was learned from these rows.
        min_improvement: The improvement that must be exceeded for `deploy`: a number in shares of the outcome's range, or
            `{"value": …, "unit": "outcome"}`.
        objective: The outcome that must improve, if outcomes have names.
        guardrails: Outcomes that must not get much worse.
        rows_per_day: The traffic from which the plan of a keep computes days.
        looks: `once` or `anytime`.
        explore: How much the learned policy explores.
        accept: Checks that may fail without causing `keep`.
        optimizer: The optimizer's settings.
        seed: The seed of all random choices.
    """

    bound: str
    delta: float
    family: Json
    tau: float
    xi: float
    policy_class: Literal["lig", "mixed_logit"]
    prior: Json
    baseline: Json
    independent_of_log: bool
    min_improvement: float | Json
    objective: str
    guardrails: Sequence[Json]
    rows_per_day: float
    looks: Literal["once", "anytime"]
    explore: float | Json
    accept: Sequence[str]
    optimizer: Json
    seed: int


class JobOptions(LogOptions, SpecOptions, total=False):
    """The options of a log and the fields of a spec."""


class PlanOptions(TypedDict, total=False):
    """What is expected of a log that does not exist yet: the fields of `POST /v1/plans`.

    Attributes:
        min_improvement: The improvement that must be exceeded for `deploy`; 0 by default.
        unit: The unit of the improvements: `paper` (shares of the outcome's range, the default) or `outcome`.
        outcome: The kind and range of the outcome; a reward in [0, 1] by default.
        outcome_mean: The mean outcome under the logging policy.
        outcome_spread: The standard deviation of the outcome.
        n_actions: The number of actions; not needed with `propensities`.
        propensities: How often the logging policy plays each action.
        exploration: How often the logging policy plays uniformly at random, and otherwise one action.
        changed: In what share of the decisions the policy plays another action than the usual one.
        full_propensities: Whether rows will carry the probabilities of all actions.
        kind: `evaluate` (the default) or `learn`.
        fraction: The share of the rows that are learned from, for `learn`.
        candidates: The number of candidates that share δ, for `evaluate`.
        delta: The probability, at most, that the certificate is wrong; 0.05 by default.
        power: The probability with which the rows should certify; 0.8 by default.
        logging: `adaptive` (the default) or `fixed`.
        rows_per_day: The traffic, from which days are computed.
    """

    min_improvement: float
    unit: Literal["paper", "outcome"]
    outcome: Json
    outcome_mean: float
    outcome_spread: float
    n_actions: int
    propensities: Sequence[float]
    exploration: float
    changed: float
    full_propensities: bool
    kind: Literal["learn", "evaluate"]
    fraction: float
    candidates: int
    delta: float
    power: float
    logging: Literal["adaptive", "fixed"]
    rows_per_day: float


LOG_OPTIONS = frozenset(LogOptions.__annotations__)
