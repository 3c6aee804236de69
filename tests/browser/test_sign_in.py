"""Where keys are configured: the sign-in, and where the key is not."""

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
