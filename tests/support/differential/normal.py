"""What may differ between two runs, made alike: moments, run times, paths, the machine's name, process numbers.

A replacement keeps the width, so that columns still tell whether they are as wide as they should be.
"""

import re
from collections.abc import Sequence

#: Moments before the year 2030 are those of the run; later ones were asked for and are compared.
MOMENT = re.compile(r"20[12]\d-\d\d-\d\dT\d\d:\d\d:\d\d")
#: Run times of less than ten minutes, and what is left of a limit of whole hours.
SHORT = re.compile(r"(?<![\d:-])(?:00:0|0)?\d:\d\d(?![\d:])")
LEFT = re.compile(r"(?<![\d:])(\d-)?\d?\d:5\d:\d\d(?![\d:])")
PRIORITY = re.compile(r"\b42949\d{5}\b")
UNIT = re.compile(r"\b0\.00023\d{3,13}|0\.99999\d{3,13}|0\.9999\d{3,13}")
SID = re.compile(r"(AllocNode:Sid=)\S+")
EPOCH = re.compile(r"\b1[789]\d{8}\b")
DATE = re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}")
VERSION = re.compile(r"slurm(-wlm)? [0-9.]+")
#: Where a machine has several slurmd, stepd names its node.
STEPD = re.compile(r"slurmstepd-\w+:")
SUBMITTED = re.compile(r"(Submitted batch job|job allocation) \d+")


def same_width(pattern: re.Pattern[str], letter: str, text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"\d", letter, found.group()), text)


def normal(text: str, paths: Sequence[tuple[str, str]] = ()) -> str:
    """One stream of one command, normalised. paths: texts and what stands for them."""
    for path, word in paths:
        text = re.sub(rf"(?<!\w){re.escape(path)}(?!\w)", word, text)  # a machine may be called vm, and a TRES is vmem
    text = DATE.sub("<DATE>", text)
    text = same_width(MOMENT, "#", text)
    text = same_width(LEFT, "~", text)
    text = same_width(SHORT, "~", text)
    text = PRIORITY.sub("<PRIORITY>", text)
    text = UNIT.sub("<UNIT>", text)
    text = EPOCH.sub("<EPOCH>", text)
    text = SID.sub(r"\1<SID>", text)
    text = STEPD.sub("slurmstepd:", text)
    text = SUBMITTED.sub(r"\1 <ID>", text)
    return VERSION.sub("slurm <VERSION>", text)
