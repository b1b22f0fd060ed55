"""`penstock db`: administration of the database. Runs on the controller's machine, on the database itself."""
