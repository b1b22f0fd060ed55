# Completion of seff in fish. Written by tools/manual; do not edit.
complete -c seff -l json -d 'produce JSON output'
complete -c seff -l yaml -d 'produce YAML output'
complete -c seff -l help -s h -d 'show this help message'
complete -c seff -l usage -d 'display brief usage message'
complete -c seff -l version -s V -d 'output version information and exit'
complete -c seff -f -a '(squeue -a -h -o %i 2>/dev/null)'
