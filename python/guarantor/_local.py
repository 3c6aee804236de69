"""The verbs, in process."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

import numpy.typing as npt

from guarantor import _native
from guarantor._data import Log, LogData, Table, as_stream, columns_of, reporter
from guarantor._options import Json, LogOptions, PlanOptions, RunOptions, Simulation, split
from guarantor._reading import paths_of, read_log
from guarantor.policy import Policy, PolicySource, policy_of, text_of, texts_of

if TYPE_CHECKING:
    # The models of results need pydantic, which a worker that only sums does not import.
    from guarantor._results import Certificate, Inspection, Plan, Verification
    from guarantor.client._base import Model

Candidates: TypeAlias = (
    "Sequence[str | Policy | Json] | Mapping[str, npt.ArrayLike | PolicySource | Sequence[Sequence[float]]]"
)
"""The policies to evaluate.

In a list: names of candidates that the log carries, policies, or candidates as the API takes them. In a mapping, by name:
the probabilities of the logged actions (one number per row) or of all actions (K numbers per row), policies, or parameters.
"""

World: TypeAlias = Literal["toy", "news", "shop"]


def read(data: LogData, **options: Unpack[LogOptions]) -> Log:
    """Read and check a log once, for several jobs.

    Args:
        data: A data frame (pandas, polars, pyarrow, DuckDB), a mapping of column names to arrays, or the names of files
            in any format that the service reads. Several files are one log.
        **options: How the log is read (`features`, `rename`, `logging_policy`, `progress`), and what you know about it
            (`outcome`, `n_actions`, `logging`, …); see `LogOptions`.

    Raises:
        LogError: The log cannot be used; `rows` has the row, the field and the reason of each fault.
        SpecError: An option cannot be used.

    Example:
        >>> import guarantor
        >>> log = guarantor.read(guarantor.simulate(rows=1000, seed=3), outcome="reward")
        >>> len(log)
        1000
    """
    return read_log(data, options)


def inspect(data: LogData, **options: Unpack[LogOptions]) -> Inspection:
    """Check a log, and report on its health. The arguments are those of `read`.

    Example:
        >>> import guarantor
        >>> guarantor.inspect(guarantor.simulate(rows=1000, seed=3), outcome="reward")
        Inspection(1000 rows, 5 actions, 0 warnings)
    """
    from guarantor._results import inspection_of

    return inspection_of(read_log(data, options))


def certify(data: LogData, **options: Unpack[RunOptions]) -> Certificate:
    """Learn a policy from a log, and certify that it is better than the one that logged it.

    The certificate is the one that the service and the command line compute from the same log and spec: its digest is
    the same. It is not signed, and no ledger knows of it: if you look at the same rows again and again until one look
    says deploy, the promise of 1 − δ does not hold for that look. A server keeps count; see `Client`.

    Args:
        data: The log, as for `read`.
        **options: The options of the log, as for `read`; the fields of the spec (`min_improvement`, `delta`, `seed`, …),
            see `SpecOptions`; and those of the run (`policies`, `max_memory`, `threads`), see `RunOptions`.

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
        >>> certificate.learned_policy.propensities([[0.0] * 8]).shape
        (1, 5)
    """
    log_options, fields = split(options)
    return _run(read_log(data, log_options), fields, options.get("policies") or {}, options)


def evaluate(data: LogData, candidates: Candidates, **options: Unpack[RunOptions]) -> Certificate:
    """Certify candidates that exist already.

    Args:
        data: The log, as for `read`.
        candidates: In a list: names of candidates whose propensities the log carries (the column `candidate.NAME`), or
            policies. In a mapping, by name: the probabilities of the logged actions or of all actions, as an array with a
            row per row of a data frame; policies; or their parameters.
        **options: As for `certify`. `independent_of_log=True` is your statement that no candidate was learned from
            these rows; without it, nothing can be certified.

    Example:
        >>> import guarantor
        >>> teacher = guarantor.certify(guarantor.simulate(rows=4000, seed=1), outcome="reward").learned_policy
        >>> fresh = guarantor.simulate(rows=4000, seed=1, policy={"kind": "uniform", "n_actions": 5, "dim": 8})
        >>> guarantor.evaluate(fresh, [teacher], outcome="reward", independent_of_log=True).decision
        'deploy'
    """
    log_options, fields = split(options)
    named = {name: policy_of(source) for name, source in (options.get("policies") or {}).items()}
    entries: list[Json] = []
    arrays: dict[str, Any] = {}
    for name, candidate in _listed(candidates):
        if isinstance(candidate, Policy) or _is_parameters(candidate):
            policy = policy_of(candidate)
            named[policy.id] = policy
            entries.append({"kind": "policy", "policy_id": policy.id})
        elif isinstance(candidate, Mapping):
            entries.append(candidate)
        elif name is None:
            entries.append({"kind": "logged", "name": candidate})
        else:
            arrays[name] = candidate
            entries.append({"kind": "logged", "name": name})
    if arrays:
        data = _with_candidates(data, arrays)
    request = {**fields, "kind": "evaluate", "candidates": entries}
    return _run(read_log(data, log_options), request, named, options)


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
    from guarantor._results import plan_of

    return plan_of(_native.plan(json.dumps({"improvement": improvement, **options})))


def verify(
    certificate: Model | Json | str | PathLike[str],
    *,
    log: LogData | None = None,
    public_key: str | PathLike[str] | None = None,
    policies: Sequence[PolicySource] | Mapping[str, PolicySource] | None = None,
    threads: int | None = None,
    **options: Unpack[LogOptions],
) -> Verification:
    """Verify a certificate without a server: its digest, its signature, and its numbers.

    Args:
        certificate: The certificate, or the name of its file.
        log: The log that it is about. If it is given, every number is recomputed and compared.
        public_key: The key that must have signed the document: base64, or the name of a file with it or with the response
            of `GET /v1/certificates/key`.
        policies: The candidates of the certificate; policies of a prior by their ids.
        threads: As for `certify`.
        **options: How the log is read, as for `read`, and what the certificate does not say about it: `format`,
            `repetitions`, `exact_propensities`.

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
    from guarantor._results import verification_of

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
            known = read_log(log, options, certificate=text)
            named, report = texts_of(_named(policies, document)), reporter(options.get("progress"))
            answer = known._native.verify(text, named, examined["vouched"], threads, report)
            recomputed = json.loads(answer)["checks"]
        names = {check["name"] for check in recomputed}
        checks = [check for check in checks if check["name"] not in names] + recomputed
    valid = all(check["ok"] for check in checks)
    return verification_of({"valid": valid, "checks": checks, "unchecked": examined["unchecked"]})


