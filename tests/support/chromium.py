"""A headless Chromium that is asked over its debugging pipe (Chrome DevTools Protocol), without a library and without a port."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any, Self

from tests.support.engines import missing

_DEADLINE_S = 30.0


@dataclass
class Page:
    """One tab, with everything that it asked of the network and said on its console."""

    browser: Chromium
    session: str
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def ask(self, method: str, **parameters: object) -> Any:
        """One command of the protocol."""
        return self.browser.ask(method, session=self.session, **parameters)

    def open(self, path: Path, scheme: str = "light") -> None:
        """Load a file and wait until it is there."""
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.browser.loaded.discard(self.session)
        self.ask("Page.navigate", url=path.as_uri())
        self.browser.until(lambda: self.session in self.browser.loaded)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def resize(self, width: int) -> None:
        """A window of this width."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def screenshot(self) -> bytes:
        """A PNG of the whole page."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])


class Chromium:
    """A running browser."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._numbers = itertools.count(1)
        self._answers: dict[int, Mapping[str, Any]] = {}
        self._rest = b""
        self._pages: dict[str, Page] = {}
        self.loaded: set[str] = set()

    def page(self) -> Page:
        """A new tab that is listened to."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._pages[session] = page = Page(self, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.ask(f"{domain}.enable")
        return page

    def ask(self, method: str, session: str | None = None, **parameters: object) -> Any:
        """A command and its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        self.until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def until(self, done: Any) -> None:
        """Listen until something is so."""
        end = time.monotonic() + _DEADLINE_S
        while not done():
            assert select([self._back], [], [], max(0.0, end - time.monotonic()))[0], "the browser does not answer"
            data = os.read(self._back, 1 << 20)
            assert data, f"the browser ended ({self._process.poll()})"
            *whole, self._rest = (self._rest + data).split(b"\0")
            for part in whole:
                self._take(json.loads(part))

    def _take(self, message: Mapping[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
            return
        page = self._pages.get(message.get("sessionId", ""))
        about = message.get("params", {})
        if page is None:
            return
        match message["method"]:
            case "Page.loadEventFired":
                self.loaded.add(page.session)
            case "Network.requestWillBeSent":
                page.requests.append(about["request"]["url"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                page.said.append(json.dumps(about)[:400])
            case "Log.entryAdded":
                page.said.append(f"{about['entry']['level']}: {about['entry']['text']}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """Debian's Chromium with a profile of its own, and nothing of it left afterwards."""
    program = shutil.which("chromium")
    if program is None:
        missing("reports are looked at in Debian's chromium")
    inward, to = os.pipe()
    back, outward = os.pipe()

    def pipes() -> None:
        os.dup2(inward, 3)
        os.dup2(outward, 4)
        os.set_inheritable(3, True)
        os.set_inheritable(4, True)

    # The sandbox needs namespaces that containers forbid, and root is refused with it.
    words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    words += [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-pipe",
    ]
    process = subprocess.Popen(
        [*words, f"--user-data-dir={folder / 'profile'}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(folder)},
        preexec_fn=pipes,
        close_fds=False,
    )
    os.close(inward)
    os.close(outward)
    try:
        with Chromium(process, to, back) as browser:
            yield browser
    finally:
        os.close(to)
        os.close(back)
