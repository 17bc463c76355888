# SPDX-License-Identifier: Apache-2.0
"""Pages in headless Chromium, by its DevTools protocol over two pipes: what they draw, what goes wrong in
them, and how they look."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 600
ANSWER_BYTES_MAX = 64 << 20

# Of every text that is seen: the contrast with what is behind it, as WCAG 2.1 defines it; the worst first.
CONTRAST = r"""
(() => {
	const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 :
		((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const parse = t => (t.match(/[\d.]+/g) || []).map(Number);
	const over = (top, below, a) => below.map((v, i) => a * top[i] + (1 - a) * v);
	const found = [];
	for (const e of document.querySelectorAll("body *")) {
		const own = [...e.childNodes].filter(n => n.nodeType === 3 && n.data.trim());
		if (!own.length || ["SCRIPT", "STYLE", "NOSCRIPT", "title"].includes(e.tagName)) continue;
		const range = document.createRange();
		range.selectNodeContents(own[0]);
		const box = range.getBoundingClientRect();
		if (!box.width || box.bottom > innerHeight || !e.checkVisibility()) continue;
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		let behind = [255, 255, 255];
		const x = box.x + box.width / 2, y = box.y + box.height / 2, stack = document.elementsFromPoint(x, y);
		if (!stack.includes(e)) continue; /* scrolled out of its box */
		for (const b of [document.documentElement, ...stack.reverse()]) {
			const s = getComputedStyle(b), shape = b instanceof SVGGeometryElement;
			if (shape && (b.tagName === "line" || s.fill === "none" || s.fill.startsWith("url"))) continue;
			const colour = parse(shape ? s.fill : s.backgroundColor);
			if (b instanceof SVGElement && !shape || colour.length < 3) continue;
			const alpha = (colour.length > 3 ? colour[3] : 1) * (shape ? s.fillOpacity : 1) * s.opacity;
			behind = over(colour.slice(0, 3), behind, alpha);
		}
		const [p, q] = [light(parse(svg ? style.fill : style.color)), light(behind)].sort((p, q) => q - p);
		found.push([+((p + 0.05) / (q + 0.05)).toFixed(2), own[0].data.trim().slice(0, 40), e.className.baseVal || e.className]);
	}
	return found.sort((p, q) => p[0] - q[0]).slice(0, 3);
})()
"""


class PageError(Exception):
    """Something went wrong in a page, or Chromium did not answer."""


def program():
    """Chromium's name; None: it is not here."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One window.  As a context it is closed, and its folder removed, at the end."""

    def __init__(self, width=1060, height=1400):
        self.folder = tempfile.mkdtemp(prefix="fanin-chromium-")
        to_child, self.out = os.pipe()
        self.inp, from_child = os.pipe()

        def pipes():  # 3 is what it reads, 4 what it writes
            high = [os.dup(fd) for fd in (to_child, from_child)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [program(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-extensions",
             "--disable-background-networking", "--no-first-run", "--user-data-dir=" + self.folder,
             "--remote-debugging-pipe", "--window-size=%d,%d" % (width, height), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=pipes)  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self.next, self.buffer, self.events, self.width = 1, b"", [], width
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.buffer:
            if (
                len(self.buffer) > ANSWER_BYTES_MAX
                or not select.select([self.inp], [], [], max(0, until - time.monotonic()))[0]
            ):
                raise PageError("Chromium does not answer")
            data = os.read(self.inp, 1 << 20)
            if not data:
                raise PageError("Chromium has ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        message = {"id": self.next, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        self.next += 1
        os.write(self.out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self.message(until)
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    raise PageError("%s: %s" % (method, answer["error"]["message"]))
                return answer["result"]
            self.events.append(answer)

    def value(self, expression):
        """Of JavaScript; promises are waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise PageError(
                answer["exceptionDetails"].get("exception", {}).get("description", "an exception")
            )
        return answer["result"].get("value")

    def until(self, expression, seconds=30):
        """Wait until it is true."""
        end = time.monotonic() + seconds
        while not self.value(expression):
            if time.monotonic() > end:
                raise PageError("not within %d s: %s" % (seconds, expression))
            time.sleep(0.05)

    def look(self, dark=False, width=None, height=1400):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width or self.width, height=height, deviceScaleFactor=1,
                  mobile=False)  # fmt: skip

    def open(self, url):
        """Load a page; PageError when a script fails or something is asked of the network that is not there."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + PATIENCE_S
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message(until))
        self.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        self.complain(url)

    def complain(self, url):
        for event in self.events:
            if event.get("method") == "Runtime.exceptionThrown":
                raise PageError(
                    "%s: %s"
                    % (url, event["params"]["exceptionDetails"]["exception"]["description"])
                )
            if (
                event.get("method") == "Log.entryAdded"
                and event["params"]["entry"]["level"] == "error"
            ):
                raise PageError("%s: %s" % (url, event["params"]["entry"]["text"]))

    def drawn_ms(self):
        """From the start of loading until all is drawn and painted."""
        paint = self.value(
            '(performance.getEntriesByName("first-contentful-paint")[0] || {}).startTime || 0'
        )
        return max(paint, float(self.value("document.body.dataset.drawn || 0")))

    def worst_contrast(self):
        """[[ratio, text, class], ...] of the three texts in the first 16,000 lines of pixels that are read worst."""
        self.look_whole()
        return self.value(CONTRAST)

    def look_whole(self):
        high = self.value("document.documentElement.scrollHeight")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=min(high, 16000), deviceScaleFactor=1,
                  mobile=False)  # fmt: skip

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