@overload
def simulate(dataset: World = "toy", *, out: None = None, **keywords: Unpack[Simulation]) -> Table: ...
@overload
def simulate(dataset: World = "toy", *, out: str | PathLike[str], **keywords: Unpack[Simulation]) -> None: ...
def simulate(
    dataset: World = "toy", *, out: str | PathLike[str] | None = None, **keywords: Unpack[Simulation]
) -> Table | None:
    """Simulate the log of a known policy in a small world: the log that `guarantor simulate` writes.

    Args:
        dataset: The world: `toy` (five actions), `news` (every row has its own actions) or `shop` (several outcomes).
        out: The file to write; by default a table is returned.
        **keywords: `rows`, `seed`, `world`, `alpha`, `interactions`, `retrain`, `features`, `policy` and `format`; see
            `Simulation`.

    Example:
        >>> import guarantor
        >>> guarantor.simulate(rows=100).column_names
        ['x', 'action', 'propensities', 'reward']
    """
    usual = {"seed": 0, "world": 0, "alpha": 0.5, "interactions": 1, "retrain": 0, "features": True}
    said: dict[str, Any] = {"dataset": dataset, **usual, **keywords}
    policy = text_of(said.pop("policy", None))
    return _native.simulate(json.dumps(said), policy, out)


def prepared(request: Json, policies: Mapping[str, PolicySource]) -> tuple[dict[str, Any], dict[str, Policy]]:
    """Give policies ids that follow from their parameters, as the command line does, so that certificates repeat."""
    # What describes a job for people is no part of what is certified.
    fields = {name: value for name, value in request.items() if name != "metadata"}
    loaded = {name: policy_of(source) for name, source in policies.items()}
    # The ids of a server stay.
    ids = {name: name if _is_uuid(name) else policy.id for name, policy in loaded.items()}
    renamed: dict[str, Any] = json.loads(json.dumps(fields), object_hook=lambda each: _renamed(each, ids))
    return renamed, {ids[name]: policy for name, policy in loaded.items()}


