"""Jobs: the list, a job that learns, certificates of both decisions, candidates."""

import json
from urllib.parse import quote

from harness import BrowserTest, expect, log

# Learns with a bound that is shown while it falls, and for longer than any test waits.
SLOW = {"bound": "log_smoothing", "prior": {"kind": "zero"}, "optimizer": {"preset": "paper", "epochs": 100_000, "max_seconds": 600}}
SOFTMAX = {"kind": "softmax", "inverse_temperature": 1}


class Jobs(BrowserTest):
    def test_a_deploy_from_the_certificate_to_the_gate(self):
        server = self.serve()
        job = server.job(server.dataset(2000), min_improvement=0.01, metadata={"app": "shop"})
        self.assertEqual(job["result"]["decision"], "deploy")
        page = self.open("/jobs")
        expect(page.get_by_text("app: shop")).to_be_visible()
        self.check_page(page, "jobs")
        page.get_by_role("link", name=job["id"][-8:]).click()
        expect(page.get_by_role("heading", name="Deploy the policy")).to_be_visible()
        certificate = server.call("GET", f"/v1/jobs/{job['id']}/certificate")
        expect(page.get_by_text(certificate["statement"])).to_be_visible()
        expect(page.get_by_role("heading", name="What the guarantee costs")).to_be_visible()
        self.check_page(page, "job")
        page.get_by_role("tab", name="Checks").click()
        expect(page.get_by_role("heading", name="On the whole log")).to_be_visible()
        self.check_page(page, "job-checks")
        page.get_by_role("tab", name="Certificate").click()
        page.get_by_role("button", name="Verify now").click()
        expect(page.get_by_text("Every check passed.")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        self.assertIn(certificate["digest"], download.value.path().read_text())
        self.check_page(page, "job-certificate")
        page.emulate_media(media="print")
        expect(page.locator(".verdict")).to_have_text(certificate["statement"])
        expect(page.get_by_role("button", name="Verify now")).to_be_hidden()
        page.emulate_media(media="screen")
        page.get_by_role("tab", name="Rollout").click()
        expect(page.get_by_text("Open", exact=True)).to_be_visible()
        page.get_by_role("tab", name="Argo Rollouts").click()
        expect(page.get_by_label("AnalysisTemplate")).to_contain_text(f"{server.base}/v1/jobs/{job['id']}/gate?policy_digest=sha256:")
        self.check_page(page, "job-rollout")
        # A link leads to the same tab.
        again = self.open(page.url.removeprefix(server.base))
        expect(again.get_by_label("AnalysisTemplate")).to_be_visible()

    def test_a_job_that_learns_is_shown_live_and_can_be_canceled(self):
        server = self.serve()
        job = server.call("POST", "/v1/jobs", {"dataset_id": server.dataset(2000)["id"], **SLOW})
        page = self.open(f"/jobs/{job['id']}")
        expect(page.get_by_role("heading", name="The bound while learning")).to_be_visible()
        expect(page.locator(".series canvas")).to_be_visible()
        expect(page.get_by_role("progressbar")).to_be_visible()
        # The stream goes on.
        sentence = page.get_by_text("The bound fell from")
        before = sentence.text_content()
        expect(sentence).not_to_have_text(before)
        self.check_page(page, "job-running")
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        expect(page.get_by_text("The job was canceled.")).to_be_visible()
        page.get_by_role("tab", name="History").click()
        expect(page.get_by_role("row", name="Cancelled")).to_be_visible()
        self.check_page(page, "job-canceled")

    def test_a_keep_says_why_and_how_much_longer(self):
        server = self.serve()
        self.expect_failure("/gate")
        job = server.job(server.dataset(600), min_improvement=0.9)
        certificate = server.call("GET", f"/v1/jobs/{job['id']}/certificate")
        page = self.open(f"/jobs/{job['id']}")
        expect(page.get_by_role("heading", name="Keep what is deployed")).to_be_visible()
        expect(page.get_by_role("heading", name="Why keep?")).to_be_visible()
        expect(page.get_by_role("heading", name="How much longer?")).to_be_visible()
        if certificate.get("plan"):
            expect(page.get_by_text(certificate["plan"]["message"])).to_be_visible()
        # No picture without its numbers.
        for button in page.get_by_text("Show the numbers").all():
            button.click()
        expect(page.get_by_role("row", name="Guaranteed").first).to_be_visible()
        self.check_page(page, "job-keep")
        page.get_by_role("tab", name="Rollout").click()
        expect(page.get_by_text("Closed", exact=True)).to_be_visible()
        expect(page.get_by_text("403 decision_keep")).to_be_visible()

    def test_a_guarantee_that_does_not_decide_is_not_called_enough(self):
        server = self.serve()
        shop = [json.loads(line) for line in log(2000).splitlines()]
        # Action 2 sells more, and every second time somebody complains.
        for i, row in enumerate(shop):
            row["outcomes"] = {"revenue": 10 * row.pop("reward"), "complaint": int(row["action"] == 2 and i % 2 == 0)}
        kinds = {"revenue": {"kind": "reward", "max": 10}, "complaint": {"kind": "cost"}}
        headers = {"content-type": "application/x-ndjson"}
        body = "\n".join(json.dumps(row) for row in shop).encode()
        dataset = server.call("POST", f"/v1/datasets?logging=fixed&outcomes={quote(json.dumps(kinds))}", body, headers)
        guarded = server.job(dataset, guardrails=[{"outcome": "complaint", "max_loss": 0.01}])
        self.assertEqual((guarded["result"]["decision"], guarded["result"]["guaranteed_improvement"] > 0), ("keep", True))
        page = self.open(f"/jobs/{guarded['id']}")
        expect(page.get_by_text("so this is enough by itself, but the loss in complaint may be more than is allowed.").first).to_be_visible()
        expect(page.get_by_role("heading", name="Why keep?")).to_have_count(0)
        expect(page.get_by_role("row", name="complaint")).to_contain_text("No")
        self.check_page(page, "job-guardrail")
        # The logged probabilities are those of other actions.
        wrong = [{**row, "propensities": row["propensities"][::-1]} for row in map(json.loads, log(2000, seed=2).splitlines())]
        body = "\n".join(json.dumps(row) for row in wrong).encode()
        failed = server.job(server.call("POST", "/v1/datasets?outcome=reward&logging=fixed", body, headers))
        self.assertEqual(failed["result"]["decision"], "keep")
        page = self.open(f"/jobs/{failed['id']}")
        expect(page.get_by_text("A check of the log failed, so none of these numbers can be relied on.").first).to_be_visible()
        expect(page.get_by_text("The policy is better than the deployed one")).to_have_count(0)
        expect(page.get_by_text("not to be relied on", exact=True)).to_be_visible()
        self.check_page(page, "job-check-failed")

    def test_candidates_are_compared(self):
        server = self.serve()
        # The log's third action is the best one.
        means = [[[0, 0, 0], [0, 0, 0]], [[-3, -3, 3], [0, 0, 0]]]
        ids = [server.call("POST", "/v1/policies", {**SOFTMAX, "mean": mean})["id"] for mean in means]
        candidates = [{"kind": "policy", "policy_id": id} for id in ids]
        job = server.job(server.dataset(3000), kind="evaluate", candidates=candidates, independent_of_log=True)
        page = self.open(f"/jobs/{job['id']}")
        expect(page.get_by_role("heading", name="Candidates")).to_be_visible()
        expect(page.get_by_role("img", name="candidates can be deployed")).to_be_visible()
        # The best candidate has one estimate, wherever it stands.
        certificate = server.call("GET", f"/v1/jobs/{job['id']}/certificate")
        best = page.get_by_role("table", name="Candidates", exact=True).get_by_role("row").filter(has_text=certificate["candidate"][-8:])
        expect(best).to_contain_text(f"+{certificate['breakdown']['estimate']:.4f}")
        self.check_page(page, "job-candidates")
        page.get_by_role("link", name=f"policy {ids[0][-8:]}").first.click()
        expect(page.get_by_role("heading", name=f"Policy {ids[0][-8:]}", level=1)).to_be_visible()

    def test_the_list_is_filtered_and_sorted_by_the_server(self):
        server = self.serve(workers=1)
        dataset = server.dataset(400)
        kept = server.job(dataset, min_improvement=0.9)["id"]
        running = server.call("POST", "/v1/jobs", {"dataset_id": dataset["id"], **SLOW})["id"]
        canceled = server.call("POST", "/v1/jobs", {"dataset_id": dataset["id"], **SLOW})["id"]
        server.call("POST", f"/v1/jobs/{canceled}/cancel")
        page = self.open("/jobs")
        link = lambda id: page.get_by_role("link", name=id[-8:])
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(3)
        page.get_by_label("Decision").select_option("keep")
        expect(rows).to_have_count(1)
        expect(link(kept)).to_be_visible()
        page.reload()
        expect(rows).to_have_count(1)
        page.get_by_role("button", name="Show all").click()
        page.get_by_label("Status").select_option("cancelled")
        expect(rows).to_have_count(1)
        expect(link(canceled)).to_be_visible()
        page.get_by_role("button", name="Show all").click()
        expect(rows).to_have_count(3)
        expect(rows.last.get_by_role("link", name=kept[-8:])).to_be_visible()
        page.get_by_role("button", name="Submitted").click()
        expect(rows.first.get_by_role("link", name=kept[-8:])).to_be_visible()
        self.assertIn("order=oldest", page.url)
        # What happens elsewhere appears without a reload.
        server.call("POST", f"/v1/jobs/{running}/cancel")
        expect(page.locator("tbody .badge", has_text="Canceled")).to_have_count(2)
