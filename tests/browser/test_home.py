"""An empty server explains itself, and one click loads the demo."""

from harness import BrowserTest, expect


class Home(BrowserTest):
    def test_the_demo_is_one_click(self):
        server = self.serve()
        page = self.open("/")
        expect(page.get_by_role("heading", level=1)).to_contain_text("guaranteed to be better")
        self.check_page(page, "welcome")
        page.get_by_role("button", name="Load the demo").click()
        page.wait_for_url("**/jobs/*")
        job = page.url.rsplit("/", 1)[1]
        done = server.finished(job)
        self.assertEqual((done["status"], done["result"]["decision"]), ("succeeded", "deploy"))
        self.open("/", page)
        expect(page.get_by_role("table", name="The newest jobs").get_by_text("Deploy")).to_be_visible()
        expect(page.get_by_text("in 1 look; all hold together with a probability of 95%")).to_be_visible()
        self.check_page(page, "home")

    def test_pages_that_do_not_exist_say_so(self):
        self.serve()
        self.expect_failure("/v1/datasets/nothing")
        page = self.open("/datasets/nothing")
        expect(page.get_by_role("alert")).to_be_visible()
        self.open("/jobs/a/b/c", page)
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
