"""Webhooks: their state and their last deliveries."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from harness import BrowserTest, expect


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204 if self.path == "/good" else 500)
        self.end_headers()

    def log_message(self, *_):
        pass


class Webhooks(BrowserTest):
    def test_deliveries_are_shown_and_sent_again(self):
        receiver = HTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        self.addCleanup(receiver.server_close)
        self.addCleanup(receiver.shutdown)
        address = f"http://127.0.0.1:{receiver.server_port}"
        server = self.serve(webhook_allow=f"{address}/")
        page = self.open("/webhooks")
        expect(page.get_by_text("There are no webhooks yet")).to_be_visible()
        for name in ["good", "bad"]:
            server.call("POST", "/v1/webhooks", {"name": name, "url": f"{address}/{name}"})
        job = server.job(server.dataset(300))
        expect(page.get_by_role("row", name="bad").get_by_text("Failing")).to_be_visible()
        self.check_page(page, "webhooks")
        page.get_by_role("link", name="good").click()
        expect(page.get_by_role("row", name="job.succeeded").get_by_text("Delivered")).to_be_visible()
        expect(page.get_by_role("link", name=job["id"][-8:])).to_be_visible()
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_role("row", name="ping").get_by_text("Delivered")).to_be_visible()
        page.get_by_role("button", name="Send job.succeeded again").click()
        expect(page.get_by_role("row", name="job.succeeded").get_by_text("Delivered")).to_be_visible()
        self.check_page(page, "webhook")
