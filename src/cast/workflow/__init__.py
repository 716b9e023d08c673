"""The workflow's own code: what each step depends on, and the run that `make reproduce` starts."""
