# $1 options, $2 option:kind pairs, $3 keywords, $4 kind of the other words. In a list, what is behind the last comma.
_penstock_complete() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} kind= pair words first=
  COMPREPLY=()
  if [[ $current == = ]]; then current=; fi
  if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  for pair in $2; do
    if [[ ${pair%%:*} == "$before" ]]; then kind=${pair##*:}; fi
  done
  if [[ -z $kind && $current == -* ]]; then
    COMPREPLY=($(compgen -W "$1" -- "$current"))
    if [[ ${COMPREPLY[0]} == *= && ${#COMPREPLY[@]} -eq 1 ]]; then compopt -o nospace; fi
    return
  fi
  if [[ -z $kind && -n $3 && $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W "$3" -- "$current"))
    return
  fi
  kind=${kind:-$4}
  if [[ -z $kind ]]; then return; fi
  words=$(_penstock_values "$kind")
  if [[ $current == *,* ]]; then first=${current%,*},; fi
  COMPREPLY=($(compgen -P "$first" -W "$words" -- "${current##*,}"))
}
