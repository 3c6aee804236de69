"""Names and metadata that try to be markup: they are shown as they are, and nothing of them is run."""

import json
from urllib.parse import quote

from harness import BrowserTest, expect, log

LONG = "W" * 190
# Written from right to left, in three scripts, with an override that is never ended, and emoji.
TURNED = "\u202eevil \u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \U0001F469\u200d\U0001F680"
HOSTILE = '"><img src=x onerror=window.hit=1><script>window.hit=1</script>'


class Hostile(BrowserTest):
    def test_names_are_text(self):
        server = self.serve()
        self.expect_failure("/v1/gates")
        rows = [json.loads(line) for line in log(400).splitlines()]
        for row in rows:
            row["outcomes"] = {HOSTILE: row.pop("reward"), "complaint": 0}
            row["candidates"] = {HOSTILE: row["propensities"][row["action"]]}
        kinds = {HOSTILE: {"kind": "reward"}, "complaint": {"kind": "cost"}}
        body = "\n".join(json.dumps(row) for row in rows).encode()
        path = f"/v1/datasets?name={quote(HOSTILE)}&outcomes={quote(json.dumps(kinds))}"
        dataset = server.call("POST", path, body, {"content-type": "application/x-ndjson"})
        job = server.job(dataset, candidates=[{"kind": "logged", "name": HOSTILE}], independent_of_log=True, metadata={"app": HOSTILE})
        server.call("POST", "/v1/gates", {"name": "shop", "selector": {"app": HOSTILE}})
        for path in [f"/datasets/{dataset['id']}?tab=about", "/jobs", f"/jobs/{job['id']}", f"/jobs/{job['id']}?tab=spec", "/gates/shop"]:
            page = self.open(path)
            expect(page.get_by_text(HOSTILE).locator("visible=true").first).to_be_visible()
            self.assertEqual(page.locator("img, main script").count(), 0, path)
            self.assertIsNone(page.evaluate("() => window.hit ?? null"), path)
            page.close()

    def test_long_and_turned_names_stay_in_their_place(self):
        server = self.serve()
        self.expect_failure("/v1/gates")
        page = self.page()
        for i, name in enumerate([LONG, TURNED]):
            dataset = server.call("POST", f"/v1/datasets?name={quote(name)}&outcome=reward", log(300, seed=20 + i), {"content-type": "application/x-ndjson"})
            job = server.job(dataset, min_improvement=0.9, metadata={"app": name, name[:60]: name})
            server.call("POST", "/v1/gates", {"name": f"{'x' * 60}{i}", "selector": {"app": name}})
        for path in ["/", "/datasets", f"/datasets/{dataset['id']}", "/jobs", f"/jobs/{job['id']}?tab=spec", "/gates", f"/gates/{'x' * 60}0", "/jobs/new"]:
            self.open(path, page)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text("Loading…")).to_have_count(0)
            page.wait_for_load_state("networkidle")
            for width in [1280, 320]:
                page.set_viewport_size({"width": width, "height": 900})
                # On a phone, tables may scroll in their own boxes; the page may not.
                boxes = ", ...document.querySelectorAll('.table-box')" if width == 1280 else ""
                wide = page.evaluate(f"() => [document.documentElement{boxes}].filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.className || 'page')")
                self.assertEqual(wide, [], f"{path} at {width} pixels")
