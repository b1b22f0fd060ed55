"""Filters of options on a real cluster: from slurm.conf by the cluster file to sbatch, salloc and srun."""

import json
from collections.abc import Iterator

import pytest
from livecluster import LAUNCHERS, ClusterConf, Done, LiveCluster

FILTER = """
function slurm_cli_setup_defaults(options, early)
    options.comment = 'default'
    return slurm.SUCCESS
end
function slurm_cli_pre_submit(options, offset)
    if options.qos == 'none' then
        slurm.log_error('qos none is nothing')
        return slurm.ERROR
    end
    if options.type == 'srun' and os.getenv('SLURM_JOB_ID') then options.label = true end
    options['job-name'] = options.type .. offset
    return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id)
    slurm.log_info('job %d step %d', job_id, step_id)
    return slurm.SUCCESS
end
"""


@pytest.fixture(scope="module")
def live() -> Iterator[LiveCluster]:
    cluster = LiveCluster(nodes=1, conf=ClusterConf(more=("CliFilterPlugins=cli_filter/lua,other",)))
    path = cluster.home / "cli_filter.lua"
    path.write_text(FILTER)
    path.chmod(0o644)
    with cluster:
        yield cluster


def served(live: LiveCluster, *words: str) -> Done:
    """Runs a command as users of the controller's machine do."""
    return live.run(*words, env={"PENSTOCK_CLUSTER": str(live.home / "ctld" / "cluster.json")})


def names(live: LiveCluster) -> dict[int, tuple[str, str]]:
    return {job.job_id: (job.request.name, job.request.comment) for job in live.jobs()}


def test_all_three_commands_ask_it(live: LiveCluster) -> None:
    for number in range(3):  # a worker of the server may serve several of them
        done = served(live, "sbatch", "--parsable", "--wrap", "true")
        assert done.status == 0, done
        job = int(done.out)
        assert done.err == f"sbatch: lua: job {job} step {0xFFFF_FFFE}\n", number
        assert names(live)[job] == ("sbatch0", "default")
    done = served(live, "sbatch", "--comment=own", "--qos=none", "--wrap", "true")
    assert (done.status, done.out) == (1, "")
    assert done.err == (
        "sbatch: error: lua: qos none is nothing\nsbatch: error: cli_filter plugin terminated with error\n"
    )
    assert max(names(live)) == job
    done = served(live, "srun", "-n1", "echo", "hello")
    assert (done.status, done.out) == (0, "hello\n"), done
    assert f"srun: lua: job {job + 1} step 0\n" in done.err and names(live)[job + 1][0] == "srun0"
    done = served(live, "salloc", "-n1", str(LAUNCHERS / "srun"), "-n1", "echo", "inside")
    assert (done.status, done.out) == (0, "0: inside\n"), done
    assert f"salloc: lua: job {job + 2} step {0xFFFF_FFFE}\n" in done.err and names(live)[job + 2][0] == "salloc0"
    assert f"srun: lua: job {job + 2} step 0\n" in done.err


def test_a_reload_names_others_and_none(live: LiveCluster) -> None:
    file = live.home / "ctld" / "cluster.json"
    assert json.loads(file.read_text())["cli_filters"] == [f"lua:{live.home}/cli_filter.lua"]
    before = live.slurm_conf.read_text()
    try:
        live.slurm_conf.write_text(live.conf_text("").replace("CliFilterPlugins=", "#"))
        done = live.run("scontrol", "reconfigure")
        assert done.status == 0 and "cli_filter.lua" in done.err and "CliFilterPlugins does not name lua" in done.err
        assert "cli_filters" not in json.loads(file.read_text())
        assert served(live, "sbatch", "--wrap", "true").err == ""
    finally:
        live.slurm_conf.write_text(before)
        assert "does not name lua" not in live.run("scontrol", "reconfigure").err
    shown = live.run("scontrol", "show", "config").out
    assert "CliFilterPlugins" in shown and "= lua\n" in shown
    checked = live.run("penstock", "config", "check", str(live.slurm_conf))
    assert "other: Slurm's compiled plug-ins cannot be loaded" in checked.out + checked.err
