#!/usr/bin/env python3
"""Renews the pictures of docs/dashboard from those that the tests have written to target/dashboard.

    pip install pillow && python tests/browser/pictures.py

Pages have few colors, so pictures with a palette are half as large and look the same. Rare colors carry meaning, and are kept.
"""

from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
# The pages of the dashboard, and the states of a job.
NAMES = ["welcome", "home", "upload", "upload-errors", "by-address", "dataset", "new-job", "jobs", "job", "job-keep", "job-running", "job-candidates",
         "job-certificate", "job-rollout", "job-merged", "policy", "gates", "gate", "webhooks", "sign-in"]
MOST_BYTES = 150_000


def main():
    for name in NAMES:
        for scheme in ["light", "dark"]:
            picture = Image.open(ROOT / "target/dashboard" / f"{name}-{scheme}.png").convert("RGB")
            to = ROOT / "docs/dashboard" / f"{name}-{scheme}.png"
            picture.quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(to, optimize=True)
            size = to.stat().st_size
            print(f"{size:7} {to.name}{' IS TOO LARGE' if size > MOST_BYTES else ''}")


if __name__ == "__main__":
    main()
