"""What a run costs, before it runs: jobs, forwards, tokens, FLOPs, time, memory and disk."""
