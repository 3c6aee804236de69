"""The keywords of the verbs: the options of an upload and the fields of a job's spec, as the API has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from guarantor._data import ProgressCallback
from guarantor.policy import PolicySource

Json = Mapping[str, Any]


class Reading(TypedDict, total=False):
    """How a log is read.

    Attributes:
        features: For data frames: the columns that are, in this order, the numbers of `x`.
        rename: For data frames: the field of a log that each of these columns is.
        logging_policy: The policy that logged the data, if it is known. It supplies missing propensities.
        progress: Is called with a `Progress` a few times per second. An exception that it raises ends the work.
    """

    features: Sequence[str] | None
    rename: Mapping[str, str] | None
    logging_policy: PolicySource | None
    progress: ProgressCallback | None


class LogOptions(Reading, total=False):
    """How a log is read, and what the caller says about it: the options of `POST /v1/datasets`.

    Attributes:
        name: A name for people, which only a server keeps.
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

    name: str
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
        metadata: Labels of the job, by which gates find it. Only a server keeps them.
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
    metadata: Mapping[str, str]


class JobOptions(LogOptions, SpecOptions, total=False):
    """The options of a log and the fields of a spec.

    Attributes:
        spec: The spec as a dictionary; keywords take precedence.
    """

    spec: Json | None


class RunOptions(JobOptions, total=False):
    """The options of a job in process.

    Attributes:
        policies: Policies that the spec names, by the `policy_id` that it uses.
        max_memory: The most bytes that the job may take by its estimate; by default three quarters of the memory.
        threads: The number of compute threads. It does not change the result.
    """

    policies: Mapping[str, PolicySource] | None
    max_memory: int | None
    threads: int | None


class Simulation(TypedDict, total=False):
    """A simulated log.

    Attributes:
        rows: The number of rows; 20 000 by default.
        seed: The same seed gives the same log.
        world: For `news` and `shop`: which world.
        alpha: The inverse temperature of the logging policy: 0 is uniform, larger values explore less; 0.5 by default.
        interactions: For `toy`: how often each context is logged.
        retrain: How often the logging policy is retrained on its own log, once a day.
        features: Whether rows have features.
        policy: Log with this policy instead of the built-in one.
        format: The format of the file, if its name does not imply it.
    """

    rows: int | None
    seed: int
    world: int
    alpha: float
    interactions: int
    retrain: int
    features: bool
    policy: PolicySource | None
    format: str | None


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


_READING = frozenset(Reading.__annotations__)
_LOG = frozenset(LogOptions.__annotations__)
_RUN = frozenset(RunOptions.__annotations__) - frozenset(JobOptions.__annotations__)


def split(options: Mapping[str, Any]) -> tuple[LogOptions, dict[str, Any]]:
    """Separate what is said about a log from the spec of a job. What is about the run alone is in neither."""
    of_log: Any = {name: value for name, value in options.items() if name in _LOG}
    fields = {k: v for k, v in options.items() if k not in _LOG and k not in _RUN and k != "spec"}
    return of_log, {**(options.get("spec") or {}), **fields}


def stated(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options state about the log itself."""
    return {name: value for name, value in options.items() if name not in _READING and name != "name"}
