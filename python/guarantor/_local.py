"""The verbs, in process."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack, overload

from guarantor import _native
from guarantor._data import Log, LogData, ProgressCallback, Table, read_log, reporter
from guarantor._options import LOG_OPTIONS, JobOptions, Json, LogOptions, PlanOptions
from guarantor._results import Certificate, Inspection, Plan, Verification
from guarantor.policy import Policy, text_of, texts_of

PolicySource: TypeAlias = Policy | str | PathLike[str] | bytes | Mapping[str, Any]
Candidate: TypeAlias = str | Policy | Json


def read(
    data: LogData,
    *,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    logging_policy: PolicySource | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[LogOptions],
) -> Log:
    """Read and check a log once, for several jobs.

    Args:
        data: A data frame (pandas, polars, pyarrow, DuckDB), a mapping of column names to arrays, or the names of files
            in any format that the service reads. Several files are one log.
        features: For data frames: the columns that are, in this order, the numbers of `x`.
        rename: For data frames: the field of a log that each of these columns is.
        logging_policy: The policy that logged the data, if it is known. It supplies missing propensities.
        progress: Is called with a `Progress` a few times per second. An exception that it raises ends the work.
        **options: What you know about the log; see `LogOptions`.

    Raises:
        LogError: The log cannot be used; `rows` has the row, the field and the reason of each fault.
        SpecError: An option cannot be used.

    Example:
        >>> import guarantor
        >>> log = guarantor.read(guarantor.simulate(rows=1000, seed=3), outcome="reward")
        >>> len(log)
        1000
    """
    policy = text_of(logging_policy)
    return read_log(data, options, features=features, rename=rename, logging_policy=policy, progress=progress)


def inspect(
    data: LogData,
    *,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    logging_policy: PolicySource | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[LogOptions],
) -> Inspection:
    """Check a log, and report on its health. The arguments are those of `read`.

    Example:
        >>> import guarantor
        >>> guarantor.inspect(guarantor.simulate(rows=1000, seed=3), outcome="reward")
        Inspection(1000 rows, 5 actions, 0 warnings)
    """
    policy = text_of(logging_policy)
    return Inspection(
        read_log(data, options, features=features, rename=rename, logging_policy=policy, progress=progress)
    )


def certify(
    data: LogData,
    *,
    spec: Json | None = None,
    policies: Mapping[str, PolicySource] | None = None,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    logging_policy: PolicySource | None = None,
    max_memory: int | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[JobOptions],
) -> Certificate:
    """Learn a policy from a log, and certify that it is better than the one that logged it.

    The certificate is the one that the service and the command line compute from the same log and spec: its digest is
    the same. It is not signed, and no ledger knows of it: if you look at the same rows again and again until one look
    says deploy, the promise of 1 − δ does not hold for that look. A server keeps count; see `Client`.

    Args:
        data: The log, as for `read`.
        spec: The spec of the job as a dictionary; keywords take precedence.
        policies: Policies that the spec names, by the `policy_id` that it uses.
        features: As for `read`.
        rename: As for `read`.
        logging_policy: As for `read`.
        max_memory: The most bytes that the job may take by its estimate; by default three quarters of the memory.
        threads: The number of compute threads. It does not change the result.
        progress: As for `read`.
        **options: The options of the log and the fields of the spec; see `LogOptions` and `SpecOptions`.

    Raises:
        LogError: The log cannot be used.
        SpecError: The spec cannot be used, or not with this log.
        EngineError: The engine failed. There is no certificate.

    Example:
        >>> import guarantor
        >>> log = guarantor.simulate(rows=4000, seed=1)
        >>> certificate = guarantor.certify(log, outcome="reward", min_improvement=0.01)
        >>> certificate.decision, certificate.guaranteed_improvement > 0.01
        ('deploy', True)
        >>> certificate.policy.propensities([[0.0] * 8]).shape
        (1, 5)
    """
    log_options, fields = split_options(options)
    request = {**(spec or {}), **fields}
    log = read_log(
        data,
        log_options,
        features=features,
        rename=rename,
        logging_policy=text_of(logging_policy),
        progress=progress,
    )
    return _run(log, request, policies or {}, max_memory, threads, progress)


def evaluate(
    data: LogData,
    candidates: Sequence[Candidate],
    *,
    spec: Json | None = None,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    logging_policy: PolicySource | None = None,
    max_memory: int | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[JobOptions],
) -> Certificate:
    """Certify candidates that exist already.

    Args:
        data: The log, as for `read`.
        candidates: Names of candidates whose propensities the log carries (the column `candidate.NAME`), or policies.
        spec: As for `certify`.
        features: As for `read`.
        rename: As for `read`.
        logging_policy: As for `read`.
        max_memory: As for `certify`.
        threads: As for `certify`.
        progress: As for `read`.
        **options: As for `certify`. `independent_of_log=True` is your statement that no candidate was learned from
            these rows; without it, nothing can be certified.

    Example:
        >>> import guarantor
        >>> teacher = guarantor.certify(guarantor.simulate(rows=4000, seed=1), outcome="reward").policy
        >>> fresh = guarantor.simulate(rows=4000, seed=1, policy={"kind": "uniform", "n_actions": 5, "dim": 8})
        >>> guarantor.evaluate(fresh, [teacher], outcome="reward", independent_of_log=True).decision
        'deploy'
    """
    log_options, fields = split_options(options)
    named: dict[str, Policy] = {}
    entries: list[Json] = []
    for candidate in candidates:
        if isinstance(candidate, str):
            entries.append({"kind": "logged", "name": candidate})
        elif isinstance(candidate, Policy):
            named[candidate.id] = candidate
            entries.append({"kind": "policy", "policy_id": candidate.id})
        else:
            entries.append(candidate)
    request = {**(spec or {}), **fields, "kind": "evaluate", "candidates": entries}
    log = read_log(
        data,
        log_options,
        features=features,
        rename=rename,
        logging_policy=text_of(logging_policy),
        progress=progress,
    )
    return _run(log, request, named, max_memory, threads, progress)


def plan(improvement: float, **options: Unpack[PlanOptions]) -> Plan:
    """Say how many rows would certify an improvement, before any log exists.

    Args:
        improvement: The improvement that the policy is expected to have.
        **options: What else is expected; see `PlanOptions`.

    Example:
        >>> import guarantor
        >>> guarantor.plan(0.02, n_actions=4, rows_per_day=50_000).possible
        True
    """
    return Plan(json.loads(_native.plan(json.dumps({"improvement": improvement, **options}))))


def verify(
    certificate: Certificate | Mapping[str, Any] | str | PathLike[str],
    *,
    log: LogData | None = None,
    public_key: str | PathLike[str] | None = None,
    policies: Sequence[PolicySource] | Mapping[str, PolicySource] | None = None,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    logging_policy: PolicySource | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[LogOptions],
) -> Verification:
    """Verify a certificate without a server: its digest, its signature, and its numbers.

    Args:
        certificate: The certificate, or the name of its file.
        log: The log that it is about. If it is given, every number is recomputed and compared.
        public_key: The key that must have signed the document: base64, or the name of a file with it or with the response
            of `GET /v1/certificates/key`.
        policies: The candidates of the certificate; policies of a prior by their ids.
        features: As for `read`.
        rename: As for `read`.
        logging_policy: As for `read`.
        threads: As for `certify`.
        progress: As for `read`.
        **options: What the certificate does not say about the log: `format`, `repetitions`, `exact_propensities`.

    Example:
        >>> import guarantor
        >>> log = guarantor.simulate(rows=1000, seed=3)
        >>> certificate = guarantor.certify(log, outcome="reward")
        >>> guarantor.verify(certificate, log=log).valid
        True
        >>> forged = certificate.to_dict() | {"guaranteed_improvement": 0.9}
        >>> guarantor.verify(forged, log=log).failed
        ['digest', 'guaranteed_improvement']
    """
    if log is None and public_key is None:
        raise ValueError(
            "pass log, public_key or both: anyone can write a document that agrees with its own digest"
        )
    examined = json.loads(_native.examine(_document(certificate), _key(public_key)))
    checks, document = examined["verification"]["checks"], examined["certificate"]
    if log is not None:
        if document.get("merged") is not None:
            message = "the certificate was merged from partials; recompute it with guarantor verify --recipe --partial"
            raise ValueError(message)
        if examined["unsupported"] is not None:
            recomputed = examined["unsupported"]["checks"]
        else:
            text = json.dumps(document)
            known = read_log(
                log,
                options,
                features=features,
                rename=rename,
                logging_policy=text_of(logging_policy),
                certificate=text,
                progress=progress,
            )
            named = texts_of(_named(policies, document))
            report = reporter(progress)
            recomputed = json.loads(known._native.verify(text, named, examined["vouched"], threads, report))[
                "checks"
            ]
        names = {check["name"] for check in recomputed}
        checks = [check for check in checks if check["name"] not in names] + recomputed
    valid = all(check["ok"] for check in checks)
    return Verification({"valid": valid, "checks": checks, "unchecked": examined["unchecked"]})


@overload
def simulate(
    dataset: Literal["toy", "news", "shop"] = "toy",
    *,
    out: None = None,
    rows: int | None = None,
    seed: int = 0,
    world: int = 0,
    alpha: float = 0.5,
    interactions: int = 1,
    retrain: int = 0,
    features: bool = True,
    policy: PolicySource | None = None,
    format: str | None = None,
) -> Table: ...
@overload
def simulate(
    dataset: Literal["toy", "news", "shop"] = "toy",
    *,
    out: str | PathLike[str],
    rows: int | None = None,
    seed: int = 0,
    world: int = 0,
    alpha: float = 0.5,
    interactions: int = 1,
    retrain: int = 0,
    features: bool = True,
    policy: PolicySource | None = None,
    format: str | None = None,
) -> None: ...
def simulate(
    dataset: Literal["toy", "news", "shop"] = "toy",
    *,
    out: str | PathLike[str] | None = None,
    rows: int | None = None,
    seed: int = 0,
    world: int = 0,
    alpha: float = 0.5,
    interactions: int = 1,
    retrain: int = 0,
    features: bool = True,
    policy: PolicySource | None = None,
    format: str | None = None,  # noqa: A002
) -> Table | None:
    """Simulate the log of a known policy in a small world: the log that `guarantor simulate` writes.

    Args:
        dataset: The world: `toy` (five actions), `news` (every row has its own actions) or `shop` (several outcomes).
        out: The file to write; by default a table is returned.
        rows: The number of rows; 20 000 by default.
        seed: The same seed gives the same log.
        world: For `news` and `shop`: which world.
        alpha: The inverse temperature of the logging policy: 0 is uniform, larger values explore less.
        interactions: For `toy`: how often each context is logged.
        retrain: How often the logging policy is retrained on its own log, once a day.
        features: Whether rows have features.
        policy: Log with this policy instead of the built-in one.
        format: The format of the file, if its name does not imply it.

    Example:
        >>> import guarantor
        >>> guarantor.simulate(rows=100).column_names
        ['x', 'action', 'propensities', 'reward']
    """
    keywords = {
        "dataset": dataset,
        "rows": rows,
        "seed": seed,
        "world": world,
        "alpha": alpha,
        "interactions": interactions,
        "retrain": retrain,
        "features": features,
        "format": format,
    }
    return _native.simulate(json.dumps(keywords), text_of(policy), out)


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the options of a log from the fields of a spec."""
    of_log = {name: value for name, value in options.items() if name in LOG_OPTIONS}
    return of_log, {name: value for name, value in options.items() if name not in LOG_OPTIONS}


