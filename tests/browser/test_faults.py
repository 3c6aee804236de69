"""Servers and proxies that fail, and what each page asks for when it is loaded."""

from collections import Counter

from harness import BrowserTest, expect


class Faults(BrowserTest):
    def test_every_page_says_what_failed_and_recovers(self):
        server = self.serve()
        dataset = server.dataset(300, "Visits")
        policy = server.call("POST", "/v1/policies", {"kind": "softmax", "mean": [[2, 0, 0], [0, 0, 1]], "inverse_temperature": 1})
        job = server.job(dataset, min_improvement=0.9)
        server.call("POST", "/v1/gates", {"name": "shop", "dataset_id": dataset["id"]})
        self.expect_failure("/v1/")
        problem = '{"code": "internal", "title": "Something broke", "detail": "Look into the log of the server.", "status": 500}'
        answers = [
            (lambda route: route.fulfill(status=500, body=problem, content_type="application/problem+json"), "Look into the log of the server."),
            (lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>", content_type="text/html"), "The server answered 502"),
        ]
        pages = ["/", "/datasets", f"/datasets/{dataset['id']}", "/jobs", f"/jobs/{job['id']}", "/policies", f"/policies/{policy['id']}", "/gates", "/gates/shop", "/webhooks"]
        page = self.page()
        for i, path in enumerate(pages):
            answer, text = answers[i % 2]
            page.route("**/v1/**", answer)
            self.open(path, page)
            expect(page.get_by_role("alert").get_by_text(text).first).to_be_visible()
            page.unroute("**/v1/**")
            # Each button is gone as soon as its read has succeeded.
            again = page.get_by_role("button", name="Try again")
            for _ in range(100):
                if again.evaluate_all("(all) => { all.forEach((each) => each.click()); return all.length; }") == 0:
                    break
                page.wait_for_timeout(100)
            expect(again).to_have_count(0)
        # A form keeps what was typed.
        self.open("/jobs/new", page)
        page.get_by_label("Improve by more than").fill("0.02")
        page.route("**/v1/jobs", answers[0][0])
        page.get_by_role("button", name="Start the job").click()
        expect(page.get_by_role("alert")).to_contain_text("Look into the log of the server.")
        expect(page.get_by_label("Improve by more than")).to_have_value("0.02")

    def test_a_read_that_breaks_off_is_tried_again(self):
        server = self.serve()
        server.dataset(300, "Visits")
        self.expect_failure("/v1/", "/readyz", "/healthz")
        page = self.page()
        page.route("**/v1/**", lambda route: route.abort())
        self.open("/datasets", page)
        expect(page.get_by_text("The server cannot be reached.")).to_be_visible()
        page.unroute("**/v1/**")
        expect(page.get_by_role("link", name="Visits")).to_be_visible()
        expect(page.get_by_text("The server cannot be reached.")).to_be_hidden()

    def test_nothing_is_asked_for_twice_when_a_page_is_loaded(self):
        server = self.serve()
        dataset = server.dataset(300)
        job = server.job(dataset, min_improvement=0.9)
        lists = ["/datasets", "/jobs", "/jobs?status=succeeded&order=oldest", "/policies", "/gates", "/webhooks"]
        for path in ["/", *lists, f"/datasets/{dataset['id']}", f"/jobs/{job['id']}", f"/jobs/new?dataset_id={dataset['id']}"]:
            page = self.page()
            asked = []
            page.on("request", lambda request: asked.append((request.url.removeprefix(server.base), request.resource_type)))
            self.open(path, page)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.get_by_text("Loading…")).to_have_count(0)
            page.wait_for_load_state("networkidle")
            # The next read of the same list is seconds away.
            reads = Counter(url for url, _ in asked if url.startswith("/v1/"))
            self.assertTrue(reads, path)
            self.assertEqual([url for url, times in reads.items() if times > 1], [], path)
            page.close()
