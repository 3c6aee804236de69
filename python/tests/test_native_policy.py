"""Policies: what they play, against their definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import guarantor

MEAN = [[0.4, -0.1, 0.0], [0.0, 0.3, -0.2]]


def softmax(**more: Any) -> guarantor.Policy:
    return guarantor.Policy({"kind": "softmax", "mean": MEAN, "inverse_temperature": 2.0, **more})


def test_a_softmax_is_a_softmax() -> None:
    x = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    scores = 2.0 * x.astype(np.float64) @ np.array(MEAN)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(softmax().propensities(x), expected, rtol=1e-12)
    assert np.array_equal(softmax().predict_proba(x[:3]), softmax().propensities(x)[:3])
    assert softmax().propensities(np.empty((0, 2))).shape == (0, 3)


def test_draws_follow_the_propensities_and_the_seed() -> None:
    policy, x = softmax(), np.tile([[0.5, -1.0]], (20000, 1))
    pi = policy.propensities(x[:1])[0]
    draws = policy.sample(x, rng=3)
    shares = np.bincount(draws.actions, minlength=3) / len(x)
    assert np.allclose(shares, pi, atol=5 * np.sqrt(0.25 / len(x)))
    assert np.array_equal(draws.propensities, pi[draws.actions])
    again = policy.sample(x, rng=np.random.default_rng(3))
    assert np.array_equal(again.actions, draws.actions)
    generator = np.random.default_rng(3)
    policy.sample(x, rng=generator)
    assert not np.array_equal(policy.sample(x, rng=generator).actions, draws.actions)


def test_policies_load_from_files_bytes_and_dictionaries(tmp_path: Path) -> None:
    policy = softmax()
    policy.save(tmp_path / "policy.json")
    text = json.dumps(policy.to_dict()).encode()
    assert guarantor.Policy.load(tmp_path / "policy.json") == policy == guarantor.Policy.load(text)
    assert (policy.kind, policy.n_actions, policy.dim) == ("softmax", 3, 2)
    assert policy != softmax(inverse_temperature=2.5)


def test_parameters_that_are_wrong_are_named() -> None:
    with pytest.raises(guarantor.SpecError) as caught:
        guarantor.Policy({"kind": "softmax", "mean": [[0.4, 0.1], [0.2]]})
    assert (caught.value.code, caught.value.field) == ("invalid_policy", "mean[1]")
    with pytest.raises(guarantor.SpecError, match="unknown variant"):
        guarantor.Policy({"kind": "magic"})
    with pytest.raises(guarantor.SpecError, match="duplicate"):
        guarantor.Policy.load(b'{"kind":"uniform","n_actions":2,"n_actions":3,"dim":1}')
    with pytest.raises(ValueError, match="2 features"):
        softmax().propensities([[1.0, 2.0, 3.0]])
    with pytest.raises(guarantor.EngineError):
        softmax().propensities([[np.nan, 1.0]])


def test_a_policy_over_action_lists_plays_each_list() -> None:
    uniform = guarantor.Policy({"kind": "uniform_over_sets"})
    contexts = [
        {"actions": [{"id": "a"}, {"id": "b"}]},
        {"actions": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}]},
    ]
    pi = uniform.propensities(contexts)
    assert [list(row) for row in pi] == [[0.5, 0.5], [0.25] * 4]
    draws = uniform.sample(contexts * 50, rng=1)
    assert set(draws.actions[0::2]) == {0, 1}
    assert set(draws.propensities) == {0.5, 0.25}
    learned = guarantor.certify(guarantor.simulate("news", rows=800), outcome="reward").learned_policy
    assert learned is not None
    with pytest.raises(guarantor.SpecError, match=r"contexts\[0\]"):
        learned.propensities([{"actions": 3}])


def test_what_obp_logs_is_a_log() -> None:
    rng = np.random.default_rng(5)
    n, k = 400, 3
    pi_b = np.full((n, k, 1), 1 / k)
    feedback: dict[str, Any] = {
        "n_rounds": n,
        "n_actions": k,
        "context": rng.normal(size=(n, 2)),
        "action": rng.integers(0, k, n),
        "reward": rng.integers(0, 2, n),
        "pscore": np.full(n, 1 / k),
        "position": None,
        "pi_b": pi_b,
    }
    direct: dict[str, Any] = {
        "x": feedback["context"],
        "action": feedback["action"],
        "reward": feedback["reward"],
        "propensity": feedback["pscore"],
        "propensities": pi_b[:, :, 0],
    }
    ours = guarantor.read(guarantor.from_obp(feedback), outcome="reward")
    assert ours.digest == guarantor.read(direct, outcome="reward").digest
    placed = guarantor.from_obp(
        {**feedback, "position": np.arange(n) % 2, "pi_b": np.repeat(pi_b, 2, axis=2)}
    )
    assert guarantor.inspect(placed, outcome="reward")["dim"] == 4
