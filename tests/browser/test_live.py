"""Two tabs, and a server that goes away and comes back."""

from harness import BrowserTest, expect


class Live(BrowserTest):
    def test_what_one_tab_does_the_other_shows(self):
        server = self.serve()
        first = self.open("/datasets")
        expect(first.get_by_text("There are no datasets")).to_be_visible()
        second = self.open("/datasets")
        server.dataset(300, "From elsewhere")
        for page in [first, second]:
            page.bring_to_front()
            expect(page.get_by_role("link", name="From elsewhere")).to_be_visible()
        second.get_by_role("link", name="From elsewhere").click()
        second.get_by_role("button", name="Delete").click()
        dialog = second.get_by_role("dialog")
        expect(dialog).to_be_visible()
        second.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        second.get_by_role("button", name="Delete").click()
        dialog.get_by_role("button", name="Delete").click()
        expect(second.get_by_text("There are no datasets")).to_be_visible()
        first.bring_to_front()
        expect(first.get_by_text("There are no datasets")).to_be_visible()

    def test_a_page_goes_on_after_the_server_restarts(self):
        server = self.serve()
        server.dataset(300, "Before")
        self.expect_failure(server.base)
        page = self.open("/")
        expect(page.get_by_role("link", name="Before")).to_be_visible()
        server.kill()
        expect(page.get_by_text("The server cannot be reached.")).to_be_visible()
        # What was read stays readable.
        expect(page.get_by_role("link", name="Before")).to_be_visible()
        server.start()
        expect(page.get_by_text("The server cannot be reached.")).to_be_hidden()
        server.dataset(300, "After", "outcome=reward")
        page.get_by_role("link", name="Datasets", exact=True).click()
        expect(page.get_by_role("link", name="After")).to_be_visible()

    def test_keyboard_and_colors(self):
        self.serve().dataset(300)
        page = self.open("/datasets")
        expect(page.get_by_role("link", name="Visits")).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.get_by_label("Dark colors").check()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.get_by_role("link", name="Visits").focus()
        page.keyboard.press("Enter")
        # The focus goes to the title of the new page.
        expect(page.get_by_role("heading", level=1)).to_be_focused()
        page.get_by_role("tab", name="Health").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Ledger")).to_be_focused()
        expect(page.get_by_text("Nothing was certified")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Datasets", level=1)).to_be_visible()
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
