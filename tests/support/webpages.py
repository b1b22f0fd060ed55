"""A browser (Debian's chromium, driven by playwright) at the web interface of a real cluster.

with WebPages(rest) as pages:
    page = pages.opened("jobs/1", "train", "nobody")

Every request of every page must go to the daemon, and what a page writes to its console as an error fails the test at `close`.
"""

import asyncio
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from axe_playwright_python.sync_playwright import Axe
from effort import FULL
from liverest import LiveRest
from patience import ANSWER_S
from playwright.sync_api import BrowserContext, CDPSession, Locator, Page, Request, sync_playwright

#: The shell without windows takes little more than half of the processor time of the whole browser.
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
#: What the browser writes when the daemon has no event stream, is away, or refuses.
EXPECTED = ("Failed to load resource", "net::ERR_CONNECTION_REFUSED", "net::ERR_INCOMPLETE_CHUNKED_ENCODING")
#: Its sandbox needs rights that containers do not give; the pages are our own.
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
#: WCAG 2.2 AA and the best practices of axe.
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
RULES = {"type": "tag", "values": list(TAGS)}
#: Rules whose outcome colours decide.
RULES_OF_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
AXE = """options => axe.run(options).then(found => found.violations.flatMap(
    one => one.nodes.slice(0, 2).map(node => `${one.id}: ${one.help}: ${node.html.slice(0, 120)}`)))"""
PHONE_WIDTH = 360


class WebPages:
    """The browser; one context, and so one session, for each user who logs in."""

    def __init__(self, rest: LiveRest) -> None:
        self.rest = rest
        self.origins = [rest.url]  # that pages may ask
        self.problems: list[str] = []
        self._contexts: list[BrowserContext] = []
        self._sessions: dict[str, BrowserContext] = {}
        # A daemon's loop in an earlier test of this process has set one that ended with it.
        if sys.version_info < (3, 12):
            asyncio.set_child_watcher(asyncio.ThreadedChildWatcher())
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.close()
        self._playwright.stop()

    def new(self, width: int = 1280, height: int = 800, locale: str = "en-GB") -> Page:
        """A page of a browser that nobody is logged in at."""
        context = self._new_context(width, height, locale)
        self._contexts.append(context)
        return self._page(context)

    def _new_context(self, width: int, height: int, locale: str) -> BrowserContext:
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            locale=locale,
            timezone_id="Europe/Berlin",
            reduced_motion="reduce",
        )
        context.set_default_timeout(ANSWER_S * 1000)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=self.rest.url)
        context.on("request", self._requested)
        return context

    def _page(self, context: BrowserContext) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("console", lambda said: self._said(said.type, said.text))
        return page

    def browser_session(self) -> CDPSession:
        """What the browser says of itself."""
        return self._browser.new_browser_cdp_session()

    def login(self, user: str = "") -> Page:
        """A page of that user, at the overview."""
        return self.opened("", "Overview", user)

    def opened(self, where: str, heading: str, user: str = "") -> Page:
        """A page of that user at an address, with its heading, of the session that an earlier test has left, or of a new one."""
        context = self._sessions.get(user)
        if context is None:
            context = self._sessions[user] = self._new_context(1280, 800, "en-GB")
        page = self._page(context)
        page.goto(f"{self.rest.url}/#/{where}")
        token, title = page.get_by_label("Token"), page.get_by_role("heading", name=heading, level=1)
        token.or_(title).first.wait_for()
        if token.is_visible():
            token.fill(self.rest.token(user))
            page.get_by_role("button", name="Log in").click()
            token.wait_for(state="detached")
            self.open(page, where, heading)
        return page

    def open(self, page: Page, where: str, heading: str) -> None:
        """Opens a page by its address, and waits for its heading."""
        page.goto(f"{self.rest.url}/#/{where}")
        page.get_by_role("heading", name=heading, level=1).wait_for()

    def check(self) -> None:
        """Fails if a page asked another host, or had an error."""
        found, self.problems = self.problems, []
        assert found == [], found

    def close_pages(self) -> None:
        """A page that is left open follows the cluster, and costs as much as one that is looked at."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()
        for context in self._sessions.values():
            for page in context.pages:
                page.close()
        self.problems.clear()  # of requests that the end has cut off

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((*(f"{one}/" for one in self.origins), "data:")):
            self.problems.append(f"request to {request.url}")

    def _said(self, kind: str, text: str) -> None:
        if kind == "error" and not text.startswith(EXPECTED):
            self.problems.append(text)


def cookies_of(context: BrowserContext) -> Mapping[str, Mapping[str, object]]:
    """The cookies of a session, by name."""
    return {str(one["name"]): dict(one) for one in context.cookies()}


def save_picture(shown: Page | Locator, name: str) -> None:
    """A screenshot in build/web, for people to look at: `make test` spares them."""
    if not FULL:
        return
    folder = Path("build/web")
    folder.mkdir(parents=True, exist_ok=True)
    shown.screenshot(path=folder / f"{name}.png")


def violations(page: Page, only: Mapping[str, object] = RULES) -> list[str]:
    """What axe finds, two places of each rule. All else that it looks at stays in the page: it is much to carry over."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    found: list[str] = page.evaluate(AXE, {"runOnly": only, "resultTypes": ["violations"]})
    return found


def wait_for_text(page: Page, text: str) -> None:
    """Waits until the page shows a text."""
    page.get_by_text(text).first.wait_for()


def check_looks(page: Page, name: str) -> None:
    """Nothing for axe to find in light and in dark, nothing wider than a phone; `make test-full` keeps the pictures."""
    page.get_by_text("Loading").first.wait_for(state="detached")
    schemes: tuple[tuple[Literal["light", "dark"], Mapping[str, object]], ...]
    schemes = (("light", RULES), ("dark", RULES_OF_COLOURS))
    for scheme, rules in schemes:
        page.emulate_media(color_scheme=scheme)
        assert violations(page, rules) == [], (name, scheme)
        save_picture(page, f"{name}-{scheme}")
    page.set_viewport_size({"width": PHONE_WIDTH, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH, name
    save_picture(page, f"{name}-narrow")
    page.set_viewport_size({"width": 1280, "height": 800})
