"""The grammar of sacctmgr, its files and its requests. Never checks permissions: the controller does."""
