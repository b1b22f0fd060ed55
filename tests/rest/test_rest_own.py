"""Penstock's own interface, entity tags and compression on a real cluster."""

import time

from liverest import PREFIX

from cli.subcommands.reportdata import load

HOUR_S = 3600
OWN = "/penstock/v1"


def test_a_job_explained(rest):
    with rest.as_user() as client:
        job = {
            "name": "rwhy",
            "current_working_directory": "/tmp",
            "environment": ["A=1"],
            "script": "#!/bin/sh\n",
            "hold": True,
        }
        job_id = client.post(f"{PREFIX}/job/submit", json={"job": job}).json()["job_id"]
        why = client.get(f"{OWN}/jobs/{job_id}/why").json()["why"]
        assert (why["job_id"], why["state"], why["reason"]) == (job_id, "PENDING", "JobHeldUser") and why["obstacles"]
        story = client.get(f"{OWN}/jobs/{job_id}/story").json()
        assert story["job_id"] == job_id and story["lines"][0]["at_us"] > 0
        expected = client.get(f"{OWN}/forecast").json()["jobs"]
        assert [one["name"] for one in expected if one["job_id"] == job_id] == ["rwhy"]
        assert client.get(f"{OWN}/jobs/999999/why").status_code == 404
        (main,) = client.get(f"{OWN}/fits?partitions=main").json()["fits"]["partitions"]
        assert main["nodes_up"] == 2 and main["shapes"]
        assert client.get(f"{OWN}/gpus").json()["gpus"] == []
        assert f"{OWN}/fits" in client.get(f"{OWN}/openapi.json").json()["paths"]


def test_a_poller_gets_only_what_is_new(rest):
    with rest.as_user() as client:
        url = f"{PREFIX}/reservations"
        first = client.get(url)
        again = client.get(url, headers={"If-None-Match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
        jobs = client.get(f"{PREFIX}/jobs")
        again = client.get(f"{PREFIX}/jobs", headers={"If-None-Match": jobs.headers["etag"]})
        assert (again.status_code, again.headers["etag"]) == (304, jobs.headers["etag"])
        packed = client.get(f"{PREFIX}/conf", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip" and packed.json()["slurm_conf"]["ClusterName"] == "e2e"


def test_waits_and_efficiency_are_those_of_the_report(rest):
    """By account, what `penstock report` reads of the same time."""
    rest.cluster.wait_ends(rest.cluster.sbatch("-J", "counted", "-n2", "--wrap", "true"))
    end_s = (int(time.time()) // HOUR_S + 1) * HOUR_S
    start_s = end_s - 24 * HOUR_S
    report = load(rest.cluster.client(), [(start_s * 1_000_000, end_s * 1_000_000)])
    assert report.waits and report.efficiency
    with rest.as_user() as client:
        window = f"start={start_s}&end={end_s}&group_by=account"
        waits = client.get(f"{OWN}/waits?{window}").json()["rows"]
        assert {row.pop("keys")[0]: row for row in waits} == {name: one._asdict() for name, one in report.waits.items()}
        rows = client.get(f"{OWN}/efficiency?{window}").json()["rows"]
        names = ("cpu_percent", "memory_percent", "gpu_percent")
        assert {row["keys"][0]: (row["jobs"], *(row[name] for name in names)) for row in rows} == {
            name: (jobs, *(None if part is None else 100 * part for part in parts))
            for name, (jobs, *parts) in report.efficiency.items()
        }
        sizes = client.get(f"{OWN}/waits?start={start_s}&group_by=partition,gpus").json()["rows"]
        assert sum(row["jobs"] for row in sizes if row["keys"] == ["main", "0"]) == sum(one["jobs"] for one in sizes)


def test_a_window_of_the_jobs(rest):
    with rest.as_user() as client:
        for number in range(3):
            job = {
                "name": f"window{number}", "current_working_directory": "/tmp", "environment": ["A=1"], "script": "#!/bin/sh\n", "hold": True,
            }  # fmt: skip
            client.post(f"{PREFIX}/job/submit", json={"job": job}).raise_for_status()

        def window(**query: object) -> tuple[list[str], int]:
            answer = client.get(f"{OWN}/jobs", params=query)
            found = answer.json()
            return [one["name"] for one in found["jobs"]], found["total"]

        assert window(search="window pending", order="-name", count=2) == (["window2", "window1"], 3)
        assert window(search="window", first=2, states="PENDING") == (["window2"], 3)
        assert window(search="window", order="job_id", count=0) == ([], 3)
        expected = client.get(f"{OWN}/forecast?search=window&order=-name&count=1").json()
        assert [one["name"] for one in expected["jobs"]] == ["window2"] and expected["total"] == 3
        queue = client.get(f"{OWN}/queue?states=PENDING").json()["queue"]
        assert sum(one["jobs"] for one in queue if one["reason"] == "JobHeldUser") >= 3
        names, total = window()
        assert total is None and {"window0", "window1", "window2"} <= set(names)
        url = f"{OWN}/jobs?search=window&count=1"
        again = client.get(url, headers={"If-None-Match": client.get(url).headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        for bad in (
            "order=shoe_size",
            "order=--name",
            "count=1001",
            "count=-1",
            "first=x",
            f"search={'x' * 65}",
            "search=" + "+a" * 17,
            "search=%01",
        ):
            refused = client.get(f"{OWN}/jobs?{bad}")
            assert refused.status_code in (400, 422) and refused.json()["errors"], (bad, refused.text)
