"""Reads a job completion file of Slurm's jobcomp/filetxt as records: for `sacct -f`, after a change from Slurm.

A line is a job that has ended: `JobId=3 UserId=ann(1000) Name=x JobState=COMPLETED ... ExitCode=0:0`. Values may
contain blanks and `=`, so they end where the next known key begins. Other lines are an error with their number. The
file is opened as the user who runs sacct. The filters of the command line are applied here, without the controller.
"""

from collections.abc import Iterator
from typing import IO

from cli.base.run import CommandError
from penstock.v1.accounting_pb2 import JobRecord, ListRecordsRequest
from penstock.v1.common_pb2 import ExitStatus, JobRequest
from penstock.values.completionline import NEXT_WORD
from penstock.values.dates import parse_date_us
from penstock.values.duration import parse_duration_s
from penstock.values.errors import BadValue
from penstock.values.hostlist import expand
from penstock.values.jobid import JobSelector, parse_selector

LINE_CHARS_MAX = 65536
_NOTHING = frozenset(("", "(null)", "Unknown", "None assigned"))


def read(path: str, asked: ListRecordsRequest, now_us: int) -> list[JobRecord]:
    """Reads the records of a file that match. Raises CommandError."""
    wanted = _Filters(asked)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return [record for record in records(path, file, now_us) if wanted.matches(record)]
    except (FileNotFoundError, IsADirectoryError) as error:
        raise CommandError(f"{path} is not a valid file", plain=True) from error


def records(path: str, file: IO[str], now_us: int) -> Iterator[JobRecord]:
    """The lines of an open file."""
    number = 0
    while line := file.readline(LINE_CHARS_MAX + 1):
        number += 1
        if not line.strip():
            continue
        try:
            if len(line) > LINE_CHARS_MAX:
                raise BadValue(f"more than {LINE_CHARS_MAX} characters")
            yield _record(_pairs(line), now_us)
        except (BadValue, ValueError, KeyError) as error:
            raise CommandError(f"{path}:{number}: not a line of a job completion file: {error}") from error


def _pairs(line: str) -> dict[str, str]:
    found = list(NEXT_WORD.finditer(line))
    ends = [match.start() for match in found[1:]] + [len(line)]
    pairs = {match[1]: line[match.end() : end].strip() for match, end in zip(found, ends, strict=True)}
    return {word: "" if text in _NOTHING else text for word, text in pairs.items()}


def _record(said: dict[str, str], now_us: int) -> JobRecord:
    user, group = _owner(said.get("UserId", "")), _owner(said.get("GroupId", ""))
    nodes, cpus = int(said.get("NodeCnt") or 0), int(said.get("ProcCnt") or 0)
    record = JobRecord(
        job_id=int(said["JobId"]), array_job_id=int(said.get("ArrayJobId") or 0), state=said["JobState"].partition(" ")[0],
        reason="None", user_name=user[0], user_id=user[1], group_name=group[0], group_id=group[1],
        partition=said.get("Partition", ""), submit_at_us=_date(said, "SubmitTime", now_us),
        eligible_at_us=_date(said, "EligibleTime", now_us), start_at_us=_date(said, "StartTime", now_us),
        end_at_us=_date(said, "EndTime", now_us), time_limit_s=_limit_s(said.get("TimeLimit", "")),
        node_list=said.get("NodeList", ""), nodes_req=nodes, nodes_alloc=nodes, cpus_req=cpus, cpus_alloc=cpus,
        tres_alloc=said.get("Tres", ""), exit=_exit(said.get("ExitCode", "")),
        derived_exit=_exit(said.get("DerivedExitCode", "")), cancelled_by_uid=-1, cluster=said.get("Cluster", ""),
        het_job_id=int(said.get("HetJobId") or 0), het_offset=int(said.get("HetJobOffset") or 0),
        wckey=said.get("WcKey", ""),
        request=JobRequest(
            name=said.get("Name", ""), account=said.get("Account", ""), qos=said.get("QOS", ""),
            wckey=said.get("WcKey", ""), reservation=said.get("ReservationName", ""),
            work_dir=said.get("WorkDir", "").encode("utf-8", "surrogateescape"),
        ),
    )  # fmt: skip
    if said.get("ArrayTaskId"):
        record.array_task_id = int(said["ArrayTaskId"])
    return record


def _owner(text: str) -> tuple[str, int]:
    name, _, number = text.rstrip(")").partition("(")
    return name, int(number or 0)


def _date(said: dict[str, str], word: str, now_us: int) -> int:
    text = said.get(word, "")
    return parse_date_us(text, now_us, past=True) if text not in ("", "unknown") else 0  # Slurm 22.05 writes it so


def _limit_s(text: str) -> int:
    if not text or text == "UNLIMITED":
        return -1
    return 0 if text == "Partition_Limit" else parse_duration_s(text)


def _exit(text: str) -> ExitStatus:
    code, _, signal = text.partition(":")
    return ExitStatus(code=int(code or 0), signal=int(signal or 0))


class _Filters:
    """The filters of a query, applied to a job that has ended."""

    def __init__(self, asked: ListRecordsRequest) -> None:
        self.asked = asked
        self.selectors = [parse_selector(text) for text in asked.ids]
        self.nodes = {name for text in asked.nodes for name in expand(text)}

    def matches(self, record: JobRecord) -> bool:
        asked = self.asked
        listed = (
            (asked.users, str(record.user_id)), (asked.accounts, record.request.account), (asked.partitions, record.partition),
            (asked.names, record.request.name), (asked.states, record.state), (asked.qos, record.request.qos),
            (asked.wckeys, record.wckey), (asked.group_ids, record.group_id),
        )  # fmt: skip
        return (
            all(not values or value in values for values, value in listed)
            and (not self.selectors or any(self._is_meant(one, record) for one in self.selectors))
            and (not self.nodes or not self.nodes.isdisjoint(expand(record.node_list) if record.node_list else ()))
            and record.end_at_us >= asked.start_at_us
            and (not asked.end_at_us or record.submit_at_us <= asked.end_at_us)
        )

    @staticmethod
    def _is_meant(one: JobSelector, record: JobRecord) -> bool:
        if one.submitted_s is not None:
            return one.is_of(record.job_id, record.submit_at_us)
        if one.tasks is not None:
            return one.job_id == record.array_job_id and record.array_task_id in one.tasks
        return one.job_id in (record.job_id, record.array_job_id, record.het_job_id)
