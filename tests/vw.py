#!/usr/bin/env python3
"""Vowpal Wabbit as a peer of the tests: it learns from a log that we wrote, and logs one itself.

    vw.py read LOG.dsjson         learns from the log, and prints what Vowpal Wabbit saw in it
    vw.py write LOG.dsjson ROWS   Vowpal Wabbit decides, learns after every decision, and its decisions are logged

Both print one JSON object.
"""
import json
import random
import sys

import vowpalwabbit

OPTIONS = "--dsjson --quiet -b 18 -q UA"


def read(path):
    """Learns from a log. An event has one example for the request and one for each action."""
    vw = vowpalwabbit.Workspace(f"--cb_adf --cb_type mtr {OPTIONS}", enable_logging=False)
    seen = {"rows": 0, "actions": 0, "largest": 0, "cost": 0.0, "weights": 0.0, "logged": 0}
    for line in open(path):
        example = vw.parse(line)
        actions = len(example) - 1
        labels = [label for label in (vowpalwabbit.CBLabel.from_example(e) for e in example[1:]) if label.costs]
        seen["rows"] += 1
        seen["actions"] += actions
        seen["largest"] = max(seen["largest"], actions)
        if len(labels) == 1:
            (cost,) = labels[0].costs
            seen["logged"] += 1
            seen["cost"] += cost.cost
            seen["weights"] += 1 / cost.probability
        vw.learn(example)
        vw.finish_example(example)
    seen["mean_loss"] = vw.get_sum_loss() / seen["rows"]
    return seen


TOPICS, SEGMENTS = ["sport", "politics", "culture", "science"], ["s0", "s1", "s2"]


def click_rate(segment, topic):
    return 0.5 if SEGMENTS.index(segment) == TOPICS.index(topic) else 0.1


def write(path, rows):
    """Vowpal Wabbit explores with epsilon = 0.2 and learns online. Every decision is logged with its probabilities."""
    vw = vowpalwabbit.Workspace(f"--cb_explore_adf --epsilon 0.2 --cb_type mtr {OPTIONS}", enable_logging=False)
    rng = random.Random(1)
    clicks, later, best = 0.0, [], []
    with open(path, "w") as log:
        for row in range(rows):
            segment = rng.choice(SEGMENTS)
            topics = [rng.choice(TOPICS) for _ in range(rng.randint(2, 6))]
            context = {"User": {"segment": segment}, "_multi": [{"Article": {"topic": topic}} for topic in topics]}
            # Without `a` it does not see the actions.
            asked = {"Version": "1", "a": list(range(1, len(topics) + 1)), "c": context}
            example = vw.parse(json.dumps(asked))
            p = vw.predict(example)
            vw.finish_example(example)
            total = sum(p)
            p = [value / total for value in p]
            action = rng.choices(range(len(p)), p)[0]
            clicked = rng.random() < click_rate(segment, topics[action])
            clicks += clicked
            if row >= 0.6 * rows:
                later.append(sum(q * click_rate(segment, topic) for q, topic in zip(p, topics)))
            best.append(max(click_rate(segment, topic) for topic in topics))
            order = [action] + [other for other in range(len(p)) if other != action]
            event = {
                "_label_cost": -int(clicked), "_label_probability": p[action], "_label_Action": action + 1, "_labelIndex": action,
                "Version": "1", "EventId": f"e{row}", "Timestamp": f"2026-11-{1 + row * 14 // rows:02d}T00:00:00Z",
                "a": [other + 1 for other in order], "c": context, "p": [p[other] for other in order], "VWState": {"m": "online"},
            }
            line = json.dumps(event)
            log.write(line + "\n")
            learned = vw.parse(line)
            vw.learn(learned)
            vw.finish_example(learned)
    return {"rows": rows, "clicks": clicks, "later": sum(later) / len(later), "best": sum(best) / rows}


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    print(json.dumps(read(*arguments) if command == "read" else write(arguments[0], int(arguments[1]))))
