# Completion of swait in fish. Written by tools/manual; do not edit.
complete -c swait -l follow -d 'report every step as it ends'
complete -c swait -l quiet -s Q -d 'suppress informational messages'
complete -c swait -l timeout -r -d 'fail after this many seconds'
complete -c swait -l verbose -s v -d 'show the steps that it waits for'
complete -c swait -l help -s h -d 'show this help message'
complete -c swait -l usage -d 'display brief usage message'
complete -c swait -l version -s V -d 'output version information and exit'
complete -c swait -f -a '(squeue -a -h -o %i 2>/dev/null)'
