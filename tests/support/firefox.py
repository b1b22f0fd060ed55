"""Firefox (Debian's firefox-esr), driven by the protocol that it speaks itself, WebDriver BiDi.

with Firefox(folder) as firefox:
    firefox.open(url)
    firefox.click("//button[.='Hold']")

Nothing but the browser is needed: no driver, no build of it that is made for tests. What a page writes to its console as an
error, exceptions, and every address that it asks for are kept.
"""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Self, TypeAlias, cast

from patience import ANSWER_S, START_S
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
_LISTENS = re.compile(r"WebDriver BiDi listening on ws://([\d.]+):(\d+)")
#: So that the browser asks nobody on its own: updates, add-ons, lists of bad sites, the page of a captive network.
_PREFERENCES: Mapping[str, bool | int | str] = {
    "app.normandy.enabled": False, "app.update.enabled": False, "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False, "browser.search.update": False, "datareporting.policy.dataSubmissionEnabled": False,
    "browser.shell.checkDefaultBrowser": False, "dom.push.connection.enabled": False, "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,", "toolkit.telemetry.enabled": False, "ui.prefersReducedMotion": 1,
}  # fmt: skip
#: The first node of an XPath, as soon as the page has one that is shown.
_WHEN_SHOWN = """(path) => new Promise((resolve) => {
    const look = () => {
        const node = document.evaluate(path, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue;
        if (!node || !node.getClientRects().length) return;
        watcher.disconnect();
        resolve(node);
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    look();
})"""
_WHEN_GONE = """(path) => new Promise((resolve) => {
    const look = () => {
        if (document.evaluate(path, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue) return;
        watcher.disconnect();
        resolve(null);
    };
    const watcher = new MutationObserver(look);
    watcher.observe(document, {subtree: true, childList: true});
    look();
})"""
_Fields: TypeAlias = dict[str, object]


class Firefox:
    """The browser with a profile of its own, and one page."""

    def __init__(self, folder: Path) -> None:
        assert FIREFOX is not None
        self.problems: list[str] = []
        self.asked: list[str] = []
        profile = folder / "profile"
        profile.mkdir()
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _PREFERENCES.items()]
        (profile / "user.js").write_text("".join(lines))
        self._log = folder / "firefox.log"
        words = [
            FIREFOX,
            "--headless",
            "--no-remote",
            "--profile",
            str(profile),
            "--remote-debugging-port",
            "0",
            "about:blank",
        ]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, text=True,
                # its sandbox needs rights that containers do not give; the pages are our own
                env=os.environ | {"HOME": str(folder), "MOZ_DISABLE_CONTENT_SANDBOX": "1"},
            )  # fmt: skip
        try:
            self._connect()
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def open(self, url: str) -> None:
        """Goes to an address, and waits until its files are loaded."""
        self._command("browsingContext.navigate", context=self._context, url=url, wait="complete")

    def shown(self, path: str) -> _Fields:
        """The first node of an XPath, as soon as it can be seen."""
        return self._called(_WHEN_SHOWN, path)

    def wait_until_gone(self, path: str) -> None:
        """Waits until the page has no node of an XPath."""
        self._called(_WHEN_GONE, path)

    def click(self, path: str) -> None:
        """Presses the mouse's button on the first node of an XPath."""
        origin = {"type": "element", "element": {"sharedId": self.shown(path)["sharedId"]}}
        actions = [{"type": "pointerMove", "x": 0, "y": 0, "origin": origin}, {"type": "pointerDown", "button": 0},
                   {"type": "pointerUp", "button": 0}]  # fmt: skip
        mouse = {"type": "pointer", "id": "mouse", "actions": actions}
        self._command("input.performActions", context=self._context, actions=[mouse])

    # ---- the protocol

    def _connect(self) -> None:
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            if (found := _LISTENS.search(line)) is not None:
                break
        else:
            raise AssertionError(f"Firefox ended: {said}")
        Thread(target=self._process.stderr.read, daemon=True).start()  # so that it never waits for a reader
        host = f"{found[1]}:{found[2]}"
        self._wire = socket.create_connection((found[1], int(found[2])), START_S)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._ids = count(1)
        self._wire.sendall(self._protocol.send(Request(host=host, target="/session")))
        while not isinstance(next(iter(self._protocol.events()), None), AcceptConnection):
            self._read()
        self._command("session.new", capabilities={})
        self._wire.settimeout(ANSWER_S)
        tree = cast("list[_Fields]", self._command("browsingContext.getTree")["contexts"])
        self._context = tree[0]["context"]
        self._command("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])

    def _called(self, function: str, *texts: str) -> _Fields:
        answer = self._command(
            "script.callFunction", functionDeclaration=function, awaitPromise=True, target={"context": self._context},
            arguments=[{"type": "string", "value": one} for one in texts],
        )  # fmt: skip
        assert answer["type"] == "success", answer
        return cast("_Fields", answer["result"])

    def _command(self, method: str, **parameters: object) -> _Fields:
        number = next(self._ids)
        text = json.dumps({"id": number, "method": method, "params": parameters})
        self._wire.sendall(self._protocol.send(TextMessage(text)))
        while (message := self._message()).get("id") != number:
            if message["type"] == "event":
                self._happened(str(message["method"]), cast("_Fields", message["params"]))
        assert message["type"] == "success", (method, message)
        return cast("_Fields", message["result"])

    def _happened(self, method: str, event: _Fields) -> None:
        if method == "network.beforeRequestSent":
            self.asked.append(str(cast("_Fields", event["request"])["url"]))
        elif event["level"] == "error":
            self.problems.append(str(event["text"]))

    def _message(self) -> _Fields:
        text = ""
        while True:
            for event in self._protocol.events():
                assert isinstance(event, TextMessage), event
                text += event.data
                if event.message_finished:
                    return cast("_Fields", json.loads(text))
            self._read()

    def _read(self) -> None:
        data = self._wire.recv(65536)
        assert data, "Firefox has closed the connection"
        self._protocol.receive_data(data)

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
