# Completion of scrontab in fish. Written by tools/manual; do not edit.
complete -c scrontab -l edit -s e -d 'edit the crontab with $VISUAL, $EDITOR or vi'
complete -c scrontab -l list -s l -d 'print the crontab'
complete -c scrontab -l remove -s r -d 'remove the crontab: running jobs continue and do not recur'
complete -c scrontab -l user -s u -r -f -a '(getent passwd | cut -d: -f1 2>/dev/null)' -d 'of another user: operators may list, administrators change it'
complete -c scrontab -l verbose -s v -d 'show the jobs\' ids'
complete -c scrontab -l help -s h -d 'show this help message'
complete -c scrontab -l usage -d 'display brief usage message'
complete -c scrontab -l version -s V -d 'output version information and exit'