def _run(
    log: Log, request: dict[str, Any], policies: Mapping[str, PolicySource], options: RunOptions
) -> Certificate:
    from guarantor._results import certificate_of

    request, named = prepared(request, policies)
    most = options.get("max_memory")
    memory = most if most is not None else _memory() // 4 * 3
    report = reporter(options.get("progress"))
    document, learned = log._native.certify(
        json.dumps(request), texts_of(named), memory, options.get("threads"), report
    )
    return certificate_of(document, None if learned is None else Policy.load(learned.encode()))


def _listed(candidates: Candidates) -> list[tuple[str | None, Any]]:
    """Return candidates with their names, if they have some of their own."""
    if isinstance(candidates, str):
        return [(None, candidates)]
    if isinstance(candidates, Mapping):
        return list(candidates.items())
    return [(None, candidate) for candidate in candidates]


def _is_parameters(candidate: object) -> bool:
    """Return whether these are the parameters of a policy, and not a candidate as the API takes it."""
    return isinstance(candidate, Mapping) and candidate.get("kind") not in ("logged", "policy")


def _with_candidates(data: LogData, arrays: Mapping[str, Any]) -> Table:
    """Return the rows of a data frame, with candidates."""
    if isinstance(data, Log) or paths_of(data) is not None:
        message = (
            "arrays of candidates go with the rows of a data frame; read the file into one, or store the "
            "propensities with the rows, as candidate.NAME"
        )
        raise ValueError(message)
    table = _native.Table.from_stream(as_stream(data), {}, [])
    columns = []
    for column in columns_of(arrays):
        wide = getattr(column.values, "ndim", 1) == 2
        prefix = "candidate_propensities" if wide else "candidate"
        columns.append(column._replace(name=f"{prefix}.{column.name}"))
    for column in columns:
        if len(column.values) != len(table):
            raise ValueError(
                f"{column.name} has {len(column.values)} rows, and the log has {len(table)}; their order is the same"
            )
    return table.with_columns(columns)


def _renamed(fields: dict[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    name = fields.get("policy_id")
    return fields | {"policy_id": ids[name]} if isinstance(name, str) and name in ids else fields


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _named(
    policies: Sequence[PolicySource] | Mapping[str, PolicySource] | None, document: Json
) -> dict[str, Policy]:
    """Return policies by id. A candidate is recognized by its digest."""
    if policies is None:
        return {}
    if isinstance(policies, Mapping):
        return {name: policy_of(source) for name, source in policies.items()}
    ids = {entry.get("policy_digest"): entry["candidate"] for entry in document["candidates"]}
    named = {}
    for source in policies:
        policy = policy_of(source)
        label = ids.get(policy.digest)
        if label is None:
            raise ValueError(
                f"no candidate of the certificate is {policy!r}; pass the policy of a prior by its id"
            )
        named[label.removeprefix("policy:")] = policy
    return named


def _document(certificate: Model | Json | str | PathLike[str]) -> str:
    if isinstance(certificate, Mapping):
        return json.dumps(certificate)
    if isinstance(certificate, (str, os.PathLike)):
        return Path(certificate).read_text()
    return certificate.to_json()


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
