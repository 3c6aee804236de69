"""Logs for the tests of the client."""

from __future__ import annotations

import json
import random
from typing import Any


def rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of a policy that plays three actions uniformly; which is best depends on the sign of a feature."""
    draw = random.Random(seed)
    made: list[dict[str, Any]] = []
    for _ in range(count):
        x = [round(draw.uniform(-1, 1), 4) for _ in range(2)]
        action = draw.randrange(3)
        best = 1 if x[0] > 0 else 2
        made.append({"x": x, "action": action, "propensities": [1 / 3] * 3, "reward": float(action == best)})
    return made


def ndjson(count: int, seed: int = 1) -> bytes:
    """The rows as NDJSON."""
    return "".join(f"{json.dumps(row)}\n" for row in rows(count, seed)).encode()


# What makes a job run until it is canceled. Its log must be `fixed`.
ENDLESS: Any = {"bound": "cbb", "optimizer": {"preset": "paper", "epochs": 100_000, "max_seconds": 3600.0}}
