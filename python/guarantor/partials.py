"""Certificates of logs that outgrow one machine: recipes, partials and their merge.

With the policy and the sizes of the bets fixed, what is certified is a sum over rows, so any engine that can sum can carry
it. `freeze` fixes everything on the earliest part of a log, `partial` sums over one partition, and `merge` makes the
certificate. Sums are exact: the certificate has the same digest for every number of partitions and every order.
`guarantor.spark` does all of it on a Spark data frame; with Ray, Dask or processes, call the three functions yourself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt

from guarantor import _native
from guarantor._data import ArrowStream, LogData, as_stream, reporter
from guarantor._local import prepared
from guarantor._options import RunOptions, split
from guarantor._reading import read_log
from guarantor.policy import Policy, texts_of

if TYPE_CHECKING:
    from guarantor._results import Certificate
    from guarantor.client.models import IssuedCertificate


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

    @property
    def learned_policy(self) -> Policy | None:
        """The policy, if it was learned on the log that the recipe was frozen on."""
        return self.policy if self.to_dict()["spec"]["kind"] == "learn" else None

    def __repr__(self) -> str:
        return f"Recipe({self.digest[:15]}…)"


def freeze(
    data: LogData,
    *,
    planned_rows: int | None = None,
    snapshot: str | None = None,
    **options: Unpack[RunOptions],
) -> Recipe:
    """Learn on the earliest part of a log, or take a candidate, and freeze a recipe for the other rows.

    Args:
        data: The earliest part of the log, as for `guarantor.read`. It is left out of the sum: if rows have a timestamp,
            those up to its last one are; otherwise they must not be in the partitions.
        planned_rows: The number of rows that will be certified. The bet is sized for it; without it, bets of several sizes
            share the claim.
        snapshot: The snapshot of the table that the rows are read from. The certificate names it.
        **options: As for `guarantor.certify`. The spec learns with the bound `auto`, or has one candidate. Rows carry
            their propensities, so there is no `logging_policy`.

    Example:
        >>> import guarantor
        >>> from guarantor import partials
        >>> recipe = partials.freeze(guarantor.simulate(rows=1000, seed=1), outcome="reward")
        >>> rest = [guarantor.simulate(rows=1000, seed=seed) for seed in (2, 3)]
        >>> sums = [partials.partial(rows, recipe, partition=str(i)) for i, rows in enumerate(rest)]
        >>> partials.merge(recipe, sums)["merged"]["recipe"] == recipe.digest
        True
    """
    if options.get("logging_policy") is not None:
        raise ValueError("partials need propensities in every row; a logging policy cannot supply them")
    log_options, fields = split(options)
    log = read_log(data, log_options)
    request, named = prepared(fields, options.get("policies") or {})
    report = reporter(options.get("progress"))
    text, digest = _native.freeze(
        log._native,
        json.dumps(request),
        texts_of(named),
        planned_rows,
        snapshot,
        options.get("threads"),
        report,
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
    from guarantor._results import certificate_of

    document = _native.merge(recipe.to_json(), list(partials), expected_rows)
    return certificate_of(document, recipe.learned_policy)


def submit(
    recipe: Recipe,
    partials: Iterable[str],
    *,
    url: str | None = None,
    key: str | None = None,
    expected_rows: int | None = None,
    name: str | None = None,
) -> IssuedCertificate:
    """Have a server merge partials, sign the certificate and enter the look in its ledger: `Client.merge`.

    Args:
        recipe: The recipe of all of them.
        partials: The partials, in any order.
        url: The server; by default `GUARANTOR_URL` of the environment.
        key: The API key; by default `GUARANTOR_API_KEY` of the environment, which is never sent to an explicit `url`.
        expected_rows: As for `merge`.
        name: A name for people, of the dataset that stands for the rows.

    Raises:
        ClientError: The server rejects the partials, or does not answer.
    """
    from guarantor.client import Client

    with Client(url, key) as client:
        return client.merge(recipe, partials, expected_rows=expected_rows, name=name)
