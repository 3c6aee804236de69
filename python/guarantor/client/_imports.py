"""Logs by reference: queued, waited for, listed and canceled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, Unpack

from guarantor.client._effects import Call, Op, Stream
from guarantor.client._operations import Operations, identifier, stated
from guarantor.client._transport import items, verb
from guarantor.client.errors import ImportCanceled, ImportFailed, ImportTimeout
from guarantor.client.models import Dataset, Import, ImportProgress, ReadObject
from guarantor.client.requests import UploadOptions

ImportCallback: TypeAlias = Callable[[ImportProgress], object]


class ImportVerbs(Operations):
    """Logs that the server reads where they lie: objects of a bucket, or files of its own machine."""

    @verb
    def create(
        self,
        uris: str | Sequence[str],
        *,
        materialize: bool = True,
        idempotency_key: str | None = None,
        **options: Unpack[UploadOptions],
    ) -> Op[Import]:
        """Queue an import and return at once. `datasets.create_from` waits for its dataset.

        The dataset has the id of the import. A retried request creates one import. With an `idempotency_key` of
        your own, so does a pipeline that is run again within 24 hours.
        """
        source = {"uris": [uris] if isinstance(uris, str) else list(uris), "materialize": materialize}
        body = {"source": source, **stated(options)}
        return (yield from self._create(Import, "/v1/datasets", body, idempotency_key))

    @verb
    def get(self, import_: str | Import | Dataset) -> Op[Import]:
        """Return the import as it is now; of a dataset, the one that it was created by."""
        return (yield from self._get(Import, f"/v1/imports/{identifier(import_)}"))

    @items
    def list(self) -> Stream[Import]:
        """All imports, newest first."""
        yield from self._list(Import, "/v1/imports")

    @verb
    def wait(
        self, import_: str | Import, *, timeout: float | None = None, progress: ImportCallback | None = None
    ) -> Op[Import]:
        """Wait until an import has ended, without polling: the server answers when it has.

        With `progress`, it is asked once a second, and reports how much it has read. Raises `ImportTimeout` if
        it takes longer than `timeout` seconds. The import then goes on.
        """
        return (yield from self._ended(identifier(import_), timeout, progress))

    def _ended(self, import_id: str, timeout: float | None, progress: ImportCallback | None) -> Op[Import]:
        def late(found: Import) -> ImportTimeout:
            about = f"import {found.id} is {found.status} after {timeout} seconds; it goes on"
            return ImportTimeout(about, found)

        def see(found: Import) -> None:
            if progress is not None and found.progress is not None:
                progress(found.progress)

        watch = None if progress is None else see
        return (yield from self._until_ended(Import, f"/v1/imports/{import_id}", timeout, late, see=watch))

    @verb
    def result(
        self, import_: str | Import, *, timeout: float | None = None, progress: ImportCallback | None = None
    ) -> Op[Dataset]:
        """Wait for an import and return its dataset. Raises `ImportFailed` or `ImportCanceled` if there is none."""
        ended = yield from self._ended(identifier(import_), timeout, progress)
        if ended.status == "failed":
            raise ImportFailed(ended)
        if ended.status == "cancelled":
            raise ImportCanceled(f"import {ended.id} was canceled", ended)
        return (yield from self._get(Dataset, f"/v1/datasets/{ended.id}"))

    @items
    def objects(self, import_: str | Import | Dataset) -> Stream[ReadObject]:
        """Return the objects that an import has read, in the order of the log, with what identifies their bytes."""
        yield from self._list(ReadObject, f"/v1/imports/{identifier(import_)}/objects", paged=False)

    @verb
    def cancel(self, import_: str | Import) -> Op[Import]:
        """Cancel an import. One that has succeeded or failed is a `Conflict`."""
        path = f"/v1/imports/{identifier(import_)}/cancel"
        return (yield from self._call(Import, Call("POST", path, repeatable=True)))
