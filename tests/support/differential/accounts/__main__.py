"""See differential/comparison.py. Usage: python -m differential.accounts [compare | record | ours | open] [PATTERN]"""

import sys
from pathlib import Path

from differential.accounts.peers import AccountingOurs, AccountingSlurm
from differential.comparison import Comparison, main

ACCOUNTS = Comparison(Path(__file__).parent, AccountingSlurm, AccountingOurs)

if __name__ == "__main__":
    sys.exit(main(ACCOUNTS, sys.argv[1:]))
