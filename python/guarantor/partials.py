"""Certificates of logs that outgrow one machine: recipes, partials and their merge.

With the policy and the sizes of the bets fixed, what is certified is a sum over rows, so any engine that can sum can carry
it. `freeze` fixes everything on the earliest part of a log, `partial` sums over one partition, and `merge` makes the
certificate. Sums are exact: the certificate has the same digest for every number of partitions and every order.
`guarantor.spark` does all of it on a Spark data frame; with Ray, Dask or processes, call the three functions yourself.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy.typing as npt

from guarantor import _native
from guarantor._data import ArrowStream, LogData, ProgressCallback, as_stream, read_log, reporter
from guarantor._errors import EngineError, SpecError
from guarantor._local import PolicySource, prepared, split_options
from guarantor._options import JobOptions, Json
from guarantor._results import Certificate
from guarantor.policy import Policy, texts_of


class Recipe:
    """Everything that the sum over rows depends on, fixed before the first certified row.

    Attributes:
        digest: The digest of the recipe, which certificates name.
    """

    def __init__(self, text: str, digest: str) -> None:
        self._text = text
        self.digest = digest

    def to_json(self) -> str:
        """Return the recipe as canonical JSON, as `guarantor partial --recipe` reads it."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as a dictionary."""
        recipe: dict[str, Any] = json.loads(self._text)
        return recipe

    def save(self, path: str | PathLike[str]) -> None:
        """Write the recipe to a file."""
        Path(path).write_text(self._text)

    @property
    def policy(self) -> Policy | None:
        """The policy that is certified; None if it is a candidate that the rows carry."""
        subject = self.to_dict()["subject"]
        return Policy(subject["params"]) if subject["kind"] == "policy" else None

    def __repr__(self) -> str:
        return f"Recipe({self.digest[:15]}…)"


def freeze(
    data: LogData,
    *,
    planned_rows: int | None = None,
    snapshot: str | None = None,
    spec: Json | None = None,
    policies: Mapping[str, PolicySource] | None = None,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    threads: int | None = None,
    progress: ProgressCallback | None = None,
    **options: Unpack[JobOptions],
) -> Recipe:
    """Learn on the earliest part of a log, or take a candidate, and freeze a recipe for the other rows.

    Args:
        data: The earliest part of the log, as for `guarantor.read`. It is left out of the sum: if rows have a timestamp,
            those up to its last one are; otherwise they must not be in the partitions.
        planned_rows: The number of rows that will be certified. The bet is sized for it; without it, bets of several sizes
            share the claim.
        snapshot: The snapshot of the table that the rows are read from. The certificate names it.
        spec: As for `guarantor.certify`: kind `learn` with the bound `auto`, or one candidate.
        policies: As for `guarantor.certify`.
        features: As for `guarantor.read`.
        rename: As for `guarantor.read`.
        threads: As for `guarantor.certify`.
        progress: As for `guarantor.read`.
        **options: As for `guarantor.certify`.

    Example:
        >>> import guarantor
        >>> from guarantor import partials
        >>> recipe = partials.freeze(guarantor.simulate(rows=1000, seed=1), outcome="reward")
        >>> rest = [guarantor.simulate(rows=1000, seed=1, policy=guarantor.Policy(
        ...     {"kind": "uniform", "n_actions": 5, "dim": 8}))]
        >>> sums = [partials.partial(rows, recipe, partition=str(i)) for i, rows in enumerate(rest)]
        >>> partials.merge(recipe, sums)["merged"]["recipe"] == recipe.digest
        True
    """
    log_options, fields = split_options(options)
    log = read_log(data, log_options, features=features, rename=rename, progress=progress)
    request, named = prepared({**(spec or {}), **fields}, policies or {})
    text, digest = _native.freeze(
        log._native, json.dumps(request), texts_of(named), planned_rows, snapshot, threads, reporter(progress)
    )
    return Recipe(text, digest)


