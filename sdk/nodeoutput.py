"""The output of a job that has ended, read on a node that had it: for a file that this machine does not see.

Each part is read by a process on the node that becomes the user (nodedaemon/stepd/outputreader.py), of a file that the job's
record names. The controller decides who may.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from cli.listings.liveoutput import NoOutput, OutputPart, OutputQuestion, opened_part
from penstock.values.jobid import BATCH_STEP
from penstock.values.outputtail import STDERR, STDOUT
from penstock.values.refusals import Code
from sdk.errors import RequestRefused
from sdk.records import JobRecord

if TYPE_CHECKING:
    from cli.base.queryclient import QueryClient

#: For one part: one of the user's others on that node may be read at the moment.
PART_S: Final = 10.0


class NodeOutput:
    """The output of one job. Methods raise RequestRefused with the node's reason, and PenstockError."""

    def __init__(self, client: "QueryClient", record: JobRecord, error: bool = False) -> None:
        """`error`: the error output, if it has a file of its own."""
        self._client = client
        stream = STDERR if error and record.stderr_path else STDOUT
        self._asked = OutputQuestion(record.job_id, BATCH_STEP, None, stream, 0, 0)

    def whole(self) -> Iterator[str]:
        """From its beginning, in pieces."""
        asked = self._asked
        while True:
            part = self._part(asked)
            if part.text:
                yield part.text
            if not part.text or part.next_offset >= part.size:
                return
            asked = asked._replace(offset=part.next_offset)

    def last(self, lines: int) -> str:
        """The last lines: of one part, if that has so many, else of all."""
        if lines <= 0:
            return ""
        part = self._part(self._asked._replace(offset=None, lines=lines))
        found = part.text.count("\n") + (not part.text.endswith("\n"))
        if part.offset == 0 or found >= lines:
            return part.text
        kept: deque[str] = deque(maxlen=lines)
        rest = ""
        for text in self.whole():
            *ended, rest = (rest + text).split("\n")
            kept.extend(ended)
        return "\n".join([*kept, rest][-(lines + (rest == "")) :])

    def _part(self, asked: OutputQuestion) -> OutputPart:
        try:
            return opened_part(self._client, asked, PART_S)
        except NoOutput as problem:
            raise RequestRefused(Code.INVALID_JOB_ID, str(problem)) from None
