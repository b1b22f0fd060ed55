"""Job files: the body of job/submit in YAML, TOML or JSON, and `penstock submit` that sends it. Never decides what a body may
have: that is the contract's.

places      where a member stands in a file's text
reading     a file's text as a value, and the places of its members
command     the checks that REST makes, told by line and column; the submission
"""
