"""Datasets: uploads, appends, candidates, versions and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Unpack, cast

from guarantor.client._candidates import Probabilities, candidate_rows
from guarantor.client._effects import Call, Op, Stream
from guarantor.client._imports import ImportCallback, ImportVerbs
from guarantor.client._operations import Operations, identifier
from guarantor.client._transport import items, verb
from guarantor.client._uploads import Log
from guarantor.client.errors import ClientError
from guarantor.client.models import Dataset, DatasetVersion, Ledger, Look
from guarantor.client.requests import FormatName, UploadOptions


class DatasetVerbs(Operations):
    """Logs that the server stores."""

    @verb
    def create(
        self, log: Log, *, idempotency_key: str | None = None, **options: Unpack[UploadOptions]
    ) -> Op[Dataset]:
        r"""Upload a log: a data frame, the path of a file in any format, the bytes of one, or an open file.

        The log is sent in chunks while it is read or encoded. A retried upload creates one dataset. With an
        `idempotency_key` of your own, so does a pipeline that is run again within 24 hours.

        Example:
            >>> from guarantor.client import Client
            >>> rows = b'{"x": [0.1], "action": 1, "propensity": 0.3, "reward": 1}\n' * 3
            >>> with Client() as client:
            ...     dataset = client.datasets.create(rows, format="ndjson", outcome="reward")
            >>> dataset.rows, dataset.n_actions
            (3, 2)

        """
        return (yield from self._upload(Dataset, "/v1/datasets", log, options, idempotency_key))

    @verb
    def create_from(
        self,
        uris: str | Sequence[str],
        *,
        materialize: bool = True,
        progress: ImportCallback | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[UploadOptions],
    ) -> Op[Dataset]:
        r"""Have the server read a log where it lies, and wait for the dataset. Ctrl-C cancels the import.

        Args:
            uris: Addresses that the operator allows, `s3://bucket/key` or `file:///path`, in the order of the log. `*`
                and `?` stand for characters of one segment.
            materialize: Whether the rows are copied into the service. Otherwise the objects are pinned: every job
                reads them again, and fails with `source_changed` if one is not the same anymore.
            progress: Is called about once a second with how much was read.
            timeout: How many seconds to wait.
            idempotency_key: What makes a repeated call the same call.
            options: Those of an upload.

        Raises:
            ImportFailed: The log was rejected, or cannot be read; with `code`, `uri` and the `errors` of rows.
            ImportTimeout: The import takes longer than `timeout`. It goes on.

        Example:
            >>> from guarantor.client import Client, Forbidden
            >>> with Client() as client:
            ...     try:
            ...         client.datasets.create_from("s3://logs/2026-11-*.parquet", outcome="reward")
            ...     except Forbidden as error:
            ...         print(error.code)
            sources_off

        """
        group, create = self._group(ImportVerbs), ImportVerbs.create.op
        import_ = yield from create(
            group, uris, materialize=materialize, idempotency_key=idempotency_key, **options
        )
        try:
            result = ImportVerbs.result.op
            return (yield from result(group, import_, timeout=timeout, progress=progress))
        except (Exception, GeneratorExit):
            raise
        except BaseException:  # Ctrl-C, or a canceled task: nobody waits for the import
            # It may have ended just now, and the interruption is what the caller must see.
            with suppress(ClientError):
                yield from self._sent(Call("POST", f"/v1/imports/{import_.id}/cancel"))
            raise

    @verb
    def append(
        self,
        dataset: str | Dataset,
        log: Log,
        *,
        format: FormatName | None = None,  # noqa: A002 - as the API names it
        idempotency_key: str | None = None,
    ) -> Op[Dataset]:
        """Append rows, which creates the dataset's next version."""
        path = f"/v1/datasets/{identifier(dataset)}/rows"
        return (yield from self._upload(Dataset, path, log, {"format": format}, idempotency_key))

    @verb
    def add_candidates(
        self,
        dataset: str | Dataset,
        candidates: Mapping[str, Probabilities] | Log,
        *,
        format: FormatName | None = None,  # noqa: A002
        event_ids: Probabilities | None = None,
        idempotency_key: str | None = None,
    ) -> Op[Dataset]:
        """Add candidates: what other policies would have done in every row.

        `candidates` maps a name to the probabilities of the logged actions (one number per row) or of all
        actions (K numbers per row). Lists, numpy arrays and columns of data frames will do. A file or a data
        frame with the columns of candidates is sent as it is. If the dataset has event ids, `event_ids` must
        name that of each row.
        """
        path = f"/v1/datasets/{identifier(dataset)}/candidates"
        if isinstance(candidates, Mapping):
            body = candidate_rows(cast("Mapping[str, Probabilities]", candidates), event_ids)
            return (yield from self._upload(Dataset, path, body, {"format": "ndjson"}, idempotency_key))
        return (yield from self._upload(Dataset, path, candidates, {"format": format}, idempotency_key))

    @verb
    def get(self, dataset: str | Dataset) -> Op[Dataset]:
        """Return the dataset at its newest version."""
        return (yield from self._get(Dataset, f"/v1/datasets/{identifier(dataset)}"))

    @verb
    def delete(self, dataset: str | Dataset) -> Op[None]:
        """Delete a dataset. Its certificates stay, and gates no longer open for them."""
        yield from self._delete(f"/v1/datasets/{identifier(dataset)}")

    @items
    def list(self) -> Stream[Dataset]:
        """All datasets, newest first."""
        yield from self._list(Dataset, "/v1/datasets")

    @items
    def versions(self, dataset: str | Dataset) -> Stream[DatasetVersion]:
        """Return the versions of a dataset, newest first."""
        yield from self._list(DatasetVersion, f"/v1/datasets/{identifier(dataset)}/versions")

    @verb
    def ledger(self, dataset: str | Dataset) -> Op[Ledger]:
        """Return the totals of the ledger, with its newest looks."""
        return (yield from self._get(Ledger, f"/v1/datasets/{identifier(dataset)}/ledger", {"limit": 100}))

    @items
    def looks(self, dataset: str | Dataset) -> Stream[Look]:
        """Every look at the rows of a dataset, newest first."""
        yield from self._list(Look, f"/v1/datasets/{identifier(dataset)}/ledger")
