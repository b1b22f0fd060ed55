"""Use over the last day on the overview. A new cluster has no whole hour, so the hours are the test's; REST is that of a real cluster."""

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from webpages import CHROMIUM, check_looks, save_picture, wait_for_text

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser (Debian package chromium)")
HOUR_US = 3600 * 10**6


def test_gpus_over_the_last_day(web):
    with web.rest.as_user() as client:
        real = client.get("/penstock/v1/utilization").json()
    assert real["end_at_us"] - real["start_at_us"] == 24 * HOUR_US and real["errors"] == []
    page = web.login()
    wait_for_text(page, "Accounting has counted no whole hour yet.")

    def hour(number: int, tres: str = "gres/gpu") -> dict[str, object]:
        busy, down = min(number, 12), 2 if number > 18 else 0
        parts = {"allocated_s": busy, "down_s": down, "planned_down_s": 0, "idle_s": 16 - busy - down, "planned_s": 0,
                 "reported_s": 16, "over_s": 0}  # fmt: skip
        seconds = {name: 3600 * value for name, value in parts.items()}
        return {"at_us": real["start_at_us"] + number * HOUR_US, "tres": tres, "count": 16} | seconds

    given = real | {"hours": [hour(number) for number in range(24) if number != 4]}
    page.route("**/penstock/v1/utilization", lambda route: route.fulfill(json=given))
    page.reload()
    chart = page.get_by_role("img", name="GPUs over 1 d")
    chart.scroll_into_view_if_needed()
    assert "out of use mean" in str(chart.get_attribute("aria-label"))
    chart.press("ArrowLeft")
    page.locator(".card").filter(has_text="Use over the last day").get_by_text("12", exact=True).wait_for()
    save_picture(page, "overview-day")
    check_looks(page, "overview-day")
    used = [{"keys": ["root", "root"], "tres": name, "values": [7200]} for name in ("cpu", "gres/gpu", "gres/gpu:h200")]
    report = {"start_at_us": real["start_at_us"], "end_at_us": real["end_at_us"], "rolled_up_to_us": 0, "rows": used}
    page.route("**/penstock/v1/usage?*", lambda route: route.fulfill(json=report))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    by_type = given | {"hours": [hour(number, "gres/gpu:h200") for number in range(24)]}
    page.route(
        "**/penstock/v1/utilization?*",
        lambda route: route.fulfill(json=by_type if "tres=" in route.request.url else given),
    )
    with web.rest.as_user() as client:
        day = "&".join(f"{end}={real[f'{end}_at_us'] // 10**6}" for end in ("start", "end"))
        hours = client.get(f"/penstock/v1/usage/hours?by=account&tres=gres/gpu&{day}").json()
    assert hours["groups"] == hours["errors"] == []
    groups = [{"key": key, "total_s": 24 * n, "hours": [n] * 24} for key, n in (("lab", 14_400), ("<img src=x>", 3600))]
    page.route("**/penstock/v1/usage/hours?*", lambda route: route.fulfill(json=hours | {"groups": groups}))
    web.open(page, "reports?period=week", "Reports")
    page.get_by_role("img", name="GPUs over 1 d").wait_for()
    assert any("/utilization?start=" in url for url in asked)  # of the report's own period
    chart = page.get_by_role("img", name="GPUs by type over 1 d")
    chart.wait_for()
    assert "h200 mean" in str(chart.get_attribute("aria-label"))
    assert any("tres=gres%2Fgpu%3Ah200" in url for url in asked)  # the type that the cluster counts
    chart = page.get_by_role("img", name="GPUs in use over 1 d")
    chart.wait_for()
    assert "lab mean 4, highest 4; <img src=x> mean 1, highest 1" in str(chart.get_attribute("aria-label"))
    assert any("usage/hours?by=account&tres=gres%2Fgpu&start=" in url for url in asked)
    check_looks(page, "reports-chart")
    web.open(page, "reports?period=year", "Reports")  # too long for hours
    page.get_by_role("img", name="GPUs over 1 d").wait_for(state="detached")
