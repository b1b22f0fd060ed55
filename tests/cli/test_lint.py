"""sbatch --lint: each rule on scripts with and without its mistake, and what the controller is asked."""

import json

import pytest

from cli.base.options import OptionValues
from cli.lint.lint import RULES, LintReservation, crossing, lint
from cli.lint.lintrun import RULE_NAMES
from cli.lint.lintwords import read
from cli.sbatch import COMMAND, body
from penstock.errors import PenstockError, Unreachable
from penstock.v1.controller_pb2 import (
    ListPartitionsReply,
    ListReservationsReply,
    PartitionInfo,
    ReservationInfo,
    SubmitJobReply,
)
from penstock.values.refusals import TEXT, Code
from tests.cli.fake_controller import FakeClient, run_body

EXAMPLE = """\
#!/bin/bash
#SBATCH --job-name=llm-finetune
#SBATCH --nodes=4
#SBasks --ntasks-per-node=8
#SBATCH --gres=gpu:8
#SBATCH --constraint=ib_hdr # Require InfiniBand HDR
srun torchrun \\
  --nnodes=$SLURM_NNODES \\
  --nproc_per_node=8 \\
  --rdzv_endpoint=$(scontrol show hostnames | head -1):29500 \\
  train.py --config configs/7b_lora.yaml
"""


def found(text: str, **outside: object) -> list[tuple[int, str]]:
    return [
        (f.line, f.rule) for f in lint(read(text.encode("utf-8", "surrogateescape"), COMMAND, OptionValues(outside)))
    ]


def script(head: str, rest: str = "true") -> str:
    return f"#!/bin/sh\n{head}\n{rest}\n"


def test_the_example_with_the_misspelt_line() -> None:
    findings = lint(read(EXAMPLE.encode(), COMMAND, OptionValues()))
    assert [(f.line, f.rule) for f in findings] == [(4, "misspelt-directive"), (7, "n-times-n")]
    assert findings[0].fix == "#SBATCH --ntasks-per-node=8"
    assert findings[1].text == (
        "line 4 is meant to request 8 tasks on a node, and srun starts torchrun in each, which starts 8: 64 processes on a node"
    )


def test_a_script_in_order() -> None:
    text = script(
        "# a comment\n\n#SBATCH -n 4 --time=10 # ten minutes\n#SBATCH --comment='a # b' -o %x-%j.out", "srun ./a"
    )
    assert found(text) == []


@pytest.mark.parametrize(
    ("line", "is_meant"),
    [
        ("#SBasks --ntasks=1", True),
        ("#SBACTH -N 2", True),
        ("# SBATCH --nodes=2", True),
        ("#sbatch --mem=4G", True),
        ("#SBATCH: --mem=4G", False),  # begins as one, and is read as one: see bad-option
        ("  #SBATCH --mem=4G", True),
        ("#SBTACH --ntask=4", True),
        ("##SBATCH --mem=4G", False),  # the way to switch one off
        ("# see the manual of sbatch - it is long", False),
        ("# batch -- of jobs", False),
        ("# SBATCH options follow", False),
        ("# start --fast", False),
        ("#SBATCH --mem=4G", False),
    ],
)
def test_misspelt_directives(line: str, is_meant: bool) -> None:
    assert ((2, "misspelt-directive") in found(script(line))) is is_meant


@pytest.mark.parametrize(
    ("line", "rule", "fix"),
    [
        ("#SBATCH --ntask-per-node=4", "bad-option", "--ntasks-per-node=4"),
        ("#SBATCH --cpus_per_task=4", "bad-option", "--cpus-per-task=4"),
        ("#SBATCH --time = 10", "bad-option", "--time=10, without blanks around ="),
        ("#SBATCH -N=2", "bad-option", "-N 2"),
        ("#SBATCH -nodes=2", "bad-option", "--nodes=2"),
        ("#SBATCH --mem=lots", "bad-option", ""),
        ('#SBATCH -J "abc', "bad-option", ""),
        ("#SBATCH --mem=4G per node", "stray-word", "begin a comment with a blank and #"),
        (
            "#SBATCH -J run#3 --nodes=2",
            "cut-value",
            "write run\\#... or put it into quotes; before a comment put a blank",
        ),
        ("#SBATCH -o logs/$SLURM_JOB_ID.out", "shell-word", "give the option on the command line"),
        (
            "#SBATCH --output=logs/${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID.out",
            "shell-word",
            "--output=logs/%A_%a.out",
        ),
        ("#SBATCH --chdir=~/run", "shell-word", "give --chdir=... on the command line"),
        ("#SBATCH --job-name=`date`", "shell-word", "give --job-name=... on the command line"),
    ],
)
def test_options(line: str, rule: str, fix: str) -> None:
    (finding,) = lint(read(script(line).encode(), COMMAND, OptionValues()))
    assert (finding.line, finding.rule) == (2, rule)
    assert finding.fix.startswith(fix)


