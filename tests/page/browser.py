"""A headless Chromium, told what to do through a pair of pipes in its DevTools protocol."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 60


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """The process. The protocol goes over descriptors 3 and 4, a NUL after each message."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tutti-page-", ignore_cleanup_errors=True)
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        # Its own sandbox is not to be had for root, nor in most containers.
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--hide-scrollbars", "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 "--no-proxy-server", "--force-color-profile=srgb", f"--user-data-dir={self.folder.name}"]
        command = f"exec 3<&{to_read} 4>&{to_write}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", command, "bash", find_chromium(), *flags, "--remote-debugging-pipe", "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self._number, self._answers, self._changed = 0, {}, threading.Condition()
        self.events = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        rest = b""
        while True:
            piece = os.read(self._from, 1 << 16)
            if not piece:
                break
            *messages, rest = (rest + piece).split(b"\0")
            with self._changed:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._changed.notify_all()
        with self._changed:
            self._answers = None
            self._changed.notify_all()

    def send(self, method, session=None, **params):
        with self._changed:
            self._number += 1
            number = self._number
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data):]
        with self._changed:
            there = self._changed.wait_for(lambda: self._answers is None or number in self._answers, PATIENCE_S)
            if not there or self._answers is None:
                raise AssertionError(f"{method}: Chromium {'ended' if there else 'does not answer'}")
            answer = self._answers.pop(number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url, **kind):
        return Page(self, url, **kind)

    def close(self):
        os.close(self._to)  # which ends it
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        os.close(self._from)
        self.folder.cleanup()


class Page:
    """A tab at `url`, of a size in CSS pixels."""

    def __init__(self, browser, url, width=1280, height=900, dark=False, calm=True, context=None):
        self.browser = browser
        context = context or browser.send("Target.createBrowserContext")["browserContextId"]
        self.context = context
        self.target = browser.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.media(dark, calm)
        self.size(width, height)
        self.send("Page.navigate", url=url)

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def media(self, dark, calm=True):
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}])

    def size(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)

    def run(self, expression):
        """The value of an expression of JavaScript, awaited where it is a promise."""
        got = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise AssertionError(f"{expression}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def wait(self, expression, what, patience=PATIENCE_S):
        """The first true value of the expression."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            value = self.run(expression)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"{what}: not within {patience} s; the page says: {self.text()[:2000]}")

    def text(self):
        return self.run("document.body ? document.body.innerText : ''")

    def key(self, key, **more):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def type(self, selector, text):
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def screenshot(self, path, whole=False, quality=None):
        kind = {"format": "png", "optimizeForSpeed": False, "captureBeyondViewport": whole}
        data = base64.b64decode(self.send("Page.captureScreenshot", **kind)["data"])
        with open(path, "wb") as file:
            file.write(data)
        return len(data)

    def complaints(self):
        """Exceptions, errors on the console, violations of the policy: what a person would find in the console."""
        found = []
        for event in list(self.browser.events):
            if event.get("sessionId") != self.session:
                continue
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description") or str(params))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return found

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)
