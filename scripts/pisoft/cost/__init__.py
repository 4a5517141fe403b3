"""What a run costs, before it runs: jobs, tokens, FLOPs and time."""
