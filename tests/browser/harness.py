"""A real server, a real browser, and tests that fail on every error that the browser reports."""

import atexit
import json
import os
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import expect, sync_playwright

BINARY = os.environ.get("GUARANTOR_TEST_BINARY", "guarantor")
CHROMIUM = os.environ.get("GUARANTOR_TEST_CHROMIUM", "/usr/bin/chromium")
SCREENSHOTS = os.environ.get("GUARANTOR_SCREENSHOTS")
# To work on pages without compiling: the folder that the files are served from instead of those in the binary.
FILES = os.environ.get("GUARANTOR_UI")
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
# As root and without a network but loopback, as on a build machine.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
REPORT_VIOLATIONS = """document.addEventListener('securitypolicyviolation', (event) =>
  console.error(`securitypolicyviolation: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));"""
PATIENCE = 30_000

expect.set_options(timeout=PATIENCE)


class Server:
    """The server binary on a free port, with a data directory of its own. `restart` keeps both."""

    def __init__(self, **settings):
        self.directory = tempfile.TemporaryDirectory()
        self.settings = {f"GUARANTOR_{name.upper()}": str(value) for name, value in settings.items()}
        self.base = None
        self.start()

    def start(self):
        listen = self.base.removeprefix("http://") if self.base else "127.0.0.1:0"
        own = {"GUARANTOR_LISTEN": listen, "GUARANTOR_DATA_DIR": self.directory.name, "GUARANTOR_LOG_FILTER": "warn"}
        self.process = subprocess.Popen([BINARY, "serve"], env={**clean(), **own, **self.settings}, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("Guarantor listens on "), f"the server did not start: {line}"
        self.base = line.removeprefix("Guarantor listens on ").strip()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        self.kill()
        self.directory.cleanup()

    def key(self, *arguments):
        """A new API key; from now on the server asks for one."""
        command = [BINARY, "keys", "--data-dir", self.directory.name, "create", *arguments]
        output = subprocess.run(command, env=clean(), check=True, capture_output=True, text=True).stdout
        return next(word for word in output.split() if word.startswith("gk_"))

    def revoke(self, name):
        """Revokes the key of this name, also while the server runs."""
        keys = lambda *arguments: subprocess.run([BINARY, "keys", "--data-dir", self.directory.name, *arguments], env=clean(), check=True, capture_output=True, text=True).stdout
        line = next(line for line in keys("list").splitlines() if name in line.split())
        keys("revoke", line.split()[0])

    def call(self, method, path, body=None, headers=None):
        """The JSON that the API answers."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        given = {"content-type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.base + path, data=data, method=method, headers=given)
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def dataset(self, rows=2000, name="Visits", query="outcome=reward&logging=fixed"):
        headers = {"content-type": "application/x-ndjson"}
        return self.call("POST", f"/v1/datasets?name={name.replace(' ', '%20')}&{query}", log(rows), headers)

    def job(self, dataset, **spec):
        """A job on a dataset, finished."""
        job = self.call("POST", "/v1/jobs", {"dataset_id": dataset["id"], **spec})
        return self.finished(job["id"])

    def finished(self, job):
        """The job once it has ended, however long that takes on a busy machine."""
        while True:
            found = self.call("GET", f"/v1/jobs/{job}?wait=60")
            if found["status"] not in ("queued", "running"):
                return found


def clean():
    return {name: value for name, value in os.environ.items() if not name.startswith("GUARANTOR_")}


def log(rows, seed=1):
    """A log of two features and three actions, in which action 2 is better than the deployed policy knows."""
    state, lines = seed, []

    def draw():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 11) / 2**53

    for _ in range(rows):
        x = [round(draw() * 2 - 1, 3), round(draw() * 2 - 1, 3)]
        propensities = [0.5, 0.3, 0.2] if x[0] > 0 else [0.25, 0.5, 0.25]
        at = draw()
        action = 0 if at < propensities[0] else 1 if at < propensities[0] + propensities[1] else 2
        reward = int(draw() < [0.2, 0.3, 0.7][action])
        lines.append(json.dumps({"x": x, "action": action, "propensities": propensities, "reward": reward}))
    return ("\n".join(lines) + "\n").encode()


class Browser:
    """One chromium for all tests; each test has a context of its own."""

    instance = None

    @classmethod
    def get(cls):
        if cls.instance is None:
            playwright = sync_playwright().start()
            cls.instance = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            atexit.register(playwright.stop)
            atexit.register(cls.instance.close)
        return cls.instance


def serve_from_folder(route):
    path = route.request.url.split("/ui/", 1)[1].split("/", 1)[1]
    # The server joins all modules and all styles; here they are what they are joined from.
    if path == "dashboard.js":
        route.fulfill(body="import './app.js';", content_type="text/javascript")
    elif path == "dashboard.css":
        names = ["style/tokens", "style/base", "style/layout", "style/components", "style/charts", "vendor/uplot/uplot"]
        route.fulfill(body="".join(Path(FILES, f"{name}.css").read_text() for name in names), content_type="text/css")
    else:
        route.fulfill(path=f"{FILES}/{path}")


class BrowserTest(unittest.TestCase):
    """A test with a browser. `server` is started by `serve`, and `open` shows one of its pages."""

    def setUp(self):
        self.failures = []
        self.allowed = []
        self.server = None
        self.context = Browser.get().new_context(viewport={"width": 1280, "height": 900}, color_scheme="light", timezone_id="Europe/Berlin")
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(REPORT_VIOLATIONS)
        if FILES:
            self.context.route("**/ui/**", serve_from_folder)

    def tearDown(self):
        self.context.close()
        if self.server:
            self.server.close()
        self.assertEqual(self.failures, [], "the browser reported errors")

    def serve(self, **settings):
        self.server = Server(**settings)
        return self.server

    def expect_failure(self, *parts):
        """Announces that a request whose address contains one of `parts` may fail."""
        self.allowed.extend(parts)

    def open(self, path="/", page=None):
        page = page or self.page()
        page.goto(self.server.base + path)
        return page

    def page(self):
        page = self.context.new_page()
        page.on("console", self.note_message)
        page.on("pageerror", lambda error: self.failures.append(f"error: {error}"))
        return page

    def note_message(self, message):
        if message.type != "error":
            return
        # The browser itself reports requests that fail.
        address = message.location.get("url", "")
        if message.text.startswith("Failed to load resource") and any(part in address for part in self.allowed):
            return
        self.failures.append(f"console: {message.text} ({address})")

    def sign_in(self, page, key):
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()

    def drop(self, page, name, content):
        """Drops a file on the page's drop zone, as a reader would with the mouse."""
        transfer = page.evaluate_handle(
            """([name, bytes]) => { const transfer = new DataTransfer();
              transfer.items.add(new File([new Uint8Array(bytes)], name)); return transfer; }""", [name, list(content)])
        page.dispatch_event(".drop", "dragenter", {"dataTransfer": transfer})
        page.dispatch_event(".drop", "drop", {"dataTransfer": transfer})

    def check_page(self, page, name):
        """The page as it is now: axe-core finds nothing serious in light and dark, and nothing is wider than a phone."""
        for scheme in ["light", "dark"]:
            page.emulate_media(color_scheme=scheme)
            self.check_access(page, f"{name} ({scheme})")
            if SCREENSHOTS:
                # The fonts of a build machine are plain; pictures are small all the same. The menu stays at the top of the window.
                page.evaluate("() => window.scrollTo(0, 0)")
                page.screenshot(path=f"{SCREENSHOTS}/{name}-{scheme}.png", full_page=True)
        page.emulate_media(color_scheme="light")
        # 1280 pixels at 400 % zoom.
        page.set_viewport_size({"width": 320, "height": 700})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        wide = page.evaluate("() => document.documentElement.scrollWidth")
        self.assertLessEqual(wide, 320, f"{name} scrolls sideways on a narrow screen")
        page.set_viewport_size({"width": 1280, "height": 900})

    def check_access(self, page, name):
        page.evaluate(AXE)
        found = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        serious = [f"{each['id']}: {each['help']}: {[node['target'] for node in each['nodes'][:3]]}"
                   for each in found["violations"] if each["impact"] in ("serious", "critical")]
        self.assertEqual(serious, [], f"axe-core on {name}")
