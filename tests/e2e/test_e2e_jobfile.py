"""`penstock submit` with a whole cluster."""

from livecluster import LiveCluster

JOB = """\
job:
  tasks: 2
  time_limit: 5
  standard_output: out.txt
  environment: {PATH: "/bin:/usr/bin", GREETING: hello}
script: |
  #!/bin/sh
  echo $GREETING $SLURM_JOB_NAME $SLURM_NTASKS
  exit 3
"""


def test_a_job_file_becomes_a_job(cluster: LiveCluster) -> None:
    (cluster.work / "train.yaml").write_text(JOB)
    done = cluster.run("penstock", "submit", "--wait", "train.yaml")
    assert (done.status, done.err) == (3, "")
    job_id = int(done.out.removeprefix("Submitted batch job "))
    assert (cluster.work / "out.txt").read_text() == "hello train 2\n"
    assert cluster.job(job_id).time_limit_s == 300


def test_what_the_controller_refuses_is_told_as_by_sbatch(cluster: LiveCluster) -> None:
    (cluster.work / "bad.yaml").write_text(JOB.replace("tasks: 2", "tasks: 2\n  partition: nowhere"))
    done = cluster.run("penstock", "submit", "bad.yaml")
    assert (done.status, done.out) == (1, "")
    assert "invalid partition specified: nowhere" in done.err
    (cluster.work / "bad.yaml").write_text(JOB.replace("tasks: 2", "task: 2"))
    done = cluster.run("penstock", "submit", "bad.yaml")
    assert (done.status, done.err) == (
        1,
        "penstock: error: bad.yaml:2:3: job/task: unknown member: is tasks meant?\n",
    )