def test_what_stands_too_late() -> None:
    assert found(script("#SBATCH -n1", "module load cuda\n#SBATCH --mem=4G")) == [(4, "late-directive")]


@pytest.mark.parametrize(
    ("data", "rules"),
    [
        ("", [(1, "no-interpreter")]),
        ("\n\n", [(1, "no-interpreter")]),
        ("#SBATCH -n1\ntrue\n", [(1, "no-interpreter")]),
        ("\n#!/bin/sh\n", [(1, "no-interpreter")]),
        ("#!/bin/sh\ntrue\r\n", [(2, "dos-lines")]),
        ("#!/bin/sh\nx\0\n", [(2, "null-byte")]),
        ("#!/bin/sh\n\udcff\n", []),
    ],
)
def test_what_cannot_run(data: str, rules: list[tuple[int, str]]) -> None:
    assert found(data) == rules


@pytest.mark.parametrize(
    ("head", "command", "text"),
    [
        ("--ntasks-per-node=8", "srun torchrun --nproc_per_node 8 t.py", "64 processes"),
        ("-N2 -n16", "time srun python -m torch.distributed.run --nproc-per-node=4 t.py", "32 processes"),
        ("--ntasks-per-node=4 --gpus-per-node=4", "srun torchrun --nproc_per_node=gpu t.py", "16 processes"),
        ("--ntasks-per-node=4 --gres=gpu:2", "srun torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py", "8 processes"),
        ("--ntasks-per-node=4", "srun torchrun --nproc_per_node=$N t.py", "4 times $N processes"),
        ("-N2 --ntasks-per-node=4", "srun accelerate launch --num_processes 8 t.py", "16 processes"),
        ("-n4", "srun mpirun -np 4 ./a", "16 processes"),
        ("-N1", "srun -n 4 torchrun --nproc_per_node=4 t.py", "16 processes"),
        ("--ntasks-per-node=8", "srun --ntasks-per-node=1 torchrun --nproc_per_node=8 t.py", ""),
        ("--ntasks-per-node=1", "srun torchrun --nproc_per_node=8 t.py", ""),
        ("--ntasks-per-node=8", "srun python train.py --nproc_per_node=8", ""),
        ("--ntasks-per-node=8", "srun torchrun --nproc_per_node=1 t.py", ""),
        ("-n4", "mpirun -np 4 ./a", ""),
        ("-N4", "torchrun --nnodes=4 --nproc_per_node=8 t.py", "starts on the first of 4 nodes alone"),
        ("-N1", "torchrun --nproc_per_node=8 t.py", ""),
        ("-N4", "for n in $hosts; do ssh $n torchrun --nproc_per_node=8 t.py & done", ""),
    ],
)
def test_launchers(head: str, command: str, text: str) -> None:
    findings = lint(read(script(f"#SBATCH {head}", command).encode(), COMMAND, OptionValues()))
    assert [f.rule for f in findings] == ["n-times-n"] * bool(text)
    assert not text or text in findings[0].text


HOUR_US = 3600 * 1_000_000


