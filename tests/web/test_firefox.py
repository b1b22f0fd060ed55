"""The web interface in Firefox: the pages that most users open, and an action with its effect on the cluster."""

import pytest
from liverest import LiveRest

pytest.importorskip("wsproto", reason="wsproto is not installed")
from firefox import FIREFOX, Firefox

pytestmark = pytest.mark.skipif(FIREFOX is None, reason="no Firefox (Debian package firefox-esr)")
SLEEP = ("--wrap", "sleep 600")


def heading(text: str) -> str:
    return f"//h1[starts-with(normalize-space(.), '{text}')]"


def button(text: str, inside: str = "") -> str:
    return f"{inside}//button[normalize-space(.)='{text}']"


def test_pages_and_an_action_in_firefox(rest: LiveRest, tmp_path):
    """No error on the console, no request to another host; a job that is held, and a drawing of the nodes."""
    cluster = rest.cluster
    running = cluster.sbatch("-J", "train", "--gpus=6", *SLEEP)
    waiting = cluster.sbatch("-J", "wide", "-N2", "--gpus-per-node=8", "-t", "60", *SLEEP)
    cluster.wait_state(running, "RUNNING")
    with rest.by_socket() as http:
        link = http.post("/web/link", headers={"X-SLURM-USER-TOKEN": rest.token()}).json()["secret"]
    with Firefox(tmp_path) as firefox:
        firefox.open(f"{rest.url}/#login={link}")
        firefox.shown(heading("Overview"))
        firefox.shown("//header//span[normalize-space(.)='Live']")  # the stream of changes
        firefox.click("//nav//a[.='Jobs']")
        firefox.click(f"//td//a[.='{waiting}']")
        firefox.shown(heading("wide"))
        firefox.shown("//*[contains(text(), 'Why it waits')]")
        firefox.click(button("Hold", "//header[@class='page']"))
        firefox.click(button("Hold", "//dialog"))
        firefox.shown(button("Release"))
        assert cluster.job(waiting).hold
        for page, title in (("nodes", "Nodes"), ("submit", "Submit a job"), ("plan", "Plan")):
            firefox.click(f"//nav//a[@href='#/{page}']")
            firefox.shown(heading(title))
            firefox.wait_until_gone("//*[contains(text(), 'Loading')]")
        cluster.run("scancel", str(running)).ok()
        firefox.click("//nav//a[.='Overview']")
        firefox.shown(heading("Overview"))
        firefox.click(button("Log out"))
        firefox.shown(heading("Penstock"))
        assert firefox.problems == []
        assert [url for url in firefox.asked if not url.startswith((f"{rest.url}/", "data:"))] == []
    cluster.clean()
