"""The whole way, as a reader goes it: a dropped file, its health, a job, its live curve, the certificate, a standing gate."""

import json
import re

from harness import BrowserTest, expect, log

# Learns until it is canceled, so that there is a curve to see, on any machine.
LONG = {"prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 100_000, "max_seconds": 600}}


class Walk(BrowserTest):
    def test_from_a_dropped_file_to_an_open_gate(self):
        server = self.serve()
        page = self.open("/")
        self.drop(page, "visits.ndjson", log(2000))
        page.get_by_text("One policy logged every row,").click()
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_text("2,000 rows stored.")).to_be_visible()
        expect(page.get_by_role("heading", name="Weights", exact=True)).to_be_visible()
        page.get_by_role("link", name="Start a job").click()
        expect(page.get_by_role("heading", name="What this dataset supports")).to_be_visible()
        # Both jobs are looks at the same rows, also the one that is canceled: its curve was seen.
        page.get_by_label("δ, the probability of being wrong").fill("0.01")
        page.get_by_text("How it is computed").click()
        page.get_by_label("Bound").select_option("log_smoothing")
        page.get_by_label("Everything else").fill(json.dumps(LONG))
        page.get_by_role("button", name="Start the job").click()
        expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}$"))
        expect(page.get_by_role("heading", name="The bound while learning")).to_be_visible()
        expect(page.locator(".series canvas")).to_be_visible()
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        expect(page.get_by_text("The job was canceled.")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="What this dataset supports")).to_be_visible()
        page.get_by_label("δ, the probability of being wrong").fill("0.03")
        page.get_by_role("button", name="Start the job").click()
        expect(page).to_have_url(re.compile("/jobs/[0-9a-f-]{36}$"))
        job = page.url.rsplit("/", 1)[1]
        # The page follows the job to its end by itself.
        expect(page.get_by_role("heading", name="Deploy the policy")).to_be_visible()
        page.get_by_role("tab", name="History").click()
        expect(page.get_by_role("row", name="Succeeded")).to_be_visible()
        page.get_by_role("tab", name="Certificate").click()
        digest = server.call("GET", f"/v1/jobs/{job}/certificate")["digest"]
        expect(page.get_by_text(digest, exact=True)).to_be_visible()
        page.get_by_role("tab", name="Rollout", exact=True).click()
        page.get_by_role("link", name="New standing gate").click()
        page.get_by_label("Name").fill("visits")
        page.get_by_label("A log of one fixed policy").check()
        page.get_by_role("button", name="Create the gate").click()
        expect(page.get_by_role("heading", name="Gate visits", level=1)).to_be_visible()
        expect(page.get_by_text("Open", exact=True)).to_be_visible()
        self.assertTrue(server.call("GET", "/v1/gates/visits")["ok"])
        # Back to the beginning, one page after the other, and forward again.
        for name in ["Gates", f"Job {job[-8:]}"]:
            page.go_back()
            expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        page.reload()
        expect(page.get_by_role("tab", name="Rollout", exact=True)).to_have_attribute("aria-selected", "true")
        page.go_forward()
        expect(page.get_by_role("heading", name="Gates", level=1)).to_be_visible()
