"""The controller's pages, scraped from a controller with a real database and a node that a test drives."""

import asyncio
import ssl
from pathlib import Path

import pytest
from livecluster import free_ports
from patience import ANSWER_S

from ctld.daemon import Controller
from penstock.errors import BadSetup
from penstock.exporter import endpoint
from penstock.v1.shares_pb2 import ChangeAccountsRequest
from tests.observe.scraping import ScrapedPage, scrape
from tests.rpc.clusterkit import OWN, FakeNode, Site, submit, wait_for

PAGES = ("jobs", "nodes", "partitions", "jobs-users-accts", "scheduler", "penstock")


def table() -> dict[str, dict[str, tuple[str, str]]]:
    """Slurm's families by page: type and label. Its recording had no accounts, and so no label of theirs."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in Path(__file__).with_name("slurm_metrics.txt").read_text().splitlines():
        if line.startswith("## "):
            page = found[line[3:]] = {}
        else:
            name, kind, label = (*line.split(), "")[:3]
            page[name] = kind, "account" if name.startswith("slurm_account_") else label
    return found


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(endpoint, "KEPT_S", 0.0)
    monkeypatch.setattr("ctld.observe.exporter.KEPT_S", 0.0)


class MeasuredSite(Site):
    """A site with metrics on a port of its own."""

    def __init__(self, folder: Path, extra: str = "", nodes: int = 2) -> None:
        (self.port,) = free_ports(1)
        super().__init__(folder, nodes, f"MetricsType=metrics/openmetrics\nPenstockMetricsPort={self.port}\n{extra}")

    async def page(self, name: str, **headers: str) -> ScrapedPage:
        """One page."""
        return await scrape(self.port, f"/metrics/{name}", None, **headers)


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_slurms_pages_have_its_names_types_and_labels(tmp_path, accept):
    async def body() -> None:
        site = MeasuredSite(tmp_path)
        async with site.controller(), FakeNode(site) as node, site.client() as client:
            await node.register()
            await submit(client, hold=True)
            for path, wanted in table().items():
                page = await scrape(site.port, path, Accept=accept)
                assert page.status == 200, page
                shown = {
                    name: (family.type, ",".join(sorted({label for one in family.samples for label in one.labels})))
                    for name, family in page.families().items()
                }
                assert shown == wanted, path

    asyncio.run(body())


def test_the_numbers_follow_a_job(tmp_path):
    async def body() -> None:
        site = MeasuredSite(tmp_path)
        async with site.controller(), FakeNode(site) as node, site.client() as client:
            await node.register()
            held = await submit(client, hold=True, nodes_min=2, nodes_max=2)
            job = await submit(client)
            launch = (await node.command("launch")).launch
            await node.started(launch.key)
            await node.acked()
            await wait_for(client, job, "RUNNING")
            await running(site, held)
            await node.exited(launch.key)
            await wait_for(client, job, "COMPLETED")
            await over(site)

    async def running(site: MeasuredSite, held: int) -> None:
        jobs = await site.page("jobs")
        numbers = {"": 2, "_pending": 1, "_running": 1, "_hold": 1, "_started": 1, "_finished": 0, "_cpus_alloc": 1}
        numbers |= {"_memory_alloc": 10 * 1024 * 1024, "_nodes_alloc": 1, "_gpus_alloc": 0}
        assert {name: jobs.value(f"slurm_jobs{name}") for name in numbers} == numbers
        nodes = await site.page("nodes")
        assert (
            nodes.value("slurm_node_cpus_alloc", node="n1") == 1 and nodes.value("slurm_node_cpus_idle", node="n1") == 3
        )
        assert nodes.value("slurm_nodes") == 2 and nodes.value("slurm_nodes_mixed") == 1
        assert nodes.value("slurm_node_memory_alloc_bytes", node="n1") == 10 * 1024 * 1024
        parts = await site.page("partitions")
        assert parts.value("slurm_partitions") == 1 and parts.value("slurm_partition_nodes", partition="debug") == 2
        assert parts.value("slurm_partition_jobs_max_job_nodes", partition="debug") == 2
        assert parts.value("slurm_partition_jobs_max_job_nodes_nohold", partition="debug") == 0
        users = await site.page("jobs-users-accts")
        assert users.value("slurm_user_jobs_running", username=OWN.pw_name) == 1
        account = "root" if OWN.pw_name == "root" else "default"
        assert users.value("slurm_account_jobs_pending", account=account) == 1
        own = await site.page("penstock")
        assert own.value("penstock_jobs", state="pending", partition="debug") == 1
        assert own.value("penstock_jobs_pending_by_reason", reason="JobHeldUser") == 1
        assert own.value("penstock_job_wait_seconds_count", partition="debug", **{"class": "cpu"}) == 1
        assert own.value("penstock_submits_total") == 2
        assert own.value("penstock_rpcs_total", method="SubmitJob", code="OK") == 2

    async def over(site: MeasuredSite) -> None:
        jobs = await site.page("jobs")
        numbers = {"": 2, "_running": 0, "_completed": 1, "_finished": 1, "_cpus_alloc": 0, "_memory_alloc": 0}
        assert {name: jobs.value(f"slurm_jobs{name}") for name in numbers} == numbers
        scheduler = await site.page("scheduler")
        assert scheduler.value("slurm_sdiag_jobs_started") == scheduler.value("slurm_sdiag_jobs_completed") == 1
        own = await site.page("penstock")
        assert own.value("penstock_commit_seconds_count") > 0

    asyncio.run(body())


def test_refused_calls_are_counted_by_their_code(tmp_path):
    async def body() -> None:
        site = MeasuredSite(tmp_path)
        async with site.controller(), site.client() as client:
            with pytest.raises(Exception, match="Invalid account or partition|partition"):
                await submit(client, partitions=["nowhere"])
            own = await site.page("penstock")
            assert own.value("penstock_rpcs_total", method="SubmitJob", code="INVALID_ARGUMENT") == 1

    asyncio.run(body())


def test_private_data_hides_pages_from_all_but_the_token(tmp_path):
    token = "0123456789abcdef" * 2
    path = tmp_path / "token"
    path.write_text(token + "\n")
    path.chmod(0o600)

    async def statuses(site: MeasuredSite, **headers: str) -> list[int]:
        return [(await site.page(name, **headers)).status for name in PAGES]

    async def body() -> None:
        first = MeasuredSite(tmp_path / "a", "PrivateData=usage,users\n")
        async with first.controller():
            assert await statuses(first) == [200, 200, 200, 403, 200, 403]
            assert "PrivateData=usage,users hides this" in (await first.page("jobs-users-accts")).body
        ignoring = MeasuredSite(tmp_path / "b", "PrivateData=jobs\nMetricsParameters=ignore_private_data\n")
        async with ignoring.controller():
            assert await statuses(ignoring) == [200] * 6
        trusting = MeasuredSite(tmp_path / "c", f"PrivateData=all\nPenstockMetricsTokenFile={path}\n")
        async with trusting.controller():
            assert await statuses(trusting) == [401] * 6
            assert await statuses(trusting, Authorization=f"Bearer {token}") == [200] * 6

    for name in "abc":
        (tmp_path / name).mkdir()
    asyncio.run(body())


def test_there_are_no_more_users_and_accounts_than_the_site_wants(tmp_path):
    async def body() -> None:
        site = MeasuredSite(tmp_path, "PenstockMetricsValuesMax=1\n")
        async with site.controller(), site.client() as client:
            await submit(client, hold=True)
            users = await site.page("jobs-users-accts")
            assert users.value("slurm_user_jobs", username=OWN.pw_name) == 1  # one is not too many
            await rewrite(site)
            assert (await site.page("jobs-users-accts")).status == 403

    async def rewrite(site: MeasuredSite) -> None:
        extra = f"MetricsType=metrics/openmetrics\nPenstockMetricsPort={site.port}\nPenstockMetricsAllow=10.0.0.0/8\n"
        site.write(extra)
        async with site.client() as client:
            from penstock.v1.controller_pb2 import ReconfigureRequest

            await client.call("Reconfigure", ReconfigureRequest())

    asyncio.run(body())


def test_shares_usage_and_limits_that_are_nearly_used_up(tmp_path):
    async def body() -> None:
        site = MeasuredSite(tmp_path, "AccountingStorageEnforce=associations,limits\nPenstockMetricsValuesMax=2\n")
        async with site.controller(), site.client() as client:
            for account, shares in (("lab", "3"), ("other", "1"), ("third", "4")):
                changes = {"fairshare": shares, "grpsubmitjobs": "5", "grpjobs": "9", "grptres": "cpu=1"}
                request = ChangeAccountsRequest(action="ADD", entity="account", names=[account], changes=changes)
                await client.call("ChangeAccounts", request)
            user = ChangeAccountsRequest(action="ADD", entity="user", names=[OWN.pw_name], accounts=["lab"])
            await client.call("ChangeAccounts", user)
            for count in range(4):
                own = await site.page("penstock")
                assert own.value("penstock_limits_near_full") == 0, count
                await submit(client, account="lab", hold=True)
            own = await site.page("penstock")
            assert own.value("penstock_limits_near_full") == 1
            assert own.value("penstock_limit_used_ratio", kind="account", entity="lab", limit="GrpSubmitJobs") == 0.8
            parts = {
                one.labels["account"]: one.value for one in own.families()["penstock_account_shares_ratio"].samples
            }
            assert len(parts) == 2 and parts["lab"] > 0  # no more than PenstockMetricsValuesMax
            assert own.value("penstock_account_usage_ratio", account="lab") == 0
            assert own.value("penstock_database_behind_seconds") < ANSWER_S

    asyncio.run(body())


def test_tls_with_the_clusters_certificate(tmp_path):
    async def body() -> None:
        site = MeasuredSite(tmp_path, "PenstockMetricsTls=YES\n")
        async with site.controller():
            context = ssl.create_default_context(cafile=site.cluster().ca)
            page = await scrape(site.port, "/metrics/jobs", context)
            assert page.status == 200 and page.value("slurm_jobs") == 0
            with pytest.raises((ConnectionError, IndexError)):
                await scrape(site.port, "/metrics/jobs")  # plain text is no handshake

    asyncio.run(body())


def test_a_taken_port_and_a_weak_token_end_the_start_with_what_to_do(tmp_path):
    async def fails(site: MeasuredSite) -> str:
        with pytest.raises(BadSetup) as found:
            async with asyncio.timeout(ANSWER_S), site.controller():
                raise AssertionError("it started")
        return str(found.value)

    async def body() -> None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        taken = server.sockets[0].getsockname()[1]
        first = MeasuredSite(tmp_path / "a")
        first.write(f"MetricsType=metrics/openmetrics\nPenstockMetricsPort={taken}\n")
        assert (
            await fails(first)
            == f"metrics: 127.0.0.1:{taken}: Address already in use; choose another PenstockMetricsPort"
        )
        server.close()
        weak = tmp_path / "weak"
        weak.write_text("short\n")
        weak.chmod(0o600)
        second = MeasuredSite(tmp_path / "b", f"PenstockMetricsTokenFile={weak}\n")
        assert "at least 16 characters" in await fails(second)

    for name in "ab":
        (tmp_path / name).mkdir()
    asyncio.run(body())


def test_without_metrics_nothing_is_counted_and_nobody_listens(tmp_path):
    async def body() -> None:
        site = Site(tmp_path)
        controller: Controller
        async with site.controller() as controller:
            assert controller.runtime.snapshot.tally is None

    asyncio.run(body())
