"""The form of a new job: errors at their fields, and the command that does the same."""

import json
import re
import subprocess

from harness import BrowserTest, expect

ONE_JOB = re.compile("/jobs/[0-9a-f-]{36}$")


class NewJob(BrowserTest):
    def test_the_command_does_what_the_button_does(self):
        server = self.serve()
        dataset = server.dataset(1500, "Orders")
        page = self.open("/jobs/new")
        # One dataset needs no choice.
        expect(page.get_by_text("What this dataset supports")).to_be_visible()
        page.get_by_label("Improve by more than").fill("0.02")
        page.get_by_label("Metadata").fill('{"app": "it\'s the shop"}')
        page.get_by_text("How it is computed").click()
        page.get_by_label("Seed").fill("7")
        self.check_page(page, "new-job")
        command = page.get_by_label("curl", exact=True).text_content()
        answer = subprocess.run(["bash", "-c", f"{command} -sS"], check=True, capture_output=True, text=True).stdout
        by_command = json.loads(answer)
        self.assertEqual(by_command.get("status"), "queued", answer)
        page.get_by_role("button", name="Start the job").click()
        expect(page).to_have_url(ONE_JOB)
        by_button = server.call("GET", f"/v1/jobs/{page.url.rsplit('/', 1)[1]}")
        for job in [by_command, by_button]:
            self.assertEqual(job["spec"]["dataset_id"], dataset["id"])
            self.assertEqual((job["spec"]["min_improvement"], job["spec"]["seed"]), (0.02, 7))
            self.assertEqual(job["spec"]["metadata"], {"app": "it's the shop"})
        self.assertEqual(by_command["spec"], by_button["spec"])
        # And one like it.
        page.get_by_role("link", name="Start one like it").click()
        expect(page.get_by_label("Improve by more than")).to_have_value("0.02")
        self.assertEqual(json.loads(page.get_by_label("Metadata").input_value()), {"app": "it's the shop"})

    def test_errors_are_at_their_fields(self):
        server = self.serve()
        server.dataset(300)
        self.expect_failure("/v1/jobs")
        page = self.open("/jobs/new")
        expect(page.get_by_text("What this dataset supports")).to_be_visible()
        delta = page.get_by_label("the probability of being wrong")
        delta.fill("2")
        page.get_by_role("button", name="Start the job").click()
        expect(delta).to_have_attribute("aria-invalid", "true")
        expect(delta).to_be_focused()
        expect(page.locator(".field-error")).to_have_count(1)
        self.check_page(page, "new-job-error")
        delta.fill("0.05")
        page.get_by_label("Improve by more than").fill("a lot")
        page.get_by_role("button", name="Start the job").click()
        expect(page.get_by_label("Improve by more than")).to_have_attribute("aria-invalid", "true")
        page.get_by_label("Improve by more than").fill("")
        page.get_by_label("Metadata").fill("{")
        page.get_by_role("button", name="Start the job").click()
        expect(page.get_by_text("is not JSON")).to_be_visible()
        page.get_by_label("Metadata").fill("")
        page.get_by_label("Check policies that you have").check()
        page.get_by_role("button", name="Start the job").click()
        expect(page.get_by_role("group", name="Candidates").locator(".field-error")).to_be_visible()

    def test_an_improvement_in_units_of_the_outcome(self):
        server = self.serve()
        lines = server.dataset(400, "Money", "outcome=reward&outcome_min=0&outcome_max=50")
        page = self.open(f"/jobs/new?dataset_id={lines['id']}")
        expect(page.get_by_text("reward, 0 to 50")).to_be_visible()
        page.get_by_label("Unit of the improvement").select_option("outcome")
        page.get_by_label("Improve by more than").fill("5")
        expect(page.get_by_text("That is 0.1 of the range.")).to_be_visible()
        page.get_by_role("button", name="Start the job").click()
        expect(page).to_have_url(ONE_JOB)
        job = server.call("GET", f"/v1/jobs/{page.url.rsplit('/', 1)[1]}")
        self.assertIn(job["spec"]["min_improvement"], [0.1, {"value": 5, "unit": "outcome"}])
