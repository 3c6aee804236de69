"""The verbs of the package, done by a server: certify, evaluate, inspect, plan and verify."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, Unpack, cast

from guarantor.client._base import Model
from guarantor.client._candidates import Probabilities
from guarantor.client._datasets import DatasetVerbs
from guarantor.client._effects import Call, Op, observed
from guarantor.client._jobs import JobVerbs
from guarantor.client._logs import Source, event_ids, prepared
from guarantor.client._operations import Operations, keyed, stated
from guarantor.client._policies import PolicyVerbs
from guarantor.client._transport import verb
from guarantor.client._uploads import Body
from guarantor.client.errors import ClientError, NotFound, UnexpectedResponse
from guarantor.client.models import (
    CertificateVerification,
    Dataset,
    IssuedCertificate,
    Job,
    JobEvent,
    Plan,
    Policy,
    Progress,
    ServiceHealth,
    SigningKeys,
)
from guarantor.client.requests import Candidate, Goals, PlanRequest, PolicyParams, UploadOptions
from guarantor.policy import Policy as LocalPolicy

if TYPE_CHECKING:
    from guarantor.partials import Recipe

Candidates: TypeAlias = (
    Sequence[str | Policy | Candidate] | Mapping[str, Probabilities | PolicyParams | Policy]
)
"""The policies to evaluate.

