#!/usr/bin/env python3
"""Action sets: Guarantor beside Vowpal Wabbit, on the same logs and in the same run.

    action_sets.py [--guarantor PATH] [--worlds 100,101,102] [--rows 10000,40000] [--seed 1]

Needs `pip install vowpalwabbit numpy`. Each log is written by `guarantor simulate --dataset news`. Vowpal Wabbit learns
from the first 60 % of it with several usual settings, plays greedily on the rest, and the plainest valid bound certifies
it: importance weights and one bet, whose size comes from the first 60 %, at delta = 0.05. Its best line is compared with
`guarantor certify LOG` and no option but `explore: 0`. The ceiling is what the best possible policy gains over the logging
policy. Prints Markdown.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
import time

import numpy as np
import vowpalwabbit

SETTINGS = ["", "-q UA", "--cb_type dr -q UA", "--cb_type ips -q UA", "-q UA -l 0.1", "-q UA -l 1"]
DELTA = 0.05


def certified(z, variance):
    """The bound on the improvement from one constant bet."""
    bet = min(0.5, float(np.sqrt(2 * np.log(1 / DELTA) / (len(z) * variance))))
    return -(1 - np.exp((np.log1p(-bet * z).sum() - np.log(1 / DELTA)) / len(z))) / bet


def gains(vw, lines):
    """z of the greedy policy on each event: minus its importance-weighted gain over the logging policy."""
    z = []
    for line in lines:
        event = json.loads(line)
        example = vw.parse(json.dumps({k: v for k, v in event.items() if not k.startswith("_label")}))
        best = int(np.argmin(vw.predict(example)))
        vw.finish_example(example)
        z.append(((event["a"][0] - 1 == best) / event["p"][0] - 1) * event["_label_cost"])
    return np.array(z)


def vowpal_wabbit(log):
    """The best certified improvement, and the seconds that one setting takes to learn, its parse included."""
    lines = open(log).read().splitlines()
    cut = int(0.6 * len(lines))
    best, seconds = -np.inf, []
    for setting in SETTINGS:
        vw = vowpalwabbit.Workspace(f"--cb_adf --dsjson --quiet -b 20 --cb_type mtr {setting}".replace(
            "--cb_type mtr --cb_type", "--cb_type"), enable_logging=False)
        start = time.perf_counter()
        for line in lines[:cut]:
            example = vw.parse(line)
            vw.learn(example)
            vw.finish_example(example)
        seconds.append(time.perf_counter() - start)
        variance = gains(vw, lines[cut - cut // 4:cut]).var()
        best = max(best, certified(gains(vw, lines[cut:]), variance))
    parse = vowpalwabbit.Workspace("--cb_adf --dsjson --quiet -b 20", enable_logging=False)
    start = time.perf_counter()
    for line in lines:
        parse.finish_example(parse.parse(line))
    return best, min(seconds), time.perf_counter() - start


def rates(text):
    return [float(x) for x in re.search(r"logging policy ([\d.]+), of the best policy ([\d.]+)", text).groups()]


def guarantor(program, log, folder, world, seed):
    """The certified improvement, the true one on fresh requests, the seconds of the whole command and of reading."""
    spec, policy = os.path.join(folder, "spec.json"), os.path.join(folder, "policy.json")
    with open(spec, "w") as out:
        json.dump({"explore": 0}, out)
    start = time.perf_counter()
    run = subprocess.run([program, "certify", log, "--json", "--spec", spec, "--policy-out", policy],
                         capture_output=True, text=True)
    seconds = time.perf_counter() - start
    assert run.returncode in (0, 1), run.stderr
    start = time.perf_counter()
    assert subprocess.run([program, "inspect", log], capture_output=True).returncode in (0, 1)
    reading = time.perf_counter() - start
    fresh = ["simulate", "--dataset", "news", "--world", str(world), "--seed", str(seed + 1_000_000), "--rows", "40000"]
    played = subprocess.run([program, *fresh, "--policy", policy, "--out", os.path.join(folder, "fresh.dsjson")],
                            capture_output=True, text=True, check=True)
    logged = subprocess.run([program, *fresh, "--out", os.path.join(folder, "fresh.dsjson")],
                            capture_output=True, text=True, check=True)
    true = rates(played.stderr)[0] - rates(logged.stderr)[0]
    return json.loads(run.stdout)["guaranteed_improvement"], true, seconds, reading


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--guarantor", default="target/release/guarantor")
    parser.add_argument("--worlds", default="100,101,102,103")
    parser.add_argument("--rows", default="10000,40000")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("| world | rows | ceiling | VW certified | ours certified | ours true | share of the ceiling | share of what VW leaves "
          "| VW learns, s | our whole command, s | VW parses, s | our `inspect`, s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for rows in map(int, args.rows.split(",")):
        for world in map(int, args.worlds.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                log = os.path.join(folder, "log.dsjson")
                made = subprocess.run([args.guarantor, "simulate", "--dataset", "news", "--world", str(world), "--seed",
                                       str(args.seed), "--rows", str(rows), "--out", log], capture_output=True, text=True, check=True)
                logging, best = rates(made.stderr)
                ceiling = best - logging
                ours, true, seconds, reading = guarantor(args.guarantor, log, folder, world, args.seed)
                vw, learning, parsing = vowpal_wabbit(log)
                print(f"| {world} | {rows} | {ceiling:.4f} | {vw:.4f} | {ours:.4f} | {true:.4f} | {ours / ceiling:.2f} | "
                      f"{(ours - vw) / (ceiling - vw):.2f} | {learning:.2f} | {seconds:.2f} | {parsing:.2f} | {reading:.2f} |",
                      flush=True)


if __name__ == "__main__":
    main()
