"""Logs of the Open Bandit Pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from guarantor._data import Table, table


def from_obp(bandit_feedback: Mapping[str, Any]) -> Table:
    """Return the log of `obp`'s `bandit_feedback`, as a table for `certify`, `evaluate` and `inspect`.

    `context`, `action`, `reward`, `pscore` and, if there is one, `pi_b` become the fields of a log. If rows have
    positions, each is a feature of its own (1 at the row's position), because the slot of a list is part of the context.
    Rewards are rewards: pass `outcome="reward"` on, with `outcome_max` if they exceed 1, and `n_actions`.

    Args:
        bandit_feedback: What `obtain_batch_bandit_feedback()` returns.

    Example:
        >>> import guarantor, numpy as np
        >>> feedback = {
        ...     "n_rounds": 2, "n_actions": 2, "context": np.zeros((2, 1)), "action": np.array([0, 1]),
        ...     "reward": np.array([1, 0]), "pscore": np.array([0.5, 0.5]), "position": None,
        ... }
        >>> guarantor.from_obp(feedback).column_names
        ['x', 'action', 'reward', 'propensity']
    """
    x = np.asarray(bandit_feedback["context"], dtype=np.float64)
    position = bandit_feedback.get("position")
    if position is not None:
        position = np.asarray(position)
        x = np.hstack([x, np.eye(int(position.max()) + 1 if len(position) else 1)[position]])
    columns: dict[str, Any] = {
        "x": x,
        "action": np.asarray(bandit_feedback["action"], dtype=np.int64),
        "reward": np.asarray(bandit_feedback["reward"], dtype=np.float64),
        "propensity": np.asarray(bandit_feedback["pscore"], dtype=np.float64),
    }
    if bandit_feedback.get("pi_b") is not None:
        columns["propensities"] = _propensities(np.asarray(bandit_feedback["pi_b"]), position)
    return table(columns)


def _propensities(pi_b: Any, position: Any) -> Any:
    """Return the probabilities of all actions of each row: those at its position, if there are several."""
    if pi_b.ndim == 3:
        at = np.zeros(len(pi_b), dtype=np.int64) if position is None else position
        pi_b = pi_b[np.arange(len(pi_b)), :, at]
    return np.ascontiguousarray(pi_b, dtype=np.float64)
