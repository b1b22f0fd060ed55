# Completion of swait in fish. Written by tools/manual; do not edit.
complete -c swait -l follow -d 'report every step as it ends'
complete -c swait -l quiet -s Q -d 'suppress informational messages'
complete -c swait -l timeout -r -d 'give up after so many seconds'
complete -c swait -l verbose -s v -d 'tell what is waited for'
complete -c swait -l help -s h -d 'show this help message'
complete -c swait -l usage -d 'display brief usage message'
complete -c swait -l version -s V -d 'output version information and exit'
complete -c swait -f -a '(squeue -a -h -o %i 2>/dev/null)'
