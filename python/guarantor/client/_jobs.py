"""Jobs: submitting, waiting, following, certificates and the gate of a job."""

from __future__ import annotations

from typing import Literal, Unpack

import httpx2

from guarantor.client._effects import Call, Emit, Op, Sleep, Stream, follow, next_event
from guarantor.client._gates import GateOperations
from guarantor.client._operations import FINISHED, identifier, item_of
from guarantor.client._retry import broken, retry_after
from guarantor.client._transport import items, verb
from guarantor.client.errors import (
    Conflict,
    JobCanceled,
    JobFailed,
    Unavailable,
    WaitTimeout,
    error_of,
)
from guarantor.client.models import (
    Dataset,
    Decision,
    Gate,
    IssuedCertificate,
    Job,
    JobEvent,
    JobStatus,
    Policy,
)
from guarantor.client.requests import GateRequirements, Spec


class JobVerbs(GateOperations):
    """Jobs, which learn or evaluate policies."""

    @verb
    def create(
        self, dataset: str | Dataset, *, idempotency_key: str | None = None, **spec: Unpack[Spec]
    ) -> Op[Job]:
        """Submit a job. Everything but the dataset has a default, and the job shows the defaults.

        A retried request creates one job. With an `idempotency_key` of your own, so does a pipeline that is
        run again within 24 hours.
        """
        body = {"dataset_id": dataset if isinstance(dataset, str) else dataset.id, **spec}
        return (yield from self._create(Job, "/v1/jobs", body, idempotency_key))

    @verb
    def get(self, job: str | Job) -> Op[Job]:
        """Return the job as it is now."""
        return (yield from self._get(Job, f"/v1/jobs/{identifier(job)}"))

    @items
    def list(
        self,
        *,
        status: JobStatus | None = None,
        decision: Decision | None = None,
        dataset: str | Dataset | None = None,
        order: Literal["newest", "oldest"] | None = None,
    ) -> Stream[Job]:
        """Return jobs, newest first unless `order` is another one."""
        dataset_id = dataset.id if isinstance(dataset, Dataset) else dataset
        chosen = {"status": status, "decision": decision, "dataset_id": dataset_id, "order": order}
        yield from self._list(Job, "/v1/jobs", chosen)

    @verb
    def wait(self, job: str | Job, *, timeout: float | None = None) -> Op[Job]:
        """Wait until a job has ended, without polling: the server answers when it has.

        Raises `WaitTimeout` if it takes longer than `timeout` seconds. The job then goes on.
        """
        return (yield from self._ended(identifier(job), timeout))

    def _ended(self, job_id: str, timeout: float | None) -> Op[Job]:
        def late(job: Job) -> WaitTimeout:
            return WaitTimeout(f"job {job.id} is {job.status} after {timeout} seconds; it goes on", job)

        return (yield from self._until_ended(Job, f"/v1/jobs/{job_id}", timeout, late))

    @verb
    def result(self, job: str | Job, *, timeout: float | None = None) -> Op[IssuedCertificate]:
        """Wait for a job and returns its certificate. Raises `JobFailed` or `JobCanceled` if it has none."""
        return (yield from self._certified((yield from self._ended(identifier(job), timeout))))

    def _certified(self, job: Job) -> Op[IssuedCertificate]:
        if job.status == "failed":
            why = f"{job.error.code}: {job.error.message}" if job.error else "it did not say why"
            raise JobFailed(f"job {job.id} failed: {why}", job)
        if job.status == "cancelled":
            raise JobCanceled(f"job {job.id} was canceled", job)
        return (yield from JobVerbs.certificate.op(self, job))

    @verb
    def cancel(self, job: str | Job) -> Op[Job]:
        """Cancel a job. One that was canceled already stays so; one that has ended is a `Conflict`."""
        path = f"/v1/jobs/{identifier(job)}"
        try:
            return (yield from self._call(Job, Call("POST", f"{path}/cancel", repeatable=True)))
        except Conflict as conflict:
            found = yield from self._get(Job, path)
            if found.status == "cancelled":
                return found
            raise conflict

    @verb
    def certificate(self, job: str | Job) -> Op[IssuedCertificate]:
        """Return the certificate of a job that succeeded."""
        return (yield from self._get(IssuedCertificate, f"/v1/jobs/{identifier(job)}/certificate"))

    @verb
    def policy(self, job: str | Job, *, include: Literal["mean"] | None = None) -> Op[Policy]:
        """Return the policy that a job learned; with `include="mean"`, with its parameters."""
        return (yield from self._get(Policy, f"/v1/jobs/{identifier(job)}/policy", {"include": include}))

    @verb
    def gate(self, job: str | Job, **requirements: Unpack[GateRequirements]) -> Op[Gate]:
        """Asks the gate of a job. Returns only if it is open; otherwise it raises `GateClosed`."""
        return (yield from self._ask(f"/v1/jobs/{identifier(job)}/gate", requirements))

    @items
    def history(self, job: str | Job, *, after: int = 0) -> Stream[JobEvent]:
        """Return the events so far, oldest first."""
        yield from self._list(JobEvent, f"/v1/jobs/{identifier(job)}/events", {"after": after or None})

    @items
    def events(self, job: str | Job, *, after: int = 0) -> Stream[JobEvent]:
        r"""Return the events of a job as they happen, until it has ended.

        If the connection breaks or the server restarts, the stream goes on after the last event that arrived.

        Example:
            >>> from guarantor.client import Client
            >>> import json, random
            >>> actions = random.Random(3).choices([0, 1], k=300)
            >>> rows = [{"x": [1.0], "action": a, "propensity": 0.5, "reward": a} for a in actions]
            >>> log = "\n".join(map(json.dumps, rows)).encode()
            >>> with Client() as client:
            ...     dataset = client.datasets.create(log, format="ndjson", outcome="reward")
            ...     job = client.jobs.create(dataset)
            ...     names = [event.event for event in client.jobs.events(job)]
            >>> names[0], names[-1]
            ('queued', 'succeeded')

        """
        job_id, last, failures = identifier(job), after, 0
        while True:
            call = Call(
                "GET", f"/v1/jobs/{job_id}/events", headers={"last-event-id": str(last)}, repeatable=True
            )
            asked: float | None = None
            try:
                stream = yield from follow(call)
                if stream.response.status_code not in (200, 429, 503):
                    raise error_of(stream.response)
                asked = retry_after(stream.response)
                failure = (
                    None
                    if stream.response.status_code == 200
                    else error_of(stream.response, retry_after=asked)
                )
                while failure is None and (message := (yield from next_event(stream))) is not None:
                    event = item_of(JobEvent, message.data)
                    last, failures = event.id, 0
                    yield Emit(event)
                    if event.event in FINISHED:
                        return
            except httpx2.TransportError as error:
                failure = broken(error, call)
            if failure is None and (yield from self._get(Job, f"/v1/jobs/{job_id}")).status in FINISHED:
                # The stream was opened after the last event, or ended just before it.
                yield from self._list(JobEvent, f"/v1/jobs/{job_id}/events", {"after": last or None})
                return
            failures += 1
            delay = self._settings.retry.delay(failures, asked)
            if delay is None:
                raise failure or Unavailable(
                    503, {"code": "unavailable", "detail": "the stream keeps ending"}, None, None
                )
            yield Sleep(delay)
