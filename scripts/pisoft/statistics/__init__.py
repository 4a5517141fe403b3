"""From results to numbers: summaries, bootstrap, tests, ranks, agreement; without torch."""