def prepared(request: Json, policies: Mapping[str, PolicySource]) -> tuple[dict[str, Any], dict[str, Policy]]:
    """Give policies ids that follow from their parameters, as the command line does, so that certificates repeat."""
    # What describes a job for people is no part of what is certified.
    fields = {name: value for name, value in request.items() if name != "metadata"}
    loaded = {name: _policy(source) for name, source in policies.items()}
    # The ids of a server stay.
    ids = {name: name if _is_uuid(name) else policy.id for name, policy in loaded.items()}
    renamed: dict[str, Any] = json.loads(json.dumps(fields), object_hook=lambda each: _renamed(each, ids))
    return renamed, {ids[name]: policy for name, policy in loaded.items()}


def _run(
    log: Log,
    request: dict[str, Any],
    policies: Mapping[str, PolicySource],
    max_memory: int | None,
    threads: int | None,
    progress: ProgressCallback | None,
) -> Certificate:
    request, named = prepared(request, policies)
    texts = texts_of(named)
    memory = max_memory if max_memory is not None else _memory() // 4 * 3
    document, policy_text = log._native.certify(
        json.dumps(request), texts, memory, threads, reporter(progress)
    )
    learned = None if policy_text is None else Policy.load(policy_text.encode())
    return Certificate(json.loads(document), learned)


