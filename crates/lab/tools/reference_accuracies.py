"""Measures the accuracies in crates/lab/src/benchmark/references.rs: what a learner reaches with all labels.

    pip install scikit-learn pandas
    python reference_accuracies.py DIR...     # directories with CSV files, as `guarantor-lab benchmark` reads them

Each split holds out 20 % as the test set, sets 5 % aside (the logging policy of the benchmark trains on as many rows)
and fits every learner on the rest with its true labels. A number is the mean test accuracy over the splits, and the
largest of the learners is the reference.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SPLITS = range(3)


def load(path):
    table = pd.read_csv(path)
    x = pd.get_dummies(table.iloc[:, :-1]).astype(float).fillna(0).values
    return x, pd.factorize(table.iloc[:, -1], sort=True)[0]


def learners(seed):
    return {
        "boosted trees": HistGradientBoostingClassifier(random_state=seed),
        "random forest": RandomForestClassifier(300, random_state=seed, n_jobs=1),
        "network": make_pipeline(
            StandardScaler(), MLPClassifier((256,), max_iter=200, alpha=1e-3, random_state=seed)
        ),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    }


def main():
    warnings.simplefilter("ignore")
    for path in sorted(p for directory in sys.argv[1:] for p in Path(directory).glob("*.csv")):
        x, y = load(path)
        scores = {}
        for split in SPLITS:
            order = np.random.default_rng(split).permutation(len(y))
            test, fit = order[: len(y) // 5], order[len(y) // 5 + len(y) // 20 :]
            for name, learner in learners(split).items():
                accuracy = learner.fit(x[fit], y[fit]).score(x[test], y[test])
                scores.setdefault(name, []).append(accuracy)
        means = {name: float(np.mean(values)) for name, values in scores.items()}
        best = max(means, key=means.get)
        rest = ", ".join(f"{name} {mean:.4f}" for name, mean in means.items())
        print(f'    ("{path.stem}", {means[best]:.4f}), // {best}; {rest}', flush=True)


if __name__ == "__main__":
    main()
