"""A dataset from objects that the server reads where they lie: the form, the progress, what is wrong, and what is pinned."""

import os
import socket
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness import BrowserTest, expect, log


class ByAddress(BrowserTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "day-1.ndjson").write_bytes(log(800, seed=1))
        (self.folder / "day-2.ndjson").write_bytes(log(700, seed=2))

    def uri(self, name):
        return f"file://{self.folder}/{name}"

    def fill(self, page, *addresses):
        page.get_by_label("Addresses, one per line").fill("\n".join(addresses))

    def read(self, page):
        page.get_by_role("button", name="Read the log").click()

    def test_addresses_become_a_dataset(self):
        self.serve(sources_allow=f"file://{self.folder}")
        page = self.open("/upload")
        page.get_by_role("link", name="Name its addresses").click()
        expect(page.get_by_role("heading", name="Read a log where it lies")).to_be_visible()
        page.get_by_label("Name (optional)").fill("November")
        self.fill(page, "s3://logs/shop/2026-11-*.parquet")
        self.check_page(page, "by-address")
        self.fill(page, self.uri("day-*.ndjson"))
        self.read(page)
        expect(page.get_by_text("1,500 rows stored.")).to_be_visible()
        expect(page.get_by_role("heading", name="November")).to_be_visible()
        # The rows were copied, so more can be added.
        expect(page.get_by_role("link", name="Append rows")).to_be_visible()

    def test_a_dataset_says_that_it_is_pinned_and_to_what(self):
        self.serve(sources_allow=f"file://{self.folder}")
        page = self.open("/upload?from=addresses")
        self.fill(page, self.uri("day-1.ndjson"), self.uri("day-2.ndjson"))
        page.get_by_label("Leave them where they are").check()
        page.get_by_label("One policy logged every row").check()
        self.read(page)
        expect(page.get_by_text("1,500 rows read and pinned.")).to_be_visible()
        expect(page.get_by_text("The rows are in pinned objects.")).to_be_visible()
        expect(page.locator("#main").get_by_role("link", name="New job")).to_be_visible()
        expect(page.get_by_role("link", name="Append rows")).to_be_hidden()
        self.check_page(page, "dataset-pinned")
        page.get_by_role("link", name="Which objects").click()
        table = page.get_by_role("table", name="Pinned objects")
        expect(table.get_by_text(self.uri("day-2.ndjson"))).to_be_visible()
        self.check_page(page, "dataset-pinned-objects")
        dataset = self.server.call("GET", "/v1/datasets")["data"][0]
        self.assertEqual((dataset["pinned"], dataset["logging"], dataset["rows"]), (True, "fixed", 1500))

    def test_wrong_rows_are_listed_with_their_object_and_can_be_corrected(self):
        self.serve(sources_allow=f"file://{self.folder}")
        wrong = self.folder / "day-2.ndjson"
        lines = wrong.read_text().splitlines()
        lines[4] = lines[4].replace('"action": ', '"action": 7')
        wrong.write_text("\n".join(lines))
        page = self.open("/upload?from=addresses")
        self.fill(page, self.uri("day-*.ndjson"))
        self.read(page)
        expect(page.get_by_role("heading", name="Some rows are wrong. Nothing was stored.")).to_be_visible()
        expect(page.get_by_role("table", name="Wrong rows").get_by_role("rowheader", name="5", exact=True)).to_be_visible()
        expect(page.get_by_text(self.uri("day-2.ndjson"))).to_be_visible()
        self.check_page(page, "by-address-errors")
        self.assertEqual(self.server.call("GET", "/v1/datasets")["data"], [])
        # A reload shows the same, and the form knows what the import says.
        page.reload()
        page.get_by_role("button", name="Change it and try again").click()
        expect(page.get_by_label("Addresses, one per line")).to_have_value(self.uri("day-*.ndjson"))
        self.fill(page, self.uri("day-1.ndjson"))
        self.read(page)
        expect(page.get_by_text("800 rows stored.")).to_be_visible()

    def test_what_the_server_rejects_is_at_its_field(self):
        self.serve(sources_allow=f"file://{self.folder}")
        self.expect_failure("/v1/datasets")
        page = self.open("/upload?from=addresses")
        self.fill(page, self.uri("day-1.ndjson"), "", "s3://elsewhere/day-2.ndjson")
        self.read(page)
        expect(page.get_by_text("Address 2: s3://elsewhere/day-2.ndjson is not in a place that this server may read")).to_be_visible()
        self.fill(page, self.uri("day-1.ndjson"))
        page.get_by_label("Largest possible").fill("much")
        self.read(page)
        expect(page.get_by_text("Something above is wrong. Nothing was read.")).to_be_visible()
        page.get_by_label("Largest possible").fill("2")
        self.read(page)
        expect(page.get_by_text("800 rows stored.")).to_be_visible()
        self.assertEqual(self.server.call("GET", "/v1/datasets")["data"][0]["outcome"]["max"], 2)

    def test_outcomes_with_names_are_declared(self):
        rows = log(300).replace(b'"reward": 1', b'"outcomes": {"revenue": 20, "complaint": 0}').replace(b'"reward": 0', b'"outcomes": {"revenue": 0, "complaint": 1}')
        (self.folder / "shop.ndjson").write_bytes(rows)
        self.serve(sources_allow=f"file://{self.folder}")
        page = self.open("/upload?from=addresses")
        self.fill(page, self.uri("shop.ndjson"))
        page.get_by_text("Rows have several outcomes with names").click()
        declared = page.get_by_label("Outcomes (optional)")
        declared.fill('{"revenue": ')
        expect(page.get_by_text("is not JSON")).to_be_visible()
        declared.fill('{"revenue": {"kind": "reward", "min": 0, "max": 20}, "complaint": {"kind": "cost"}}')
        expect(page.get_by_label("Largest possible")).to_be_hidden()
        self.read(page)
        expect(page.get_by_text("300 rows stored.")).to_be_visible()
        outcomes = self.server.call("GET", "/v1/datasets")["data"][0]["capabilities"]["outcomes"]
        # The first one is the primary one.
        self.assertEqual([each["name"] for each in outcomes], ["revenue", "complaint"])

    def test_a_server_without_places_says_so(self):
        self.serve()
        self.expect_failure("/v1/datasets")
        page = self.open("/upload?from=addresses")
        self.fill(page, self.uri("day-1.ndjson"))
        self.read(page)
        expect(page.get_by_text("The operator of this server allows no logs by reference")).to_be_visible()

    def test_an_import_can_be_canceled(self):
        # A bucket that accepts connections and never answers.
        silent = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(silent.close)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        self.enterContext(mock.patch.dict(os.environ, keys))
        self.serve(sources_allow="s3://logs", s3_endpoint=endpoint, s3_allow_http="true")
        page = self.open("/upload?from=addresses")
        self.fill(page, "s3://logs/2026-11-*.parquet")
        self.read(page)
        expect(page.get_by_role("heading", name="Reading")).to_be_visible()
        expect(page.get_by_text("Looking for the objects…")).to_be_visible()
        self.check_page(page, "by-address-reading")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("The import was canceled. Nothing was stored.")).to_be_visible()
        page.get_by_role("button", name="Change it and try again").click()
        expect(page.get_by_label("Addresses, one per line")).to_have_value("s3://logs/2026-11-*.parquet")


if __name__ == "__main__":
    unittest.main()
