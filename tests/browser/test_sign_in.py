"""Where keys are configured: the sign-in, and where the key is not."""

import re

from harness import BrowserTest, expect


class SignIn(BrowserTest):
    def test_a_key_is_asked_for_kept_in_memory_and_forgotten(self):
        server = self.serve()
        dataset = server.dataset(300)
        key = server.key("--workspace", "default", "--name", "reader")
        server.kill()
        server.start()
        self.expect_failure("/v1/")
        page = self.open(f"/datasets/{dataset['id']}?tab=about")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        self.check_page(page, "sign-in")
        self.sign_in(page, "gk_wrong")
        expect(page.get_by_text("The server does not know this key.")).to_be_visible()
        self.sign_in(page, key)
        # The page that was asked for.
        expect(page.get_by_role("heading", name="What it supports")).to_be_visible()
        stored = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.state])")
        self.assertNotIn(key, stored)
        self.assertNotIn(key, page.content())
        page.get_by_role("link", name="Datasets").first.click()
        expect(page.get_by_role("link", name="Visits")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        self.assertEqual(page.get_by_text("Visits").count(), 0)
        self.sign_in(page, key)
        expect(page.get_by_role("link", name="Visits")).to_be_visible()
        # Another tab has no key, and neither has this one after it was loaded again.
        other = self.open("/datasets")
        expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    def test_what_a_key_may_not_do_is_said(self):
        server = self.serve()
        server.dataset(300)
        create = lambda name, role: server.key("--workspace", "default", "--name", name, "--role", role)
        reader, submitter = create("reader", "read"), create("submitter", "submit")
        server.kill()
        server.start()
        self.expect_failure("/v1/")
        page = self.open("/jobs/new")
        self.sign_in(page, reader)
        expect(page.get_by_text("What this dataset supports")).to_be_visible()
        page.get_by_label("Improve by more than").fill("0.02")
        page.get_by_role("button", name="Start the job").click()
        expect(page.get_by_role("alert")).to_contain_text("submit")
        expect(page.get_by_label("Improve by more than")).to_have_value("0.02")
        # Another key in another tab may.
        other = self.open("/jobs/new")
        self.sign_in(other, submitter)
        expect(other.get_by_text("What this dataset supports")).to_be_visible()
        other.get_by_role("button", name="Start the job").click()
        expect(other).to_have_url(re.compile("/jobs/[0-9a-f-]{36}$"))
        # A key that is revoked while somebody reads is asked for again at the next request, and the page goes on with another.
        # The page of a job that has ended makes none by itself, so the person does.
        address = other.url
        server.revoke("submitter")
        other.go_back()
        expect(other.get_by_text("The key is no longer valid.")).to_be_visible()
        self.sign_in(other, reader)
        expect(other.get_by_text("What this dataset supports")).to_be_visible()
        other.go_forward()
        expect(other.get_by_role("heading", level=1)).to_contain_text(f"Job {address[-8:]}")
