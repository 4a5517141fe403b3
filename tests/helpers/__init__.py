"""Building blocks of tests: models, runs, result rows, and fakes of external systems."""
