"""Policies: load the parameters of one, and ask what it plays."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from guarantor import _native

Contexts: TypeAlias = npt.ArrayLike | Sequence[Mapping[str, Any]]
Randomness: TypeAlias = int | np.random.Generator | None
PolicySource: TypeAlias = "Policy | str | PathLike[str] | bytes | Mapping[str, Any]"
"""A policy, or where its parameters are: a file, its bytes, or a dictionary."""


class Draws(NamedTuple):
    """Actions that were drawn, and the propensities to log with them.

    Attributes:
        actions: One action per context; a position in its list, if the context has its own actions.
        propensities: The probability with which each was drawn.
    """

    actions: npt.NDArray[np.int64]
    propensities: npt.NDArray[np.float64]


class Policy:
    """A policy: a map from contexts to probabilities of actions.

    Load one from a file, from the bytes of one, or from a dictionary, as `GET /v1/policies/{id}/parameters` returns it
    and `POST /v1/policies` takes it.

    Example:
        >>> import guarantor
        >>> policy = guarantor.Policy.load({"kind": "softmax", "mean": [[1.0, 0.0], [0.0, 1.0]]})
        >>> policy.propensities([[0.0, 0.0], [2.0, 0.0]]).round(3)
        array([[0.5  , 0.5  ],
               [0.881, 0.119]])
        >>> draws = policy.sample([[0.0, 0.0], [2.0, 0.0]], rng=7)
        >>> draws.actions.shape
        (2,)
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._native = _native.Policy(json.dumps(parameters))

    @classmethod
    def load(cls, source: str | PathLike[str] | bytes | Mapping[str, Any]) -> Policy:
        """Load a policy from a file name, from bytes, or from a dictionary.

        Raises:
            SpecError: The parameters are not those of a policy. `field` says which is wrong.
        """
        if isinstance(source, Mapping):
            return cls(source)
        text = source.decode() if isinstance(source, bytes) else Path(source).read_text()
        policy = cls.__new__(cls)
        policy._native = _native.Policy(text)
        return policy

    @property
    def kind(self) -> str:
        """The form of the policy, such as `softmax` or `exploring`."""
        return str(json.loads(self._native.kind))

    @property
    def n_actions(self) -> int:
        """K, the number of actions; 0 if the policy plays over the actions that it is given."""
        return self._native.n_actions

    @property
    def dim(self) -> int:
        """The number of features of a context; 0 if the policy plays over the actions that it is given."""
        return self._native.dim

    @property
    def digest(self) -> str:
        """The digest of the parameters, as certificates name it."""
        return self._native.digest

    @property
    def id(self) -> str:
        """The id that a certificate made in process gives the policy. It follows from the parameters."""
        return self._native.id

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters, as `POST /v1/policies` takes them."""
        parameters: dict[str, Any] = json.loads(self._native.to_json())
        return parameters

    def save(self, path: str | PathLike[str]) -> None:
        """Write the parameters to a file."""
        Path(path).write_text(self._native.to_json())

    def propensities(self, X: Contexts) -> Any:
        """Return the probability of every action in every context, at the resolution of certificates.

        Args:
            X: Contexts × features; or, if the policy plays over the actions that it is given, a list of
                `{"x": …, "actions": […]}`.

        Returns:
            An array of contexts × actions; or a list of arrays, one per context, whose lengths are the numbers of
            their actions.
        """
        if self._native.plays_sets:
            rows = self._native.set_propensities(_contexts_json(X))
            return [np.asarray(row, dtype=np.float64) for row in rows]
        x = self._matrix(X)
        out = np.empty((x.shape[0], self.n_actions), dtype=np.float64)
        if x.shape[0] > 0:
            self._native.propensities(x, out)
        return out

    def predict_proba(self, X: Contexts) -> Any:
        """Return `propensities(X)`, under the name that scikit-learn gives it."""
        return self.propensities(X)

    def sample(self, X: Contexts, rng: Randomness = None) -> Draws:
        """Draw an action in every context.

        Args:
            X: Contexts, as for `propensities`.
            rng: A generator of numpy, or a seed. Without one, the draws differ every time.
        """
        generator = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        seed = int(generator.integers(0, 2**63))
        if self._native.plays_sets:
            actions, propensities = self._native.set_sample(_contexts_json(X), seed)
        else:
            actions, propensities = self._native.sample(self._matrix(X), seed)
        return Draws(np.asarray(actions, dtype=np.int64), np.asarray(propensities, dtype=np.float64))

    def _matrix(self, X: Contexts) -> npt.NDArray[np.float32]:
        x = np.ascontiguousarray(X, dtype=np.float32)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"X has the shape {x.shape}; the policy needs contexts × {self.dim} features")
        return x

    def __repr__(self) -> str:
        return f"Policy({self.kind}, {self.n_actions} actions, {self.dim} features, {self.digest[:15]}…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy.load, (self._native.to_json().encode(),)


def policy_of(source: PolicySource) -> Policy:
    """Return the policy, which is loaded if it is not yet."""
    return source if isinstance(source, Policy) else Policy.load(source)


def _contexts_json(X: Contexts) -> str:
    try:
        return json.dumps({"contexts": X}, default=_plain)
    except TypeError as error:
        message = (
            "the policy plays over the actions that it is given; pass a list of {'x': …, 'actions': […]}"
        )
        raise ValueError(message) from error


def _plain(value: object) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(type(value).__name__)


def texts_of(policies: Mapping[str, Policy]) -> dict[str, str]:
    """Return the parameters of policies as JSON, for the native module."""
    return {name: policy._native.to_json() for name, policy in policies.items()}


def text_of(policy: PolicySource | None) -> str | None:
    """Return the parameters of a policy, however it is given, as JSON."""
    return None if policy is None else policy_of(policy)._native.to_json()
