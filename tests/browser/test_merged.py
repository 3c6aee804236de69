"""Certificates that were merged from partials are shown as such, wherever they are shown."""

import json
import subprocess
import tempfile
from pathlib import Path

from harness import BINARY, BrowserTest, clean, expect, log


def merged(server):
    """A job on partials of two partitions."""
    lines = log(4000, seed=5).splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *arguments: subprocess.run([BINARY, *arguments], env=clean(), check=True, capture_output=True, cwd=folder)
        for name, part in [("learn", lines[:1000]), ("a", lines[1000:2500]), ("b", lines[2500:])]:
            Path(folder, f"{name}.ndjson").write_bytes(b"".join(part))
        run("recipe", "learn.ndjson", "--outcome", "reward", "--planned-rows", "3000", "--out", "recipe.json")
        for name in ["a", "b"]:
            run("partial", f"{name}.ndjson", "--recipe", "recipe.json", "--partition", f"day={name}", "--out", f"{name}.json")
        read = lambda name: json.loads(Path(folder, f"{name}.json").read_text())
        job = server.call("POST", "/v1/partials", {"recipe": read("recipe"), "partials": [read("a"), read("b")], "expected_rows": 3000, "name": "Elsewhere"})
    return server.finished(job["id"])


class Merged(BrowserTest):
    def test_a_merged_certificate_says_so(self):
        server = self.serve()
        self.expect_failure("/gate", "/v1/jobs")
        job = merged(server)
        self.assertEqual(job["status"], "succeeded", job)
        page = self.open(f"/jobs/{job['id']}")
        expect(page.get_by_text("Merged from 2 partials", exact=True)).to_be_visible()
        expect(page.locator(".verdict")).to_contain_text("did not recompute")
        page.get_by_role("tab", name="Certificate").click()
        expect(page.get_by_role("heading", name="Merged from partials")).to_be_visible()
        page.get_by_text("Every partial").click()
        expect(page.get_by_role("row", name="day=a")).to_contain_text("1,500")
        page.get_by_role("button", name="Verify now").click()
        expect(page.get_by_text("Every check passed.")).to_be_visible()
        self.check_page(page, "job-merged")
        # Its gate is closed to everybody who does not accept that.
        page.get_by_role("tab", name="Rollout").click()
        expect(page.get_by_text("Closed", exact=True)).to_be_visible()
        expect(page.get_by_text("accept_merged=true").first).to_be_visible()
        # The dataset stands for rows that are elsewhere.
        self.open(f"/datasets/{job['spec']['dataset_id']}", page)
        expect(page.get_by_text("The rows are elsewhere.")).to_be_visible()
        expect(page.get_by_role("link", name="Append rows")).to_have_count(0)
        self.check_page(page, "dataset-merged")
