"""Names and metadata that try to be markup: they are shown as they are, and nothing of them is run."""

import json
from urllib.parse import quote

from harness import BrowserTest, expect, log

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
            expect(page.get_by_text(HOSTILE).first).to_be_visible()
            self.assertEqual(page.locator("img, main script").count(), 0, path)
            self.assertIsNone(page.evaluate("() => window.hit ?? null"), path)
            page.close()
