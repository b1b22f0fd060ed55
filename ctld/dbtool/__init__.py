"""`penstock db`: the database from its administrator's side. Runs on the controller's machine, on the database itself."""