def partial(
    data: ArrowStream | Mapping[str, npt.ArrayLike],
    recipe: Recipe | str,
    partition: str,
    *,
    features: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    threads: int | None = None,
) -> str:
    """Return the sums over one partition of the rows, as JSON.

    Args:
        data: The rows of the partition, at least one.
        recipe: The recipe, or its JSON.
        partition: The name of the partition. No two partials of a merge have the same.
        features: As for `guarantor.read`.
        rename: As for `guarantor.read`.
        threads: As for `guarantor.certify`.
    """
    text = recipe if isinstance(recipe, str) else recipe.to_json()
    return _native.partial(as_stream(data), text, partition, rename or {}, features or [], threads)


def merge(recipe: Recipe, partials: Iterable[str], *, expected_rows: int | None = None) -> Certificate:
    """Return the certificate of partials.

    Args:
        recipe: The recipe of all of them.
        partials: The partials, in any order.
        expected_rows: The number of rows of all partitions together, those that were learned from included. Fewer or more
            are an error.

    Raises:
        SpecError: Partials overlap, are repeated or belong to another recipe, or rows are missing; `code` says which.
    """
    document = json.loads(_native.merge(recipe.to_json(), list(partials), expected_rows))
    return Certificate(document, recipe.policy)


def submit(
    recipe: Recipe,
    partials: Iterable[str],
    *,
    url: str | None = None,
    key: str | None = None,
    expected_rows: int | None = None,
    name: str | None = None,
    attempts: int = 8,
) -> Certificate:
    """Have a server merge partials, sign the certificate and enter the look in its ledger.

    Args:
        recipe: The recipe of all of them.
        partials: The partials, in any order.
        url: The server; by default `GUARANTOR_URL` of the environment.
        key: The API key; by default `GUARANTOR_API_KEY` of the environment, which is never sent to an explicit `url`.
        expected_rows: As for `merge`.
        name: A name for people, of the dataset that stands for the rows.
        attempts: How often a request is sent if the server has no time for it.

    Raises:
        SpecError: The server rejects the partials; `code` says why.
        EngineError: The job failed, or the server does not answer.
    """
    import httpx2

    base = (url or os.environ.get("GUARANTOR_URL", "http://127.0.0.1:8080")).rstrip("/")
    # The key of the environment belongs to the server of the environment.
    key = key or (None if url else os.environ.get("GUARANTOR_API_KEY"))
    # The documents are sent as they were written: their digests cover every digit.
    rest = json.dumps({"expected_rows": expected_rows, "name": name})
    body = f'{{"recipe":{recipe.to_json()},"partials":[{",".join(partials)}],{rest[1:]}'
    headers = {"content-type": "application/json", "idempotency-key": str(uuid.uuid4())}
    with httpx2.Client(
        base_url=base, headers={"authorization": f"Bearer {key}"} if key else {}, timeout=120
    ) as http:

        def ask(method: str, path: str, **more: Any) -> dict[str, Any]:
            for attempt in range(attempts):
                response = http.request(method, path, **more)
                if response.status_code not in (429, 503) or attempt + 1 == attempts:
                    break
                time.sleep(min(float(response.headers.get("retry-after", 2**attempt)), 60))
            answer: dict[str, Any] = response.json()
            if response.is_success:
                return answer
            if response.status_code == 422:
                raise SpecError(str(answer.get("reason", answer["code"])), "partials", str(answer["detail"]))
            raise EngineError(f"the server answered {response.status_code}: {answer.get('detail')}")

        job = ask("POST", "/v1/partials", content=body.encode(), headers=headers)
        while job["status"] in ("queued", "running"):
            job = ask("GET", f"/v1/jobs/{job['id']}?wait=60")
        if job["status"] != "succeeded":
            raise EngineError(
                f"the job {job['id']} {job['status']}: {(job.get('error') or {}).get('message')}"
            )
        return Certificate(ask("GET", f"/v1/jobs/{job['id']}/certificate"), recipe.policy)
