#!/usr/bin/env python3
# requires: small
"""clusterfutures: an executor whose futures are jobs (sbatch on stdin, results as files), mapped as a job array."""

import os
import sys
import tempfile
import traceback

NAME = "clusterfutures"
LIMIT_S = float(os.environ.get("CASE_LIMIT_S", "240"))


def square(n):
    return n * n


def main():
    os.chdir(tempfile.mkdtemp(prefix="case-cfut-", dir=os.environ.get("CASE_TMP", "/tmp")))
    import cfut

    with cfut.SlurmExecutor(additional_setup_lines=["#SBATCH --mem=200M"]) as executor:
        assert list(executor.map(square, [5, 7])) == [25, 49]
        assert executor.submit(square, 3).result(timeout=LIMIT_S) == 9
        assert sorted(cfut.map(executor, square, [1, 2])) == [1, 4]


if __name__ == "__main__":
    try:
        main()
    except BaseException as e:
        traceback.print_exc()
        print(f"FAIL {NAME}: {type(e).__name__}: {e}")
        sys.stdout.flush()
        os._exit(1)
    print("ok", NAME)
    sys.stdout.flush()
    os._exit(0)