@pytest.mark.parametrize(
    ("values", "limit_s", "longest_s"),
    [
        ({}, 3600, None),  # it ends before
        ({}, 3 * 3600, 2 * 3600),
        ({}, -1, 2 * 3600),
        ({"nodes": (3, 3)}, 3 * 3600, 2 * 3600),
        ({"reservation": "other,service"}, -1, None),
    ],
)
def test_reservations(values: dict[str, object], limit_s: int, longest_s: int | None) -> None:
    service = LintReservation("service", 12 * HOUR_US, 14 * HOUR_US, frozenset({"n1", "n2"}))
    got = list(crossing(OptionValues(values), limit_s, frozenset({"n1", "n2"}), [service], 10 * HOUR_US))
    assert got == ([] if longest_s is None else [(service, longest_s)])
    assert not list(
        crossing(OptionValues(), limit_s, frozenset({"n1", "n2", "n3"}), [service], 10 * HOUR_US)
    )  # n3 is left


# ---- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return FakeClient(
        SubmitJob=SubmitJobReply(job_id=9, start_at_us=10**15, cpus=4, node_list="n1", partition="p"),
        ListReservations=ListReservationsReply(),
        ListPartitions=ListPartitionsReply(partitions=[PartitionInfo(name="p", is_default=True, nodes=["n1"])]),
    ).install(monkeypatch)


def run(capsys, text, *argv):
    with open("job.sh", "w") as file:
        file.write(text)
    return run_body(capsys, "sbatch", body, "--lint", *argv, "job.sh")


def test_nothing_found_nothing_queued(client, capsys):
    status, out, err = run(capsys, script("#SBATCH -n4"))
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("job.sh: it would start at 2001-09-09T")
    assert out.splitlines()[1:] == ["job.sh: nothing found, nothing was queued"]
    assert all(request.test_only for method, request in client.calls if method == "SubmitJob")
    assert next(request for method, request in client.calls if method == "SubmitJob").job.ntasks == 4


def test_what_is_refused_and_what_crosses(client, capsys):
    client.answers["SubmitJob"] = PenstockError(Code.INVALID_QOS, TEXT[Code.INVALID_QOS])
    far = 4 * 10**15
    client.answers["ListReservations"] = ListReservationsReply(
        reservations=[ReservationInfo(name="service", start_at_us=far, end_at_us=far + 1, node_list="n[1-2]")]
    )
    status, out, err = run(capsys, script("#SBATCH -t UNLIMITED"), "-J", "x")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "job.sh: refused: sbatch would be refused: Invalid qos specification"
    assert lines[1].startswith(
        "job.sh:2: crosses-reservation: with no time limit the job runs into reservation service"
    )
    assert lines[2].startswith("    --time=") and lines[3] == "job.sh: 2 findings, nothing was queued"


def test_a_document(client, capsys):
    status, out, _ = run(capsys, script("#SBATCH --ntask=2"), "--json")
    document = json.loads(out)
    assert status == 1
    assert document["script"] == "job.sh"
    assert [(f["line"], f["rule"]) for f in document["findings"]] == [(2, "bad-option")]
    assert document["start"] == {"time": 10**9, "cpus": 4, "nodes": "n1", "partition": "p"}


def test_a_controller_that_is_away(client, capsys):
    client.answers["SubmitJob"] = Unreachable("Unable to contact slurm controller (connect failure)", "")
    status, out, err = run(capsys, script("#SBATCH --mem=lots"))
    assert status == 1 and "bad-option" in out
    assert err == (
        "sbatch: warning: the controller was not asked: Unable to contact slurm controller (connect failure)\n"
    )


def test_the_table_names_all_rules():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {"no-interpreter", "misspelt-directive", "late-directive", "n-times-n", "refused"} <= set(RULE_NAMES)


def test_findings_have_a_column_and_a_severity() -> None:
    text = "#!/bin/sh\n#SBATCH -n 4 now\n#SBATCH --output=$HOME/x\n  # SBATCH -n 2\n#SBATCH -J a#b\n#SBATCH --tiem=1\n"
    findings = lint(read(text.encode(), COMMAND, OptionValues()))
    assert [(f.line, f.column, f.severity) for f in findings] == [
        (2, 14, "error"), (3, 9, "warning"), (4, 3, "warning"), (5, 12, "warning"), (6, 9, "error"),
    ]  # fmt: skip


@pytest.mark.parametrize("count", ["\u00b2", "9" * 5000])
def test_a_number_of_processes_that_is_none(count: str) -> None:
    """It is text then, as a variable is."""
    assert found(script("#SBATCH -n 4", f"srun mpirun -n {count} a")) == [(3, "n-times-n")]
