"""A headless Chromium over its debugging pipe: what a person does with a page, and what the page then shows."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
OPTIONS += ["--disable-background-networking", "--disable-extensions", "--remote-debugging-pipe"]
# It speaks on the descriptors 3 and 4, which Popen cannot hand on under these numbers.
LAUNCH = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
PATIENCE = 60.0  # seconds for one answer
KEYS = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def installed() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Browser:
    """One page of a browser. `requests` are the addresses that it asked for, `complaints` what its console holds."""

    def __init__(self, program: str, folder: Path) -> None:
        reads, self.to = _high_pipe()
        self.answers, writes = _high_pipe()
        command = [
            sys.executable,
            "-c",
            LAUNCH,
            str(reads),
            str(writes),
            program,
            *OPTIONS,
            f"--user-data-dir={folder}",
        ]
        self.process = subprocess.Popen(
            command,
            pass_fds=(reads, writes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self.unread = b""
        self.sent = 0
        self.events: list[dict[str, Any]] = []
        self.session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        os.close(self.to)  # its sign to leave
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.answers)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command of the protocol. RuntimeError if the browser refuses it or is silent for too long."""
        self.sent += 1
        message: dict[str, Any] = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            told = self._next(method)
            if told.get("id") != self.sent:
                self.events.append(told)
            elif "error" in told:
                raise RuntimeError(f"{method}: {told['error']['message']}")
            else:
                result: dict[str, Any] = told["result"]
                return result

    def open(self, url: str, width: int = 1440, height: int = 900, **media: str) -> None:
        """Go to a page on a screen of this size, with features such as prefers_color_scheme="dark", and wait for it."""
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.resize(width, height)
        for address in ("about:blank", url):  # a new fragment alone would not load the page again
            self.events.clear()
            self.call("Page.navigate", url=address)
            while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
                self.events.append(self._next("Page.navigate"))

    def resize(self, width: int, height: int = 900) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def evaluate(self, expression: str) -> Any:
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise RuntimeError(told["exceptionDetails"]["exception"].get("description", expression))
        return told["result"].get("value")

    def hover(self, selector: str) -> None:
        """Bring it into sight, clear of what sticks to the edges, and move the mouse over its middle."""
        x, y = self.evaluate(
            f"(() => {{ const found = document.querySelector({json.dumps(selector)});"
            "found.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});"
            "const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.place = (x, y)

    def click(self, selector: str) -> None:
        self.hover(selector)
        x, y = self.place
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        code = KEYS.get(key, ord(key.upper()[0]))
        more = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def picture(self, path: Path, whole: bool = False) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    @property
    def requests(self) -> list[str]:
        asked = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in asked]

    @property
    def complaints(self) -> list[str]:
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def _next(self, waiting_for: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self.answers, 1 << 16) if ready else b""
            if not more:
                raise RuntimeError(f"{waiting_for}: the browser {'left' if ready else 'gave no answer'}")
            self.unread += more
        told, self.unread = self.unread.split(b"\0", 1)
        message: dict[str, Any] = json.loads(told)
        return message


def _high_pipe() -> tuple[int, int]:
    """A pipe on descriptors of 10 and more: 3 and 4 are taken where it arrives."""
    low = os.pipe()
    reads, writes = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low)
    for end in low:
        os.close(end)
    return reads, writes
