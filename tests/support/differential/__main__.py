"""See comparison.py. Usage: python -m differential [compare | record | ours | open] [PATTERN]"""

import sys
from pathlib import Path

from differential.comparison import Comparison, main
from differential.peers import Ours, Slurm

COMMANDS = Comparison(Path(__file__).parent, Slurm, Ours)

if __name__ == "__main__":
    sys.exit(main(COMMANDS, sys.argv[1:]))