def _renamed(fields: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    name = fields.get("policy_id")
    return fields | {"policy_id": ids[name]} if isinstance(name, str) and name in ids else fields


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _policy(source: PolicySource) -> Policy:
    return source if isinstance(source, Policy) else Policy.load(source)


def _named(
    policies: Sequence[PolicySource] | Mapping[str, PolicySource] | None, document: Mapping[str, Any]
) -> dict[str, Policy]:
    """Return policies by id. A candidate is recognized by its digest."""
    if policies is None:
        return {}
    if isinstance(policies, Mapping):
        return {name: _policy(source) for name, source in policies.items()}
    ids = {entry.get("policy_digest"): entry["candidate"] for entry in document["candidates"]}
    named = {}
    for source in policies:
        policy = _policy(source)
        label = ids.get(policy.digest)
        if label is None:
            raise ValueError(
                f"no candidate of the certificate is {policy!r}; pass the policy of a prior by its id"
            )
        named[label.removeprefix("policy:")] = policy
    return named


def _document(certificate: Certificate | Mapping[str, Any] | str | PathLike[str]) -> str:
    if isinstance(certificate, Certificate):
        return certificate.to_json()
    if isinstance(certificate, Mapping):
        return json.dumps(certificate)
    return Path(certificate).read_text()


def _key(public_key: str | PathLike[str] | None) -> str | None:
    if public_key is None:
        return None
    path = Path(public_key)
    # A key in base64 is shorter than the longest file name.
    return path.read_text() if len(os.fspath(public_key)) < 4096 and path.is_file() else os.fspath(public_key)


def _memory() -> int:
    """Return the memory of the machine, or of the container, in bytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total
