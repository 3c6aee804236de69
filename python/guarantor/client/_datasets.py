"""Datasets: uploads, appends, candidates, versions and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack, cast

from guarantor.client._candidates import Probabilities, candidate_rows
from guarantor.client._effects import Op, Stream
from guarantor.client._operations import Operations, identifier
from guarantor.client._transport import items, verb
from guarantor.client._uploads import Log
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
