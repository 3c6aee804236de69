"""Upload by drag-and-drop, then health; and what a reader sees if something is wrong with the file."""

import gzip
import random
import unittest

from harness import BrowserTest, expect, log


class Upload(BrowserTest):
    def test_a_dropped_log_is_guessed_uploaded_and_its_health_is_shown(self):
        self.serve()
        page = self.open("/")
        expect(page.get_by_role("heading", name="Drop a log here")).to_be_visible()
        self.drop(page, "clicks.ndjson.gz", gzip.compress(log(1500)))
        expect(page).to_have_url(f"{self.server.base}/upload")
        expect(page.get_by_label("Format")).to_have_value("ndjson")
        expect(page.get_by_label("Compression")).to_have_value("gzip")
        expect(page.get_by_label("Rows have")).to_have_value("reward")
        expect(page.get_by_label("Name")).to_have_value("clicks")
        self.check_page(page, "upload")
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_text("1,500 rows stored.")).to_be_visible()
        expect(page.get_by_role("heading", name="clicks")).to_be_visible()
        for title in ["Checks", "Weights", "Actions", "Over time"]:
            expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        self.check_page(page, "dataset")
        # Each picture has its numbers, and they are those of the API.
        dataset = self.server.call("GET", "/v1/datasets")["data"][0]
        page.locator("summary", has_text="Show the numbers").first.click()
        first = dataset["health"]["weights"][0]["rows"]
        expect(page.get_by_role("cell", name=f"{first:,}", exact=True).first).to_be_visible()
        self.assertEqual(sum(each["rows"] for each in dataset["health"]["weights"]), 1500)
        for tab, text in [("Versions", "Version 1"), ("Ledger", "Nothing was certified"), ("About", "What it supports")]:
            page.get_by_role("tab", name=tab).click()
            expect(page.get_by_text(text).first).to_be_visible()
            self.assertIn(f"tab={tab.lower()}", page.url)
        page.reload()
        expect(page.get_by_role("tab", name="About")).to_have_attribute("aria-selected", "true")

    def test_wrong_rows_are_shown_with_their_lines_and_nothing_is_stored(self):
        self.serve()
        self.expect_failure("/v1/datasets")
        page = self.open("/upload")
        lines = log(5).decode().splitlines()
        lines[2] = lines[2].replace('"reward"', '"propensity": 2, "reward"')
        lines[4] = '{"x": [1, 2], "action": 0, "propensities": [0.5, 0.4, 0.3], "reward": 1}'
        self.drop(page, "wrong.ndjson", "\n".join(lines).encode())
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_role("heading", name="Some rows are wrong. Nothing was stored.")).to_be_visible()
        table = page.get_by_role("table", name="Wrong rows")
        expect(table.get_by_role("rowheader", name="3", exact=True)).to_be_visible()
        expect(table.get_by_role("rowheader", name="5", exact=True)).to_be_visible()
        expect(table.get_by_text(lines[4][:60])).to_be_visible()
        self.check_page(page, "upload-errors")
        self.assertEqual(self.server.call("GET", "/v1/datasets")["data"], [])

    def test_a_wrong_range_is_noticed_before_the_upload_and_can_be_corrected(self):
        self.serve()
        self.expect_failure("/v1/datasets")
        page = self.open("/upload")
        # Drawn at random: rows that repeat themselves in order are refused.
        draw = random.Random(1)
        rewards = [0, 49] + [draw.randrange(50) for _ in range(198)]
        rows = "\n".join(
            f'{{"action": {draw.randrange(2)}, "propensity": 0.5, "reward": {reward}}}' for reward in rewards
        )
        self.drop(page, "revenue.ndjson", rows.encode())
        expect(page.get_by_text("The first rows have a reward from 0 to 49.")).to_be_visible()
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_role("table", name="Wrong rows")).to_be_visible()
        page.get_by_label("Largest possible").fill("100")
        expect(page.get_by_text("The first rows have a reward")).to_be_hidden()
        page.get_by_role("button", name="Upload", exact=True).click()
        expect(page.get_by_text("200 rows stored.")).to_be_visible()

    def test_rows_are_appended(self):
        server = self.serve()
        dataset = server.dataset(500)
        page = self.open(f"/datasets/{dataset['id']}")
        page.get_by_role("link", name="Append rows").click()
        self.drop(page, "more.ndjson", log(300, seed=5))
        page.get_by_role("button", name="Append the rows").click()
        expect(page.get_by_text("800 rows stored.")).to_be_visible()
        page.get_by_role("tab", name="Versions").click()
        expect(page.get_by_role("rowheader", name="Version 2")).to_be_visible()


if __name__ == "__main__":
    unittest.main()