In a list: names of candidates that the log carries, stored policies, or candidates as the API takes them. In
a mapping, by name: arrays of probabilities, parameters of policies, or stored policies.
"""

PolicySource: TypeAlias = Policy | PolicyParams | Any
"""A stored policy, parameters of one, or a `guarantor.Policy`."""

ProgressCallback: TypeAlias = Callable[[Progress], object]


class RunOptions(UploadOptions, Goals):
    """What describes the log, what the job must show, and how the call goes about it."""

    spec: NotRequired[Mapping[str, Any] | None]
    """The spec of the job as a dictionary; keywords take precedence."""
    features: NotRequired[Sequence[str] | None]
    """The columns of a data frame that are, in this order, the numbers of `x`."""
    rename: NotRequired[Mapping[str, str] | None]
    """The field of a log that each of these columns is."""
    logging_policy: NotRequired[PolicySource | None]
    """The policy that logged the data, if it is known. It is stored first."""
    progress: NotRequired[ProgressCallback | None]
    """Is called with the progress of the job."""
    timeout: NotRequired[float | None]
    """How many seconds to wait for the job."""
    idempotency_key: NotRequired[str | None]
    """What makes a repeated call the same call."""


_UPLOAD = frozenset(UploadOptions.__annotations__)
_GOALS = frozenset(Goals.__annotations__)
_OWN = frozenset(RunOptions.__annotations__) - _UPLOAD - _GOALS


@dataclass(frozen=True)
class Run:
    """How a verb goes about its job."""

    timeout: float | None
    progress: ProgressCallback | None
    key: str | None

    @staticmethod
    def of(options: Mapping[str, Any]) -> Run:
        """Return what the options of a verb say about it."""
        return Run(options.get("timeout"), options.get("progress"), options.get("idempotency_key"))

    def part(self, name: str) -> str | None:
        """Return the idempotency key of one request of several."""
        return None if self.key is None else f"{self.key}:{name}"


@dataclass(frozen=True)
class Described:
    """What is said about a log."""

    options: Mapping[str, Any]
    features: Sequence[str] | None = None
    rename: Mapping[str, str] | None = None
    logging_policy: PolicySource | None = None

    @staticmethod
    def of(options: Mapping[str, Any]) -> Described:
        """Return what the options of a verb say about it."""
        said = {name: value for name, value in options.items() if name in _UPLOAD}
        return Described(said, options.get("features"), options.get("rename"), options.get("logging_policy"))


def _goals(options: Mapping[str, Any], **fixed: Any) -> dict[str, Any]:
    """Return the spec of the job. A keyword that nobody knows is in it, and the server names it."""
    known = {name: value for name, value in options.items() if name not in _UPLOAD and name not in _OWN}
    return {**(options.get("spec") or {}), **known, **fixed}


class ClientVerbs(Operations):
    """The verbs that `guarantor` has too, so that a notebook becomes a pipeline by changing one line."""

    @verb
    def certify(self, log: Source | Dataset, **options: Unpack[RunOptions]) -> Op[IssuedCertificate]:
        r"""Learn a policy from a log and certify it: upload, job, wait, certificate.

        Options of the log and of the job go together, as for `guarantor.certify`. A dataset that the server
        has already is not uploaded again. Ctrl-C cancels the job. With an `idempotency_key` of your own, a
        pipeline that is run again within 24 hours gets the same certificate, and takes no second look at the
        rows.

        Args:
            log: A data frame, arrays by name, a file in any format or several, or a dataset.
            options: The options of an upload, the fields of a job's spec, and `spec`, `features`, `rename`,
                `logging_policy`, `progress`, `timeout` and `idempotency_key`; see `RunOptions`.

        Raises:
            InvalidRows: Rows of the log are wrong.
            JobFailed: There is no certificate.
            WaitTimeout: The job takes longer than `timeout`. It goes on.

        Example:
            >>> from guarantor.client import Client
            >>> import json, random
            >>> draw = random.Random(1)
            >>> actions = draw.choices([0, 1], k=2000)
            >>> rows = [{"x": [draw.random()], "action": a, "propensity": 0.5, "reward": a} for a in actions]
            >>> log = "\n".join(map(json.dumps, rows)).encode()
            >>> with Client() as client:
            ...     certificate = client.certify(log, format="ndjson", outcome="reward")
            >>> certificate.decision, certificate.guaranteed_improvement > 0.1
            ('deploy', True)

        """
        run = Run.of(options)
        dataset = yield from self._dataset(log, Described.of(options), run)
        certificate = yield from self._job(dataset, _goals(options, kind="learn"), run)
        yield from self._learned(certificate)
        return certificate

    @verb
    def evaluate(
        self, log: Source | Dataset, candidates: Candidates, **options: Unpack[RunOptions]
    ) -> Op[IssuedCertificate]:
        r"""Certify policies that exist already. They share δ, and each has its own numbers and decision.

        `independent_of_log=True` is your statement that no candidate was learned from these rows. The server
        rejects the job without it, and the certificate prints it. The other arguments are those of `certify`.

        Example:
            >>> from guarantor.client import Client
            >>> import json, random
            >>> actions = random.Random(2).choices([0, 1], k=1000)
            >>> rows = [{"action": a, "propensities": [0.5, 0.5], "reward": a} for a in actions]
            >>> log = "\n".join(map(json.dumps, rows)).encode()
            >>> always_1 = [[0.0, 1.0]] * 1000
            >>> with Client() as client:
            ...     certificate = client.evaluate(log, format="ndjson", outcome="reward",
            ...                                   candidates={"always_1": always_1}, independent_of_log=True)
            >>> certificate.decision
            'deploy'

        """
        run = Run.of(options)
        dataset = yield from self._dataset(log, Described.of(options), run)
        listed: list[Candidate] = []
        arrays: dict[str, Probabilities] = {}
        for name, entry in _named(candidates):
            if name is None or isinstance(entry, (Mapping, Policy)) or _plays(entry):
                listed.append((yield from self._candidate(name, entry, run)))
            else:
                arrays[name] = entry
                listed.append({"kind": "logged", "name": name})
        if arrays:
            ids, key = event_ids(log), run.part("candidates")
            add = DatasetVerbs.add_candidates.op
            group = self._group(DatasetVerbs)
            dataset = yield from add(group, dataset, arrays, event_ids=ids, idempotency_key=key)
        goals = _goals(options, kind="evaluate", candidates=listed)
        return (yield from self._job(dataset, goals, run))

    @verb
    def merge(
        self,
        recipe: Recipe | str,
        partials: Iterable[str],
        *,
        expected_rows: int | None = None,
        name: str | None = None,
        timeout: float | None = None,
        idempotency_key: str | None = None,
    ) -> Op[IssuedCertificate]:
        """Have the server merge partials, sign the certificate and enter the look in its ledger.

        Args:
            recipe: The recipe of all of them, or its JSON.
            partials: The partials, in any order.
            expected_rows: The number of rows of all partitions together. Fewer or more are an error.
            name: A name for people, of the dataset that stands for the rows.
            timeout: How many seconds to wait for the job.
            idempotency_key: What makes a repeated call the same call.

        Raises:
            InvalidRequest: The partials cannot be merged; `problem["reason"]` is the code of the reason.

        Example:
            >>> import guarantor
            >>> from guarantor import partials
            >>> recipe = partials.freeze(guarantor.simulate(rows=1000, seed=1), outcome="reward")
            >>> rest = guarantor.simulate(rows=1000, seed=2)
            >>> with guarantor.Client() as client:
            ...     signed = client.merge(recipe, [partials.partial(rest, recipe, "rest")])
            >>> signed.merged.recipe == recipe.digest
            True

        """
        # The documents are sent as they were written: their digests cover every digit.
        text = recipe if isinstance(recipe, str) else recipe.to_json()
        rest = json.dumps({"expected_rows": expected_rows, "name": name})
        parts = ['{"recipe":', text, ',"partials":[', ",".join(partials), "],", rest[1:]]
        headers = {"content-type": "application/json", **keyed(idempotency_key)}
        body = Body(lambda: (part.encode() for part in parts))
        call = Call("POST", "/v1/partials", body=body, headers=headers, repeatable=True)
        job = yield from self._call(Job, call)
        certificate = yield from self._awaited(job, Run(timeout, None, None))
        if not isinstance(recipe, str):
            certificate._learned = recipe.learned_policy  # pyright: ignore[reportPrivateUsage]
        return certificate

    def _candidate(self, name: str | None, entry: Any, run: Run) -> Op[Candidate]:
        """Return a candidate as the API takes it."""
        if isinstance(entry, str):
            return {"kind": "logged", "name": entry}
        if isinstance(entry, Mapping):
            given = cast("Any", entry)
            if given.get("kind") in ("logged", "policy"):
                return cast("Candidate", given)
        return {"kind": "policy", "policy_id": (yield from self._stored(entry, run.part(f"policy:{name}")))}

    def _stored(self, policy: Any, key: str | None) -> Op[str]:
        """Return the id of a policy, which is stored if it is not yet."""
        if isinstance(policy, Policy):
            return policy.id
        parameters: Any = policy.to_dict() if hasattr(policy, "to_dict") else policy
        if not isinstance(parameters, Mapping):
            raise TypeError(
                f"a policy is a stored one, one of guarantor.Policy, or its parameters, not {policy!r}"
            )
        create, group = PolicyVerbs.create.op, self._group(PolicyVerbs)
        return (yield from create(group, cast("Any", parameters), idempotency_key=key)).id

    def _dataset(self, log: Source | Dataset, about: Described, run: Run) -> Op[Dataset]:
        """Return the log as a dataset of the server."""
        if isinstance(log, Dataset):
            if about != Described({}):
                raise TypeError(
                    "the dataset is on the server already; what describes the log cannot be changed"
                )
            return log
        first, *others = prepared(log, about.features, about.rename)
        options: Any = dict(about.options)
        if about.logging_policy is not None:
            key = run.part("logging policy")
            options["logging_policy_id"] = yield from self._stored(about.logging_policy, key)
        group, key = self._group(DatasetVerbs), run.part("dataset")
        dataset = yield from DatasetVerbs.create.op(group, first, idempotency_key=key, **options)
        for i, other in enumerate(others):
            append, key, form = DatasetVerbs.append.op, run.part(f"rows:{i}"), options.get("format")
            dataset = yield from append(group, dataset, other, format=form, idempotency_key=key)
        return dataset

    def _job(self, dataset: Dataset, spec: Mapping[str, Any], run: Run) -> Op[IssuedCertificate]:
        """Run a job from its submission to its certificate."""
        jobs, fields = self._group(JobVerbs), cast("Any", spec)
        job = yield from JobVerbs.create.op(jobs, dataset, idempotency_key=run.part("job"), **fields)
        return (yield from self._awaited(job, run))

    def _awaited(self, job: Job, run: Run) -> Op[IssuedCertificate]:
        """Wait for the certificate of a job."""
        jobs = self._group(JobVerbs)
        try:
            if run.progress is not None:
                yield from observed(JobVerbs.events.op(jobs, job), _reports(run.progress))
            ended = yield from JobVerbs.wait.op(jobs, job, timeout=run.timeout)
            # A short job may end before it reports anything. The last report is always that of its end.
            if run.progress is not None and ended.progress is not None:
                run.progress(ended.progress)
            return (yield from JobVerbs.result.op(jobs, ended))
        except (Exception, GeneratorExit):
            raise
        except BaseException:  # Ctrl-C, or a canceled task: nobody waits for the job
            # It may have ended just now, and the interruption is what the caller must see.
            with suppress(ClientError):
                yield from self._sent(Call("POST", f"/v1/jobs/{job.id}/cancel"))
            raise

    def _learned(self, certificate: IssuedCertificate) -> Op[None]:
        """Fetch the policy that a certificate is about."""
        policy_id = certificate.issued.policy_id if certificate.issued else None
        if policy_id is None or certificate.policy is None:
            return
        try:
            parameters = yield from PolicyVerbs.parameters.op(self._group(PolicyVerbs), policy_id)
        except NotFound:
            return  # somebody deleted it; the certificate stands
        learned = LocalPolicy(parameters)
        if learned.digest != certificate.policy.digest:
            raise UnexpectedResponse(f"the policy {policy_id} is not the one that the certificate is about")
        certificate._learned = learned  # pyright: ignore[reportPrivateUsage]

    @verb
    def inspect(
        self,
        log: Source | Dataset,
        *,
        features: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        logging_policy: PolicySource | None = None,
        **options: Unpack[UploadOptions],
    ) -> Op[Dataset]:
        r"""Check a log and report on its health, without leaving it on the server.

        Example:
            >>> from guarantor.client import Client
            >>> rows = b'{"x": [0.1], "action": 1, "propensity": 0.3, "reward": 1}\n' * 3
            >>> with Client() as client:
            ...     report = client.inspect(rows, format="ndjson", outcome="reward")
            >>> report.health.actions_never_logged
            [0]

        """
        group = self._group(DatasetVerbs)
        if isinstance(log, Dataset):
            return (yield from DatasetVerbs.get.op(group, log))
        about = Described(options, features, rename, logging_policy)
        dataset = yield from self._dataset(log, about, Run(None, None, None))
        yield from DatasetVerbs.delete.op(group, dataset)
        return dataset

    @verb
    def plan(self, improvement: float, **request: Unpack[PlanRequest]) -> Op[Plan]:
        """How many rows would certify an improvement, before any log exists.

        Example:
            >>> from guarantor.client import Client
            >>> with Client() as client:
            ...     plan = client.plan(0.05, n_actions=4, full_propensities=True)
            >>> plan.possible
            True

        """
        return (yield from self._compute(Plan, "/v1/plans", {"improvement": improvement, **stated(request)}))

    @verb
    def verify(
        self, certificate: Model | Mapping[str, Any] | str | bytes | os.PathLike[str]
    ) -> Op[CertificateVerification]:
        """Has the server check the signature of a certificate and recompute it from the stored log.

        Takes a certificate, its JSON as an object or as text, or the path of a file.
        """
        return (
            yield from self._compute(
                CertificateVerification, "/v1/certificates/verify", _document(certificate)
            )
        )

    @verb
    def signing_keys(self) -> Op[SigningKeys]:
        """Return the public key that checks the signatures of certificates, and its predecessors."""
        return (yield from self._get(SigningKeys, "/v1/certificates/key"))

    @verb
    def health(self) -> Op[ServiceHealth]:
        """Return what the server says about itself."""
        return (yield from self._get(ServiceHealth, "/healthz"))

    @verb
    def is_ready(self) -> Op[bool]:
        """Whether the server takes requests now."""
        return (yield from self._alive("/readyz"))

    @verb
    def is_alive(self) -> Op[bool]:
        """Whether the process runs, even if it cannot work."""
        return (yield from self._alive("/livez"))

    def _alive(self, path: str) -> Op[bool]:
        try:
            yield from self._sent(Call("GET", path))
        except ClientError:
            return False
        return True

    @verb
    def metrics(self) -> Op[str]:
        """Return the metrics of the server, in the text format of Prometheus."""
        return (yield from self._sent(Call("GET", "/metrics", repeatable=True))).text


def _named(candidates: Candidates) -> list[tuple[str | None, Any]]:
    """Return candidates with their names, if they have some of their own."""
    if isinstance(candidates, str):
        return [(None, candidates)]
    if isinstance(candidates, Mapping):
        return list(cast("Mapping[str | None, Any]", candidates).items())
    return [(None, entry) for entry in candidates]


def _plays(entry: Any) -> bool:
    """Return whether this is a policy of the package, and not its probabilities."""
    return hasattr(entry, "propensities") and hasattr(entry, "to_dict")


def _reports(progress: ProgressCallback) -> Callable[[JobEvent], None]:
    """Return a function that passes on the progress that an event reports."""

    def see(event: JobEvent) -> None:
        if event.event == "progress":
            progress(Progress.model_validate(event.data))

    return see


def _document(certificate: Any) -> Any:
    """Return a certificate as JSON."""
    if isinstance(certificate, Model):
        return certificate.to_dict()
    if isinstance(certificate, Mapping):
        return dict(cast("Mapping[str, Any]", certificate))
    if isinstance(certificate, os.PathLike):
        certificate = Path(cast("os.PathLike[str]", certificate)).read_bytes()
    if isinstance(certificate, (str, bytes)):
        text = certificate if isinstance(certificate, bytes) else certificate.encode()
        if not text.lstrip().startswith(b"{"):
            text = Path(os.fsdecode(text)).read_bytes()
        return json.loads(text)
    if hasattr(certificate, "to_dict"):
        return certificate.to_dict()
    raise TypeError(
        f"a certificate is a result of certify, JSON, or the path of a file, not {type(certificate).__name__}"
    )
